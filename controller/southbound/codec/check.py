"""Check all lengths of a message before it is decoded, so that a malformed one can neither hang nor crash a decoder.

Invariants: every loop advances by at least a header (`_element` returns more than its `start`) and never past the end
of the enclosing structure. *Malformed* means that lengths are inconsistent, or that a switch may not send this type of
message: the session is closed. Well-formed but unknown elements (an OXM class, a vendor's action) pass the check, and
decoding keeps them as opaque bytes.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct

from heddle.controller.southbound.codec.wire import HEADER, VERSION, MessageType, MultipartType, type_name

MAX_ECHO_BYTES = 1024
MAX_HELLO_BYTES = 1024
MAX_MESSAGE_BYTES = 0xFFFF

_U16 = Struct("!H").unpack_from
_TWO_U16 = Struct("!HH").unpack_from
_OXM = Struct("!HBB").unpack_from

OXM_BASIC = 0x8000
OXM_EXPERIMENTER = 0xFFFF
# Value widths in bytes of the OXM fields 0 to 39 of OpenFlow 1.3, table 11 of the specification.
_OXM_WIDTHS = (
    4, 4, 8, 6, 6, 2, 2, 1, 1, 1, 1, 4, 4, 2, 2, 2, 2, 2, 2, 1,
    1, 2, 4, 4, 6, 6, 16, 16, 4, 1, 1, 16, 6, 6, 4, 1, 1, 3, 8, 2,
)  # fmt: skip

# Fixed lengths by type. Other types (an experimenter's, a later version's) have any length.
_ACTION_BYTES = {0: 16} | dict.fromkeys((11, 12, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 27), 8)
_SET_FIELD = 25
_INSTRUCTION_BYTES = {1: 8, 2: 24, 6: 8}
_INSTRUCTIONS_OF_ACTIONS = (3, 4, 5)
_CLEAR_ACTIONS = 5


class MalformedMessageError(Exception):
    """A message that must not be decoded; `reason` names the violation and its byte offset."""

    def __init__(self, reason: str, offset: int | None = None) -> None:
        self.reason = reason if offset is None else f"{reason} at byte {offset}"
        super().__init__(self.reason)


def check_header(version: int, kind: int, length: int) -> None:
    """Check a message's header before the rest has arrived; raises MalformedMessageError."""
    if version != VERSION and kind != MessageType.HELLO:
        raise MalformedMessageError(f"{type_name(kind)}: version {version} is not OpenFlow 1.3")
    bounds = _BOUNDS.get(kind)
    if bounds is None:
        raise MalformedMessageError(f"{type_name(kind)} is not a message that a switch may send here")
    if not bounds[0] <= length <= bounds[1]:
        raise MalformedMessageError(f"{type_name(kind)}: length {length}")


def check(message: bytes) -> None:
    """Check one whole message; raises MalformedMessageError."""
    if len(message) < HEADER.size:
        raise MalformedMessageError(f"a message of {len(message)} bytes")
    version, kind, length, _ = HEADER.unpack_from(message)
    check_header(version, kind, length)
    if length != len(message):
        raise MalformedMessageError(f"{type_name(kind)}: length {length} of a message of {len(message)} bytes")
    body = _BODIES.get(kind)
    if body is not None:
        body(message, length)


def _element(b: bytes, start: int, end: int, what: str, length_at: int, least: int, multiple: int = 1) -> int:
    """Return the end offset of the element at `start`: greater than `start`, at most `end`."""
    if end - start < least:
        raise MalformedMessageError(f"{what}: cut short", start)
    length: int = _U16(b, start + length_at)[0]
    if length < least or length % multiple or length > end - start:
        raise MalformedMessageError(f"{what}: length {length}", start)
    return start + length


def _hello(b: bytes, end: int) -> None:
    at = 8
    while at < end:
        after = _element(b, at, end, "HELLO element", 2, 4)
        kind, length = _TWO_U16(b, at)
        if kind == 1 and (length < 8 or length % 4):
            raise MalformedMessageError(f"HELLO version bitmap: length {length}", at)
        at += (after - at + 7) & ~7


def _error(b: bytes, end: int) -> None:
    if _U16(b, 8)[0] == 0xFFFF and end < 16:
        raise MalformedMessageError("ERROR: experimenter error cut short", 8)


def _oxms(b: bytes, at: int, end: int) -> None:
    while at < end:
        if end - at < 4:
            raise MalformedMessageError("OXM field: cut short", at)
        oxm_class, field, length = _OXM(b, at)
        if length == 0 or length > end - at - 4:
            raise MalformedMessageError(f"OXM field: length {length}", at)
        if oxm_class == OXM_BASIC and field >> 1 < len(_OXM_WIDTHS):
            if length != _OXM_WIDTHS[field >> 1] << (field & 1):
                raise MalformedMessageError(f"OXM field {field >> 1}: length {length}", at)
        elif oxm_class == OXM_EXPERIMENTER and length < 4:
            raise MalformedMessageError(f"OXM experimenter field: length {length}", at)
        at += 4 + length


def _match(b: bytes, at: int, end: int) -> int:
    """Check a match and its padding; return their end offset."""
    if end - at < 8:
        raise MalformedMessageError("match: cut short", at)
    kind, length = _TWO_U16(b, at)
    padded: int = at + ((length + 7) & ~7)
    if kind != 1 or length < 4 or padded > end:
        raise MalformedMessageError(f"match: type {kind}, length {length}", at)
    _oxms(b, at + 4, at + length)
    return padded


def _actions(b: bytes, at: int, end: int) -> None:
    while at < end:
        after = _element(b, at, end, "action", 2, 8, 8)
        kind = _U16(b, at)[0]
        if after - at != _ACTION_BYTES.get(kind, after - at):
            raise MalformedMessageError(f"action type {kind}: length {after - at}", at)
        if kind == _SET_FIELD:
            field_end = at + 8 + b[at + 7]
            if not 0 <= after - field_end < 8:
                raise MalformedMessageError(f"set-field action: length {after - at}", at)
            _oxms(b, at + 4, field_end)
        at = after


def _instructions(b: bytes, at: int, end: int) -> None:
    while at < end:
        after = _element(b, at, end, "instruction", 2, 8, 8)
        kind = _U16(b, at)[0]
        if after - at != _INSTRUCTION_BYTES.get(kind, after - at) or (kind == _CLEAR_ACTIONS and after - at != 8):
            raise MalformedMessageError(f"instruction type {kind}: length {after - at}", at)
        if kind in _INSTRUCTIONS_OF_ACTIONS:
            _actions(b, at + 8, after)
        at = after


def _packet_in(b: bytes, end: int) -> None:
    data_at = _match(b, 24, end) + 2
    if data_at > end or end - data_at > _U16(b, 12)[0]:
        raise MalformedMessageError("PACKET_IN: more data than the packet had, or no room for the padding", 24)


def _flow_removed(b: bytes, end: int) -> None:
    if _match(b, 48, end) != end:
        raise MalformedMessageError("FLOW_REMOVED: bytes after the match", 48)


def _flows(b: bytes, at: int, end: int) -> None:
    while at < end:
        after = _element(b, at, end, "flow statistics", 0, 56, 8)
        _instructions(b, _match(b, at + 48, after), after)
        at = after


def _group_statistics(b: bytes, at: int, end: int) -> None:
    while at < end:
        after = _element(b, at, end, "group statistics", 0, 40)
        if (after - at - 40) % 16:
            raise MalformedMessageError(f"group statistics: length {after - at}", at)
        at = after


def _group_descriptions(b: bytes, at: int, end: int) -> None:
    while at < end:
        after = _element(b, at, end, "group description", 0, 8, 8)
        if b[at + 2] > 3:
            raise MalformedMessageError(f"group description: type {b[at + 2]}", at)
        if after - at > _MAX_KNOWN_BYTES or not _are_buckets(b[at + 8 : after]):
            _buckets(b, at + 8, after)  # raises, with the place
        at = after


_MAX_KNOWN_BYTES = 4_096


@lru_cache(maxsize=1_024)
def _are_buckets(b: bytes) -> bool:
    """Return whether these bytes are well-formed buckets: switches of one tier have the same groups, of many ports."""
    try:
        _buckets(b, 0, len(b))
    except MalformedMessageError:
        return False
    return True


def _buckets(b: bytes, at: int, end: int) -> None:
    while at < end:
        after = _element(b, at, end, "bucket", 0, 16, 8)
        _actions(b, at + 16, after)
        at = after


def _meter_statistics(b: bytes, at: int, end: int) -> None:
    while at < end:
        after = _element(b, at, end, "meter statistics", 4, 40)
        if (after - at - 40) % 16:
            raise MalformedMessageError(f"meter statistics: length {after - at}", at)
        at = after


def _meter_configuration(b: bytes, at: int, end: int) -> None:
    while at < end:
        after = _element(b, at, end, "meter configuration", 0, 8)
        band = at + 8
        while band < after:
            band = _element(b, band, after, "meter band", 2, 16, 16)
        at = after


def _records(size: int, *, many: bool) -> Callable[[bytes, int, int], None]:
    """Make a check for bodies of one record, or any number, of a fixed size."""

    def check_records(b: bytes, at: int, end: int) -> None:
        if (end - at) % size or (not many and end - at != size):
            raise MalformedMessageError(f"MULTIPART_REPLY: a body of {end - at} bytes, records have {size}", at)

    return check_records


_MULTIPART_BODIES: dict[int, Callable[[bytes, int, int], None]] = {
    MultipartType.DESCRIPTION: _records(1056, many=False),
    MultipartType.FLOW: _flows,
    MultipartType.AGGREGATE: _records(24, many=False),
    MultipartType.TABLE: _records(24, many=True),
    MultipartType.PORT_STATS: _records(112, many=True),
    MultipartType.QUEUE: _records(40, many=True),
    MultipartType.GROUP: _group_statistics,
    MultipartType.GROUP_DESC: _group_descriptions,
    MultipartType.GROUP_FEATURES: _records(40, many=False),
    MultipartType.METER: _meter_statistics,
    MultipartType.METER_CONFIG: _meter_configuration,
    MultipartType.METER_FEATURES: _records(16, many=False),
    MultipartType.PORT_DESC: _records(64, many=True),
}


def _multipart(b: bytes, end: int) -> None:
    kind, flags = _TWO_U16(b, 8)
    body = _MULTIPART_BODIES.get(kind)
    if body is None:
        raise MalformedMessageError(f"MULTIPART_REPLY: body type {kind} was not requested", 8)
    if flags > 1:
        raise MalformedMessageError(f"MULTIPART_REPLY: flags {flags:#x}", 10)
    body(b, 16, end)


# Minimum and maximum length of every message that a switch may send; any other type closes the session.
_BOUNDS: dict[int, tuple[int, int]] = {
    MessageType.HELLO: (8, MAX_HELLO_BYTES),
    MessageType.ERROR: (12, MAX_MESSAGE_BYTES),
    MessageType.ECHO_REQUEST: (8, MAX_ECHO_BYTES),
    MessageType.ECHO_REPLY: (8, MAX_ECHO_BYTES),
    MessageType.FEATURES_REPLY: (32, 32),
    MessageType.GET_CONFIG_REPLY: (12, 12),
    MessageType.PACKET_IN: (34, MAX_MESSAGE_BYTES),
    MessageType.FLOW_REMOVED: (56, MAX_MESSAGE_BYTES),
    MessageType.PORT_STATUS: (80, 80),
    MessageType.MULTIPART_REPLY: (16, MAX_MESSAGE_BYTES),
    MessageType.BARRIER_REPLY: (8, 8),
    MessageType.ROLE_REPLY: (24, 24),
    MessageType.GET_ASYNC_REPLY: (32, 32),
}

_BODIES: dict[int, Callable[[bytes, int], None]] = {
    MessageType.HELLO: _hello,
    MessageType.ERROR: _error,
    MessageType.PACKET_IN: _packet_in,
    MessageType.FLOW_REMOVED: _flow_removed,
    MessageType.MULTIPART_REPLY: _multipart,
}

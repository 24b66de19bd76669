"""Count the repeated fields of a job request in its bytes, before it is parsed.

A message of a few megabytes may hold millions of members, each of which costs 100 times its size once it is parsed,
and the parser holds the interpreter until it has read all of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from heddle.controller.model.error import InputError
from heddle.controller.model.limit import (
    MAX_REQUEST_BYTES,
    MAX_REQUEST_COLLECTIVES,
    MAX_REQUEST_ENDS,
    MAX_REQUEST_MEMBERS,
    MAX_REQUEST_RANKS,
)

Descriptor = Any  # the stubs name two classes
LIMITS: dict[str, int] = {
    "ranks": MAX_REQUEST_RANKS,
    "collectives": MAX_REQUEST_COLLECTIVES,
    "pairs": MAX_REQUEST_ENDS,
    "flows": MAX_REQUEST_ENDS,
    "members": MAX_REQUEST_MEMBERS,
    "move_limits": 64,
}
"""The maximum number of each repeated field, in all collectives together."""
_OTHER = "fields"
_MAX_OTHER = 16 * MAX_REQUEST_COLLECTIVES
_MAX_ENDS_BYTES = 64
"""The maximum size of one pair or flow: four fields of at most 11 bytes, and room for new ones."""
_VARINT, _BYTES_8, _SIZED, _BYTES_4 = 0, 1, 2, 5
_CONTINUED = bytes(range(0x80, 0x100))
"""Every byte of a varint but its last."""


def refuse_large(data: bytes, kind: type[Message]) -> None:
    """Refuse a request of this kind that has more of a repeated field than LIMITS, by InputError.

    Malformed bytes are left to the parser.
    """
    if len(data) > MAX_REQUEST_BYTES:
        raise InputError(f"the request has {len(data):,} bytes; at most {MAX_REQUEST_BYTES:,} are read")
    counts: Counter[str] = Counter()
    try:
        for name, count in _counted(data, 0, len(data), kind.DESCRIPTOR):
            counts[name] += count
            if counts[name] > LIMITS.get(name, _MAX_OTHER):
                raise InputError(_too_many(name))
    except IndexError:
        return


def _too_many(name: str) -> str:
    where = "" if name in ("ranks", "collectives", "move_limits") else " in all collectives together"
    limit = LIMITS.get(name, _MAX_OTHER)
    return f"{name}: more than {limit:,}{where}, the most that a request may have"


def _counted(data: bytes, at: int, end: int, kind: Descriptor) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of values of each repeated field, those inside collectives included."""
    known = _repeated(kind)
    for number, begin, stop in _fields(data, at, end):
        field = known.get(number)
        if field is None:
            yield _OTHER, 1
            continue
        yield field.name, _values(data, begin, stop, field)
        if field.name == "collectives":
            yield from _counted(data, begin, stop, field.message_type)
        elif field.name in ("pairs", "flows") and stop - begin > _MAX_ENDS_BYTES:
            raise InputError(f"{field.name}: one has {stop - begin:,} bytes; at most {_MAX_ENDS_BYTES} are read")


@cache
def _repeated(kind: Descriptor) -> Mapping[int, FieldDescriptor]:
    return {number: field for number, field in kind.fields_by_number.items() if field.is_repeated}


def _values(data: bytes, begin: int, stop: int, field: FieldDescriptor) -> int:
    """Return the number of values of one occurrence of a field: several where it is packed."""
    if field.cpp_type != FieldDescriptor.CPPTYPE_UINT32:
        return 1
    return len(data[begin:stop].translate(None, _CONTINUED))


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, begin and end of the value of each field; raises IndexError where the bytes are malformed.

    A field is a varint of 8 * number + wire type, then its value (protobuf.dev/programming-guides/encoding).
    """
    while at < end:
        tag, at = _varint(data, at)
        begin, wire = at, tag & 7
        if wire == _VARINT:
            _, at = _varint(data, at)
        elif wire == _SIZED:
            size, begin = _varint(data, at)
            at = begin + size
        elif wire in (_BYTES_8, _BYTES_4):
            at += 8 if wire == _BYTES_8 else 4
        yield tag >> 3, begin, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint and the place after it."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for shift in range(7, 70, 7):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise IndexError("a varint has at most ten bytes")

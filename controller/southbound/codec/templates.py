"""Encode rule changes by templates, faster than by os-ken's objects: one template per shape of message.

A shape determines the byte layout: which match fields are present, masked or not, and the kinds of actions. Its
template is one message built by `encode`, split into constant parts and fields that differ between rules (holes).
A run of changes of one shape is packed column by column.
Invariant, tested: apart from the xid, the bytes equal those of os-ken for the same rule.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, repeat
from struct import Struct
from typing import Any, NamedTuple

from heddle.controller.model.rule import (
    Change,
    ChangeOp,
    FlowRule,
    GroupRule,
    Masked,
    Match,
    OpaqueMatch,
    Output,
    ToGroup,
)
from heddle.controller.southbound.codec import encode
from heddle.controller.southbound.codec.readback import OXM_FIELDS
from heddle.controller.southbound.codec.wire import ANY, HEADER, NO_BUFFER, VERSION, MessageType

_U16 = Struct("!H").unpack_from
_U32 = Struct("!I").unpack_from
_FLOW_MOD = Struct("!QQBBHHHIIIH2x")
_DELETE_STRICT = 4
_MATCH_AT = 48
_OXMS_AT = 52
_BUCKETS_AT = 16
_INT_FORMATS = {1: "B", 2: "H", 4: "I"}

Item = Any
"""A FlowRule or GroupRule, as the shape determines."""


class Hole(NamedTuple):
    """A field of a template: its offset, its struct format, and a function that reads its value from a rule."""

    at: int
    format: str
    value: Callable[[Item], int]


class Template:
    """The bytes of one shape, with holes; `pack` fills them for any number of items."""

    def __init__(self, built: bytes, holes: Sequence[Hole]) -> None:
        pieces: list[str | bytes | Hole] = []
        at = 0
        for hole in sorted([*holes, _XID], key=lambda hole: hole.at):
            pieces += [built[at : hole.at], hole]
            at = hole.at + Struct("!" + hole.format).size
        pieces.append(built[at:])
        self._pieces = [piece for piece in pieces if piece]
        formats = (piece.format if isinstance(piece, Hole) else f"{len(piece)}s" for piece in self._pieces)
        self._struct = Struct("!" + "".join(formats))

    def pack(self, items: Sequence[Item], first_xid: int) -> bytes:
        """Fill the holes for each item; their xids count up from `first_xid`."""
        columns: list[Any] = []
        for piece in self._pieces:
            if piece is _XID:
                columns.append(range(first_xid, first_xid + len(items)))
            elif isinstance(piece, Hole):
                columns.append(map(piece.value, items))
            else:
                columns.append(repeat(piece))
        return b"".join(map(self._struct.pack, *columns))


def _no_value(_: Item) -> int:
    return 0


_XID = Hole(4, "I", _no_value)


def encoded(changes: Sequence[Change], first_xid: int) -> bytes:
    """Encode changes in order; change i has the xid `first_xid` + i.

    Raises ValueError for a rule with opaque parts that is to be added.
    """
    found = []
    xid = first_xid
    for shape, run in groupby(changes, key=_shape_of):
        items: list[Item] = [change.item for change in run]
        if shape is _FOREIGN:
            found += [_foreign_delete(item, at) for at, item in enumerate(items, xid)]
        else:
            found.append(_template(shape).pack(items, xid))
        xid += len(items)
    return b"".join(found)


_FOREIGN = ("foreign",)
"""The shape of a strict delete whose match is bytes read from the switch."""

_FULL_32, _FULL_16 = 0xFFFF_FFFF, 0xFFFF


def _mask_shape(masked: Masked | None, full: int) -> int:
    """Return 0 for no field, 1 for an exact one, 2 for a masked one."""
    return 0 if masked is None else 1 if masked.mask == full else 2


def _shape_of(change: Change) -> tuple[Any, ...]:
    op, item = change
    if isinstance(item, GroupRule):
        return (op, 0 if op is ChangeOp.GROUP_DELETE else len(item.ports))
    match = item.match
    if isinstance(match, OpaqueMatch):
        if op is not ChangeOp.RULE_DELETE:
            raise ValueError("a rule with a foreign match can only be deleted")
        return _FOREIGN
    return (
        op,
        match.in_port is None,
        match.eth_type,
        match.ip_proto,
        _mask_shape(match.ipv4_src, _FULL_32),
        _mask_shape(match.ipv4_dst, _FULL_32),
        _mask_shape(match.udp_src, _FULL_16),
        match.udp_dst is None,
        _mask_shape(match.arp_tpa, _FULL_32),
        () if op is ChangeOp.RULE_DELETE else tuple(map(type, item.actions)),
    )


@lru_cache(maxsize=1024)
def _template(shape: tuple[Any, ...]) -> Template:
    """Build the template of a shape from a sample item that has it."""
    if len(shape) == 2:
        return _group_template(*shape)
    return _flow_template(shape)


def _group_template(op: ChangeOp, ports: int) -> Template:
    built = encode.group_mod(op, GroupRule(group_id=1, ports=tuple(range(1, ports + 1))))
    holes = [Hole(12, "I", lambda group: group.group_id)]
    at = _BUCKETS_AT
    for index in range(ports):
        holes += [Hole(at + 4, "I", _port_of(index)), Hole(at + 20, "I", _port_of(index))]
        at += _U16(built, at)[0]
    return Template(built, holes)


def _port_of(index: int) -> Callable[[GroupRule], int]:
    return lambda group: group.ports[index]


def _flow_template(shape: tuple[Any, ...]) -> Template:
    op, any_port, eth_type, ip_proto, ipv4_src, ipv4_dst, udp_src, any_udp_dst, arp_tpa, actions = shape
    match = Match(
        in_port=None if any_port else 1,
        eth_type=eth_type,
        ip_proto=ip_proto,
        ipv4_src=_sample(ipv4_src, _FULL_32),
        ipv4_dst=_sample(ipv4_dst, _FULL_32),
        udp_src=_sample(udp_src, _FULL_16),
        udp_dst=None if any_udp_dst else 1,
        arp_tpa=_sample(arp_tpa, _FULL_32),
    )
    rule = FlowRule(table=0, priority=0, match=match, actions=tuple(action(1) for action in actions))
    built = encode.flow_mod(op, rule)
    return Template(built, [*_FLOW_HOLES, *_match_holes(built), *_action_holes(built, actions)])


def _sample(mask_shape: int, full: int) -> Masked | None:
    return (None, Masked(1, full), Masked(1, 1))[mask_shape]


_FLOW_HOLES = (
    Hole(8, "Q", lambda rule: rule.cookie),
    Hole(24, "B", lambda rule: rule.table),
    Hole(30, "H", lambda rule: rule.priority),
)

_FIELD_BY_NUMBER = {field.number: field for field in OXM_FIELDS}
_PART_OF_THE_SHAPE = ("eth_type", "ip_proto")


def _match_holes(built: bytes) -> Iterator[Hole]:
    """Return the holes of every match field's value and mask in a built message."""
    at, end = _OXMS_AT, _MATCH_AT + _U16(built, _MATCH_AT + 2)[0]
    while at < end:
        header = _U32(built, at)[0]
        field = _FIELD_BY_NUMBER[header >> 9 & 0x7F]
        code = _INT_FORMATS[field.width_bytes]
        at += 4
        if field.maskable:
            yield Hole(at, code, _part_of_field(field.name, 0))
            if header >> 8 & 1:
                yield Hole(at + field.width_bytes, code, _part_of_field(field.name, 1))
        elif field.name not in _PART_OF_THE_SHAPE:
            yield Hole(at, code, _field(field.name))
        at += header & 0xFF


def _field(name: str) -> Callable[[FlowRule], int]:
    return lambda rule: getattr(rule.match, name)


def _part_of_field(name: str, part: int) -> Callable[[FlowRule], int]:
    """Read the value (part 0) or the mask (part 1) of a masked field."""
    return lambda rule: getattr(rule.match, name)[part]


def _action_holes(built: bytes, actions: Sequence[type[Any]]) -> Iterator[Hole]:
    """Return the holes of every action's number: apply-actions begin 8 bytes into their instruction, goto follows."""
    at = _MATCH_AT + ((_U16(built, _MATCH_AT + 2)[0] + 7) & ~7)
    applied_at = at + 8
    for index, action in enumerate(actions):
        if action in (Output, ToGroup):
            yield Hole(applied_at + 4, "I", _number_of(index))
            applied_at += _U16(built, applied_at + 2)[0]
        else:
            goto_at = at if index == 0 else applied_at
            yield Hole(goto_at + 4, "B", _number_of(index))


def _number_of(index: int) -> Callable[[FlowRule], int]:
    """Read the one number of an action: a port, a group or a table."""
    return lambda rule: rule.actions[index][0]  # type: ignore[return-value]


def _foreign_delete(rule: FlowRule, xid: int) -> bytes:
    """Build a strict delete whose match is the bytes that the switch sent."""
    oxm = rule.match.oxm if isinstance(rule.match, OpaqueMatch) else b""
    length = 4 + len(oxm)
    match = b"\0\1" + length.to_bytes(2, "big") + oxm + bytes(-length % 8)
    fixed = _FLOW_MOD.pack(rule.cookie, 0, rule.table, _DELETE_STRICT, 0, 0, rule.priority, NO_BUFFER, ANY, ANY, 0)
    header = HEADER.pack(VERSION, MessageType.FLOW_MOD, HEADER.size + len(fixed) + len(match), xid)
    return header + fixed + match

"""Decode flow statistics and group descriptions, the installed state of a switch, into rules.

Matches and actions that the model cannot express stay as their exact bytes (`OpaqueMatch`, `OpaqueAction`), which
identify the entry for a strict delete. The instructions of an entry with a timeout or flags become opaque as well, so
that a diff replaces it. The bytes have passed `check`.
"""

from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from heddle.controller.model.rule import (
    Action,
    FlowRule,
    GotoTable,
    GroupRule,
    Masked,
    Match,
    OpaqueAction,
    OpaqueMatch,
    Output,
    ToGroup,
)
from heddle.controller.southbound.codec.wire import WHOLE_PACKET

_U32 = Struct("!I").unpack_from
_TWO_U16 = Struct("!HH").unpack_from
_ENTRY = Struct("!HBxIIHHHH4xQQQHH").unpack_from
_GROUP = Struct("!HBxI").unpack_from
_BUCKET = Struct("!HHII4x").unpack_from
_OUTPUT = Struct("!HHIH").unpack_from

_PARTS_AT = 16
_MATCH_AT = 48
_OXMS_AT = 52
_FAST_FAILOVER = 3
_GROUP_ANY = 0xFFFF_FFFF
_CONTROLLER = 0xFFFF_FFFD


class OxmField(NamedTuple):
    """A field of `Match` as OXM carries it (class OFPXMC_OPENFLOW_BASIC, section 7.2.3)."""

    name: str
    number: int
    width_bytes: int
    maskable: bool

    def header(self, *, masked: bool) -> int:
        """Return the 32-bit OXM header."""
        return 0x8000 << 16 | self.number << 9 | masked << 8 | self.width_bytes << masked

    @property
    def full_mask(self) -> int:
        """Return the mask of an exact match."""
        return (1 << 8 * self.width_bytes) - 1


OXM_FIELDS = (
    OxmField("in_port", 0, 4, False),
    OxmField("eth_type", 5, 2, False),
    OxmField("ip_proto", 10, 1, False),
    OxmField("ipv4_src", 11, 4, True),
    OxmField("ipv4_dst", 12, 4, True),
    OxmField("udp_src", 15, 2, True),
    OxmField("udp_dst", 16, 2, False),
    OxmField("arp_tpa", 23, 4, True),
)
_BY_HEADER = {
    field.header(masked=masked): (field.name, field.width_bytes, field.full_mask if field.maskable else 0, masked)
    for field in OXM_FIELDS
    for masked in ((False, True) if field.maskable else (False,))
}


class FlowEntry(NamedTuple):
    """An installed rule and its packet and byte counters."""

    rule: FlowRule
    packets: int
    octets: int


@lru_cache(maxsize=1 << 14)
def match_of(oxm: bytes) -> Match | OpaqueMatch:
    """Decode OXM fields; opaque where a field is unknown, occurs twice, or has bits outside its mask."""
    fields: dict[str, int | Masked] = {}
    at, end = 0, len(oxm)
    while at < end:
        known = _BY_HEADER.get(_U32(oxm, at)[0])
        if known is None:
            return OpaqueMatch(oxm)
        name, width, mask, masked = known
        at += 4
        value = int.from_bytes(oxm[at : at + width], "big")
        at += width
        if masked:
            mask = int.from_bytes(oxm[at : at + width], "big")
            at += width
        if name in fields or (mask and value & ~mask) or (masked and not mask):
            return OpaqueMatch(oxm)
        fields[name] = Masked(value, mask) if mask else value
    return Match(**fields)  # type: ignore[arg-type]


@lru_cache(maxsize=4096)
def actions_of(instructions: bytes) -> tuple[Action, ...]:
    """Decode instructions: applied outputs and groups, then a goto; any other instruction stays opaque."""
    found: list[Action] = []
    at = 0
    while at < len(instructions):
        kind, length = _TWO_U16(instructions, at)
        if kind == 4 and not found and length > 8:
            applied = _applied(instructions[at + 8 : at + length])
            if applied is None:
                return (OpaqueAction(instructions),)
            found += applied
        elif kind == 1 and at + length == len(instructions):
            found.append(GotoTable(instructions[at + 4]))
        else:
            return (OpaqueAction(instructions),)
        at += length
    return tuple(found)


def _applied(actions: bytes) -> list[Action] | None:
    """Decode an action list; None where an action is unknown."""
    found: list[Action] = []
    at = 0
    while at < len(actions):
        kind, length, number = _U16_U16_U32(actions, at)
        if kind == 0:
            if number == _CONTROLLER and _OUTPUT(actions, at)[3] != WHOLE_PACKET:
                return None
            found.append(Output(number))
        elif kind == 22:
            found.append(ToGroup(number))
        else:
            return None
        at += length
    return found


_U16_U16_U32 = Struct("!HHI").unpack_from


def each_flow_entry(part: bytes) -> Iterator[FlowEntry]:
    """Read one part of a flow statistics reply, an entry at a time."""
    at, end = _PARTS_AT, len(part)
    while at < end:
        (length, table, _, _, priority, idle, hard, flags, cookie, packets, octets, _, match_length) = _ENTRY(part, at)
        instructions_at = at + _MATCH_AT + ((match_length + 7) & ~7)
        match = match_of(part[at + _OXMS_AT : at + _MATCH_AT + match_length])
        instructions = part[instructions_at : at + length]
        actions = (OpaqueAction(instructions),) if idle or hard or flags else actions_of(instructions)
        rule = FlowRule(table=table, priority=priority, match=match, actions=actions, cookie=cookie)
        yield FlowEntry(rule, packets, octets)
        at += length


def groups(part: bytes) -> list[GroupRule]:
    """Decode one part of a group description; a group of another shape has no ports."""
    found = []
    at = _PARTS_AT
    while at < len(part):
        length, kind, group_id = _GROUP(part, at)
        ports = _bucket_ports(part[at + 8 : at + length]) if kind == _FAST_FAILOVER else ()
        found.append(GroupRule(group_id=group_id, ports=ports))
        at += length
    return found


@lru_cache(maxsize=1024)
def _bucket_ports(buckets: bytes) -> tuple[int, ...]:
    """Return the ports of fast-failover buckets that watch their own output port; () for any other bucket."""
    found = []
    at = 0
    while at < len(buckets):
        length, _, watch_port, watch_group = _BUCKET(buckets, at)
        if _applied(buckets[at + 16 : at + length]) != [Output(watch_port)] or watch_group != _GROUP_ANY:
            return ()
        found.append(watch_port)
        at += length
    return tuple(found)

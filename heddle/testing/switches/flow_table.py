"""The flow entries and groups of an OpenFlow 1.3 switch, changed and reported as bytes.

It shares no code with the controller's southbound, so that each can reveal the other's faults. It implements the
part of the protocol that the controller speaks and replies to the rest as Open vSwitch does, with an error
(tests/contract compares the two).
"""

import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from heddle.controller.model.rule import (
    Action,
    FlowRule,
    GotoTable,
    GroupRule,
    Masked,
    Match,
    Output,
    SwitchRules,
    ToGroup,
)

TABLES = 254
PORT_MAX = 0xFFFFFF00
RESERVED_PORTS = range(0xFFFFFFF8, 0xFFFFFFFF)  # IN_PORT to LOCAL

# OXM field number -> name in Match, bytes, what must be matched too (field number -> value)
FIELDS: dict[int, tuple[str, int, dict[int, int]]] = {
    0: ("in_port", 4, {}),
    5: ("eth_type", 2, {}),
    10: ("ip_proto", 1, {5: 0x0800}),
    11: ("ipv4_src", 4, {5: 0x0800}),
    12: ("ipv4_dst", 4, {5: 0x0800}),
    15: ("udp_src", 2, {10: 17}),
    16: ("udp_dst", 2, {10: 17}),
    23: ("arp_tpa", 4, {5: 0x0806}),
}
MASKED_IN_MODEL = {"ipv4_src", "ipv4_dst", "udp_src", "arp_tpa"}


class Refusal(Exception):
    """The error that the switch replies with."""

    def __init__(self, kind: int, code: int) -> None:
        super().__init__(kind, code)
        self.kind, self.code = kind, code


class Field(NamedTuple):
    """One matched field."""

    number: int
    value: int
    mask: int


@dataclass
class Entry:
    """One flow entry; set `packets` and `octets` to simulate matching traffic."""

    table: int
    priority: int
    match: frozenset[Field]
    actions: tuple[Action, ...]
    cookie: int
    packets: int = 0
    octets: int = 0

    def rule(self) -> FlowRule:
        """Return the entry as a rule of the model."""
        fields: dict[str, Any] = {}
        for number, value, mask in self.match:
            name = FIELDS[number][0]
            fields[name] = Masked(value, mask) if name in MASKED_IN_MODEL else value
        return FlowRule(
            table=self.table, priority=self.priority, match=Match(**fields), actions=self.actions, cookie=self.cookie
        )


@dataclass
class SwitchTables:
    """The state that outlives a connection."""

    entries: dict[Any, Entry] = field(default_factory=dict)
    groups: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def rules(self) -> SwitchRules:
        """Return all entries and groups as rules of the model."""
        return SwitchRules(
            rules=tuple(entry.rule() for entry in self.entries.values()),
            groups=tuple(GroupRule(group_id=number, ports=ports) for number, ports in self.groups.items()),
        )

    def flow_mod(self, message: bytes) -> None:
        """Apply an OFPT_FLOW_MOD; raises Refusal."""
        cookie, _, table, command, idle, hard, priority, _, _, _, flags = struct.unpack_from("!QQBBHHHIIIH", message, 8)
        match_length = struct.unpack_from("!H", message, 50)[0]
        match = _match(message[52 : 48 + match_length])
        key = (table, priority, match)
        if command == 4:
            self.entries.pop(key, None)
            return
        if command != 0 or idle or hard or flags:
            raise Refusal(5, 6)
        if table >= TABLES:
            raise Refusal(1, 5) if table == TABLES else Refusal(5, 2)  # Open vSwitch keeps 254 for itself
        actions = _instructions(message[48 + (match_length + 7) // 8 * 8 :], table)
        for action in actions:
            if isinstance(action, ToGroup) and action.group_id not in self.groups:
                raise Refusal(2, 9)
        old = self.entries.pop(key, None)
        packets, octets = (old.packets, old.octets) if old else (0, 0)
        self.entries[key] = Entry(table, priority, match, actions, cookie, packets, octets)

    def group_mod(self, message: bytes) -> None:
        """Apply an OFPT_GROUP_MOD; raises Refusal."""
        command, kind, group_id = struct.unpack_from("!HBxI", message, 8)
        if command == 2:
            self.groups.pop(group_id, None)
            users = [key for key, entry in self.entries.items() if ToGroup(group_id) in entry.actions]
            for key in users:
                del self.entries[key]
            return
        if kind != 3:
            raise Refusal(6, 1)
        if command == 0 and group_id in self.groups:
            raise Refusal(6, 0)
        if command == 1 and group_id not in self.groups:
            raise Refusal(6, 8)
        self.groups[group_id] = _failover_ports(message[16:])

    def flow_statistics(self) -> list[bytes]:
        """Return every entry as an ofp_flow_stats."""
        return [_flow_statistics(entry) for entry in self.entries.values()]

    def group_descriptions(self) -> list[bytes]:
        """Return every group as an ofp_group_desc."""
        return [_group_description(number, ports) for number, ports in self.groups.items()]


def _match(oxms: bytes) -> frozenset[Field]:
    found: dict[int, Field] = {}
    while oxms:
        oxm_class, rest, length = struct.unpack_from("!HBB", oxms)
        number, masked = rest >> 1, rest & 1
        if oxm_class != 0x8000 or number not in FIELDS:
            raise Refusal(4, 6)
        width = FIELDS[number][1]
        if length != width << masked:
            raise Refusal(4, 1)
        if number in found:
            raise Refusal(4, 10)
        value = int.from_bytes(oxms[4 : 4 + width], "big")
        mask = int.from_bytes(oxms[4 + width : 4 + length], "big") if masked else (1 << 8 * width) - 1
        found[number] = Field(number, value, mask)
        for needed, wanted in FIELDS[number][2].items():
            if needed not in found or found[needed].value != wanted:
                raise Refusal(4, 9)
        oxms = oxms[4 + length :]
    return frozenset(found.values())


def _instructions(data: bytes, table: int) -> tuple[Action, ...]:
    found: list[Action] = []
    while data:
        kind, length = struct.unpack_from("!HH", data)
        if kind == 4:
            found += _actions(data[8:length])
        elif kind == 1:
            if data[4] <= table or data[4] >= TABLES:
                raise Refusal(3, 2)
            found.append(GotoTable(data[4]))
        else:
            raise Refusal(3, 1)
        data = data[length:]
    return tuple(found)


def _actions(data: bytes) -> list[Action]:
    found: list[Action] = []
    while data:
        kind, length, number = struct.unpack_from("!HHI", data)
        if kind == 0:
            if number >= PORT_MAX and number not in RESERVED_PORTS:
                raise Refusal(2, 4)
            found.append(Output(number))
        elif kind == 22:
            found.append(ToGroup(number))
        else:
            raise Refusal(2, 0)
        data = data[length:]
    return found


def _failover_ports(data: bytes) -> tuple[int, ...]:
    ports: list[int] = []
    while data:
        length, _, watch_port, _ = struct.unpack_from("!HHII", data)
        if _actions(data[16:length]) != [Output(watch_port)]:
            raise Refusal(6, 12)
        ports.append(watch_port)
        data = data[length:]
    return tuple(ports)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _flow_statistics(entry: Entry) -> bytes:
    oxms = b""
    for number, value, mask in sorted(entry.match):
        width = FIELDS[number][1]
        exact = mask == (1 << 8 * width) - 1
        oxms += struct.pack("!HBB", 0x8000, number << 1 | (not exact), width if exact else 2 * width)
        oxms += value.to_bytes(width, "big") + (b"" if exact else mask.to_bytes(width, "big"))
    match = _padded(struct.pack("!HH", 1, 4 + len(oxms)) + oxms)
    applied = b"".join(_action(action) for action in entry.actions if not isinstance(action, GotoTable))
    instructions = struct.pack("!HH4x", 4, 8 + len(applied)) + applied if applied else b""
    for action in entry.actions:
        if isinstance(action, GotoTable):
            instructions += struct.pack("!HHB3x", 1, 8, action.table)
    body = match + instructions
    fixed = struct.pack("!HBxIIHHHH4xQQQ", 48 + len(body), entry.table, 1, 0, entry.priority, 0, 0, 0,
                        entry.cookie, entry.packets, entry.octets)  # fmt: skip
    return fixed + body


def _action(action: Action) -> bytes:
    if isinstance(action, Output):
        return struct.pack("!HHIH6x", 0, 16, action.port, 0xFFFF)
    assert isinstance(action, ToGroup)
    return struct.pack("!HHI", 22, 8, action.group_id)


def _group_description(number: int, ports: tuple[int, ...]) -> bytes:
    buckets = b"".join(struct.pack("!HHII4x", 32, 0, port, 0xFFFFFFFF) + _action(Output(port)) for port in ports)
    return struct.pack("!HBxI", 8 + len(buckets), 3, number) + buckets

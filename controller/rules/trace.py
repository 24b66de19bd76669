"""Trace a packet through rules: the matching rule of each table, the links, and the outcome."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from heddle.controller.model.fabric import Cable, Fabric, Nic
from heddle.controller.model.health import Health
from heddle.controller.model.rule import (
    ETH_ARP,
    ETH_IPV4,
    IP_UDP,
    PROBE_PORT,
    ROCE_PORT,
    FlowRule,
    GotoTable,
    Masked,
    Match,
    Output,
    SwitchRules,
    ToGroup,
)
from heddle.controller.rules.listing import action_text, match_row

FULL = -1
"""The mask of an exact match."""

IP_ICMP = 1


class Packet(NamedTuple):
    """The fields of a packet that rules match; None where it lacks a field."""

    eth_type: int
    ip_proto: int | None = None
    ipv4_src: int | None = None
    ipv4_dst: int | None = None
    udp_src: int | None = None
    udp_dst: int | None = None
    arp_tpa: int | None = None

    @staticmethod
    def roce(*, src_ip: int, dst_ip: int, udp_src: int) -> "Packet":
        """Return a RoCEv2 packet between two addresses."""
        return Packet(ETH_IPV4, IP_UDP, src_ip, dst_ip, udp_src, ROCE_PORT)

    @staticmethod
    def probe(*, src_ip: int, dst_ip: int, udp_src: int) -> "Packet":
        """Return a packet of the ping mesh between two addresses."""
        return Packet(ETH_IPV4, IP_UDP, src_ip, dst_ip, udp_src, PROBE_PORT)

    @staticmethod
    def ipv4(*, src_ip: int, dst_ip: int, ip_proto: int = IP_ICMP) -> "Packet":
        """Return an IPv4 packet that is not RoCE, by default a ping."""
        return Packet(ETH_IPV4, ip_proto, src_ip, dst_ip)

    @staticmethod
    def arp(*, target_ip: int) -> "Packet":
        """Return an ARP packet for a target address."""
        return Packet(ETH_ARP, arp_tpa=target_ip)


class Outcome(StrEnum):
    """The end of a packet's path."""

    DELIVERED = "delivered"
    DROPPED = "dropped"
    LOOP = "loop"


class Hit(NamedTuple):
    """The rule that a table of a switch applied; None where none matched."""

    switch: str
    table: int
    rule: FlowRule | None

    def __str__(self) -> str:
        if self.rule is None:
            return f"{self.switch} table {self.table}: no rule matches"
        fields = ", ".join(f"{name}={value}" for name, value in match_row(self.rule.match).items()) or "anything"
        actions = ", ".join(action_text(action) for action in self.rule.actions) or "drop"
        return f"{self.switch} table {int(self.table)}, priority {self.rule.priority}, {fields}: {actions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A packet's path: directed link ids from the source NIC, the matching rules, the outcome and its reason."""

    outcome: Outcome
    links: tuple[str, ...]
    steps: tuple[Hit, ...]
    nic: str | None = None
    reason: str = ""


def trace(
    fabric: Fabric, rules: Mapping[str, SwitchRules], src_nic: str, packet: Packet, health: Health | None = None
) -> Trace:
    """Trace one packet from a NIC; for many packets use one `Tracer`."""
    return Tracer(fabric, rules, health or Health()).trace(src_nic, packet)


class Tracer:
    """A tracer of packets through one set of rules; groups select ports by `health`."""

    def __init__(self, fabric: Fabric, rules: Mapping[str, SwitchRules], health: Health | None = None) -> None:
        self._fabric = fabric
        self._rules = rules
        self._health = health or Health()
        self._tables: dict[str, dict[int, _TableIndex]] = {}
        self._groups: dict[str, dict[int, tuple[int, ...]]] = {}
        self._behind: dict[tuple[str, int], Cable | Nic] = {}
        for cable in fabric.cables:
            self._behind[cable.lower] = self._behind[cable.upper] = cable
        for nic in fabric.nics:
            self._behind[nic.port] = nic

    def trace(self, src_nic: str, packet: Packet) -> Trace:
        """Trace a packet from the NIC that sends it."""
        nic = self._fabric.nic_by_id[src_nic]
        switch, in_port = nic.port
        links, hits, visited = [nic.up_link], list[Hit](), set[str]()
        if src_nic in self._health.down_nics:
            return _ended(Outcome.DROPPED, [], hits, f"{src_nic} is down")
        while switch not in visited:
            visited.add(switch)
            if switch in self._health.down_switches:
                return _ended(Outcome.DROPPED, links, hits, f"{switch} is down")
            port, reason = self._apply(switch, in_port, packet, hits)
            behind = self._behind.get((switch, port))
            if behind is None or port == in_port or not self._is_up(switch, port):
                return _ended(Outcome.DROPPED, links, hits, reason or f"{switch}:{port} has no cable")
            if isinstance(behind, Nic):
                links.append(behind.down_link)
                return Trace(outcome=Outcome.DELIVERED, links=tuple(links), steps=tuple(hits), nic=behind.id)
            upwards = behind.lower.switch == switch
            links.append(behind.up_link if upwards else behind.down_link)
            switch, in_port = behind.upper if upwards else behind.lower
        return _ended(Outcome.LOOP, links, hits, f"{switch} is visited twice")

    def _apply(self, switch: str, in_port: int, packet: Packet, hits: list[Hit]) -> tuple[int, str]:
        """Return the egress port of a packet on a switch, or 0 and the reason."""
        values, table = (in_port, *packet), 0
        while True:
            index = self._table(switch, table)
            rule = index.find(values) if index else None
            hits.append(Hit(switch, table, rule))
            if rule is None:
                return 0, f"no rule matches in table {table} of {switch}"
            if not rule.actions:
                return 0, f"dropped by table {table} of {switch}"
            match rule.actions[0]:
                case GotoTable(onward) if onward > table:
                    table = onward
                case Output(port):
                    return port, ""
                case ToGroup(group_id):
                    return self._first_live(switch, group_id)
                case _:
                    return 0, f"table {table} of {switch} has an unknown action"

    def _first_live(self, switch: str, group_id: int) -> tuple[int, str]:
        if switch not in self._groups:
            self._groups[switch] = {group.group_id: group.ports for group in self._rules[switch].groups}
        ports = self._groups[switch].get(group_id)
        if ports is None:
            return 0, f"{switch} has no group {group_id}"
        live = next((port for port in ports if self._is_up(switch, port)), 0)
        return live, "" if live else f"no port of group {group_id} of {switch} is up"

    def _is_up(self, switch: str, port: int) -> bool:
        behind = self._behind.get((switch, port))
        if isinstance(behind, Cable):
            return _is_live(behind, self._health)
        return behind is not None and behind.id not in self._health.down_nics

    def _table(self, switch: str, table: int) -> "_TableIndex | None":
        if switch not in self._tables:
            found: dict[int, _TableIndex] = {}
            for rule in self._rules[switch].rules if switch in self._rules else ():
                found.setdefault(rule.table, _TableIndex()).add(rule)
            self._tables[switch] = found
        return self._tables[switch].get(table)


def _ended(outcome: Outcome, links: list[str], hits: list[Hit], reason: str) -> Trace:
    return Trace(outcome=outcome, links=tuple(links), steps=tuple(hits), reason=reason)


class _TableIndex:
    """Tuple space search: one dictionary for rules of equal priority and masks, highest priority first."""

    def __init__(self) -> None:
        self._spaces: dict[tuple[int, tuple[int, ...]], dict[tuple[int, ...], FlowRule]] = {}
        self._order: list[tuple[tuple[tuple[int, int], ...], dict[tuple[int, ...], FlowRule]]] | None = None

    def add(self, rule: FlowRule) -> None:
        if not isinstance(rule.match, Match):
            return
        fields = _masked_fields(rule.match)
        masks = tuple(mask for _, mask in fields)
        values = tuple(value for value, mask in fields if mask)
        self._spaces.setdefault((-rule.priority, masks), {})[values] = rule

    def find(self, values: tuple[int | None, ...]) -> FlowRule | None:
        if self._order is None:
            spaces = sorted(self._spaces.items(), key=lambda item: item[0])
            self._order = [
                (tuple((i, mask) for i, mask in enumerate(masks) if mask), space) for (_, masks), space in spaces
            ]
        for fields, space in self._order:
            key = []
            for i, mask in fields:
                value = values[i]
                if value is None:
                    break
                key.append(value & mask)
            else:
                rule = space.get(tuple(key))
                if rule is not None:
                    return rule
        return None


def _masked_fields(match: Match) -> list[tuple[int, int]]:
    """Return (value, mask) of every field in the order of (in_port, *Packet); mask 0 matches anything."""
    fields = (
        match.in_port,
        match.eth_type,
        match.ip_proto,
        match.ipv4_src,
        match.ipv4_dst,
        match.udp_src,
        match.udp_dst,
        match.arp_tpa,
    )
    return [_masked(field) for field in fields]


def _masked(field: int | Masked | None) -> tuple[int, int]:
    if field is None:
        return (0, 0)
    return field if isinstance(field, Masked) else (field, FULL)


def _is_live(cable: Cable, health: Health) -> bool:
    """Return whether a cable and the switches at both of its ends are up."""
    ends = {cable.lower.switch, cable.upper.switch}
    return cable.id not in health.down_cables and ends.isdisjoint(health.down_switches)

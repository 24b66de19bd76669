"""Equivalence classes of packets by protocol and port, as far as any rule distinguishes them; sets are bit masks."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from heddle.dataplane.verify.view import ANY_PROTOCOL, Rule, VpcView

ICMP, TCP, UDP = 1, 6, 17
OTHER = 253
"""Stands for every protocol that no rule names (RFC 3692, experimental)."""
ROCE_PORT = 4_791
LAST_PORT = 65_535
NAMES = {ICMP: "icmp", TCP: "tcp", UDP: "udp"}


class PacketClass(NamedTuple):
    """Packets of a protocol to ports `low` to `high`; both 0 for a protocol without ports."""

    protocol: int
    low: int
    high: int

    def __str__(self) -> str:
        name = NAMES.get(self.protocol, "other protocols" if self.protocol == OTHER else f"protocol {self.protocol}")
        if self.protocol not in (TCP, UDP) or (self.low, self.high) == (0, LAST_PORT):
            return name
        return f"{name} {self.low}" if self.low == self.high else f"{name} {self.low}-{self.high}"


class Traffic:
    """The packet classes that the rules of some VPCs distinguish."""

    def __init__(self, vpcs: Iterable[VpcView]) -> None:
        lists = [rules for vpc in vpcs for rules in (vpc.inward, vpc.outward, *vpc.border.values())]
        rules = {(rule.protocol, rule.low, rule.high) for one in lists for rule in one}
        edges = {0, ROCE_PORT, ROCE_PORT + 1, LAST_PORT + 1}
        edges |= {edge for _, low, high in rules for edge in (low, high + 1) if 0 <= edge <= LAST_PORT}
        ports = sorted(edges)
        protocols = sorted({ICMP, TCP, UDP, OTHER} | {protocol for protocol, _, _ in rules} - {ANY_PROTOCOL})
        self.classes: list[PacketClass] = []
        for protocol in protocols:
            if protocol in (TCP, UDP):
                self.classes += [PacketClass(protocol, a, b - 1) for a, b in pairwise(ports)]
            else:
                self.classes.append(PacketClass(protocol, 0, 0))
        self.all = (1 << len(self.classes)) - 1
        self.roce = sum(1 << i for i, each in enumerate(self.classes) if each.protocol == UDP and each.low == ROCE_PORT)
        self._meant = lru_cache(maxsize=65_536)(self._classes_of)

    def allowed(self, rules: Sequence[Rule], address: int, default: bool) -> int:
        """Return the classes that a list of rules allows to or from an address: the first match decides."""
        passed, decided = 0, 0
        for rule in rules:
            if rule.matches(address):
                fresh = self._meant(rule.protocol, rule.low, rule.high) & ~decided
                decided |= fresh
                if rule.allow:
                    passed |= fresh
        return passed | (self.all & ~decided if default else 0)

    def _classes_of(self, protocol: int, low: int, high: int) -> int:
        found = 0
        for i, each in enumerate(self.classes):
            # a protocol without ports has port 0; ports are ignored for ICMP
            if protocol in (ANY_PROTOCOL, each.protocol) and (each.protocol == ICMP or low <= each.low <= high):
                found |= 1 << i
        return found

    def text(self, classes: int) -> str:
        """Return a set of classes as text, adjacent ports as one range."""
        if classes == self.all:
            return "everything"
        found: list[PacketClass] = []
        for i, each in enumerate(self.classes):
            if classes >> i & 1:
                if found and found[-1].protocol == each.protocol and found[-1].high + 1 == each.low:
                    found[-1] = PacketClass(each.protocol, found[-1].low, each.high)
                else:
                    found.append(each)
        return ", ".join(map(str, found))


def spans_of(*lists: Sequence[Rule]) -> set[tuple[int, int, int]]:
    """Return the prefixes in lists of rules as (family, first address, length)."""
    return {(rule.family, rule.remote.first, rule.remote.length) for rules in lists for rule in rules}

"""Conclude which cables are down from paths that spraying NICs have denied, as their hosts report them. Pure.

A host is one witness, whatever it reports, and of its own NICs alone. A cable is taken as down if

- two hosts at least deny paths over it, and neither has a path over it that is active;
- no other cable of these paths is denied by as many: what one cable explains is evidence of no other.

A flow that denies all its paths but one, and several, says nothing of cables: its own NIC or its peer may be down.
An agent alone, which denies every path, therefore changes nothing.

A verdict holds for a time after its last evidence: paths that avoid the cable can show no more of it. Each verdict on
the same cable holds twice as long as the one before. Few cables are down by such evidence at a time.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from heddle.controller.model.fabric import Fabric, Nic
from heddle.controller.model.next_hops import next_hops
from heddle.controller.model.srv6 import Sids

WITNESSES = 2
HOLD_MS, MAX_DOUBLINGS = 10_000, 5
FORGET_MS = 600_000
"""A cable that was not denied for so long after a verdict begins anew."""
MAX_DENIED_CABLES = 4
"""More at a time would rather be an overload, or a fault of the hosts, than cables."""
MAX_PATHS = 256
"""The paths of one queue pair that are read."""
Cables = frozenset[str]


class FlowPaths(NamedTuple):
    """The paths of a flow by the ids of the cables between switches that they take."""

    denied: tuple[Cables, ...]
    active: tuple[Cables, ...]

    @property
    def counts(self) -> bool:
        """Return whether what it denies says something of cables."""
        return bool(self.denied) and len(self.active) >= (2 if len(self.denied) > 1 else 1)


class Verdict(NamedTuple):
    """A cable that is or was taken as down: by which hosts, until when, and how often so far."""

    hosts: frozenset[str]
    until_ms: int
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEvidence:
    """The newest report of each host, and the verdicts that follow."""

    flows_of: Mapping[str, tuple[FlowPaths, ...]] = field(default_factory=dict)
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)

    def with_report(self, host: str, flows: Iterable[FlowPaths], now_ms: int) -> "PathEvidence":
        """Return the evidence after a host's report of all its flows that spray."""
        others = {name: known for name, known in self.flows_of.items() if name != host}
        own = tuple(flows)
        return replace(self, flows_of={**others, host: own} if own else others).at(now_ms)

    def at(self, now_ms: int) -> "PathEvidence":
        """Return the evidence at a later time: verdicts that ended, and new ones."""
        kept = {name: known for name, known in self.verdicts.items() if now_ms < known.until_ms + FORGET_MS}
        for cable, hosts in denied_cables(self.flows_of).items():
            known = kept.get(cable)
            is_down = known is not None and now_ms < known.until_ms
            if not is_down and sum(now_ms < each.until_ms for each in kept.values()) >= MAX_DENIED_CABLES:
                continue
            times = 0 if known is None else known.times
            times += not is_down
            hold_ms = HOLD_MS << min(times - 1, MAX_DOUBLINGS)
            kept[cable] = Verdict(hosts, now_ms + hold_ms, times)
        return replace(self, verdicts=kept)

    def down(self, now_ms: int) -> dict[str, tuple[str, ...]]:
        """Return the cables that are taken as down, each with the hosts that denied paths over it."""
        return {cable: tuple(sorted(known.hosts)) for cable, known in self.verdicts.items() if now_ms < known.until_ms}

    def wake_ms(self, now_ms: int) -> int | None:
        """Return when the next verdict ends, None if there is none."""
        return min((known.until_ms for known in self.verdicts.values() if now_ms < known.until_ms), default=None)


def denied_cables(flows_of: Mapping[str, Iterable[FlowPaths]]) -> dict[str, frozenset[str]]:
    """Return the cables that explain what hosts deny, each with these hosts; the most evident come first."""
    rest = list(_blamed(flows_of))
    found: dict[str, frozenset[str]] = {}
    while (explained := _most_evident(rest)) is not None:
        cable, hosts = explained
        found[cable] = hosts
        rest = [(host, cables) for host, cables in rest if cable not in cables]
    return found


def _blamed(flows_of: Mapping[str, Iterable[FlowPaths]]) -> Iterator[tuple[str, Cables]]:
    """Yield for each denied path its host and those of its cables over which the host has no active path."""
    for host, flows in flows_of.items():
        listed = list(flows)
        sound = frozenset[str]().union(*(cables for flow in listed for cables in flow.active))
        for flow in listed:
            if flow.counts:
                yield from ((host, cables - sound) for cables in flow.denied)


def _most_evident(rest: list[tuple[str, Cables]]) -> tuple[str, frozenset[str]] | None:
    """Return the cable that most hosts deny, if no other on the same paths is denied by as many; by id among equals."""
    hosts: dict[str, set[str]] = defaultdict(set)
    beside: dict[str, set[str]] = defaultdict(set)
    for host, cables in rest:
        for cable in cables:
            hosts[cable].add(host)
            beside[cable] |= cables
    clear = [
        cable
        for cable, mine in hosts.items()
        if len(mine) >= WITNESSES and all(len(hosts[other]) < len(mine) for other in beside[cable] - {cable})
    ]
    best = min(clear, key=lambda cable: (-len(hosts[cable]), cable), default=None)
    return None if best is None else (best, frozenset(hosts[best]))


def cables_by_sid(fabric: Fabric, sids: Sids, src: Nic, dst: Nic) -> dict[int, Cables]:
    """Return the cables of every shortest path between two NICs, by the destination address that names the path."""
    end = dst.port.switch

    def paths(switch: str, links: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if switch == end:
            yield links
            return
        for hop in next_hops(fabric, switch, end):
            yield from paths(hop.far.switch, (*links, hop.link))

    return {
        sids.destination(links, dst.id): frozenset(fabric.cable_by_link[link].id for link in links)
        for links in paths(src.port.switch, ())
    }

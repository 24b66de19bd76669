"""Locate the replies to a check: the link by which each probe came in, and what the replying address can name."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from heddle.probing.check.questions import FIRST_HOP, Pair, Step
from heddle.probing.probe import Question

Replies = Mapping[Question, int]
"""By probe the address of the router that replied; probes without a reply are left out."""


class Places(NamedTuple):
    """What addresses stand for: the directed link that ends at a port, and the switch of a port or a loopback."""

    link_at: Mapping[int, str]
    switch_at: Mapping[int, str]


class Named(Enum):
    """What the address of a reply names."""

    LINK = "the link by which the probe came in"
    SWITCH = "a switch, by an address of no port"
    ANOTHER_PORT = "a port of the switch that the probe did not come in by"
    NOTHING = "no switch that is expected there"


class Choice(NamedTuple):
    """A switch that chooses, as the router that replies at `hop` sees it, and its next hops."""

    hop: int
    by: str
    links: tuple[str, ...]


class Group(NamedTuple):
    """Parallel cables from one switch to the next, with probes from one address."""

    src_ip: int
    hop: int
    links: tuple[str, ...]


class Leg(NamedTuple):
    """A hop of paths that have so many hops beyond the leaf: pairs of one pod have fewer than others."""

    hop: int
    hops: int


@dataclass
class Counts:
    """Counts of the probes and replies of a first round, over the pairs of one leaf."""

    sent: Counter[Leg] = field(default_factory=Counter)
    replied: Counter[Leg] = field(default_factory=Counter)
    named: dict[Named, Counter[str]] = field(default_factory=lambda: {kind: Counter() for kind in Named})
    choices: defaultdict[Choice, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    groups: defaultdict[Group, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    merged: set[tuple[str, ...]] = field(default_factory=set)
    replying: set[tuple[Leg, str]] = field(default_factory=set)
    """The switches that replied."""
    passed: Counter[tuple[Leg, str]] = field(default_factory=Counter)
    """By switch the ports whose probe had no reply there, though the next hop saw them come from it."""
    crossed: set[str] = field(default_factory=set)
    """The links by which those ports came in."""

    def links(self, hop: int) -> set[str]:
        """Return the links by which probes were seen to come in at a hop."""
        return {link for choice, seen in self.choices.items() if choice.hop == hop for link in seen}


def counted(
    pairs: Sequence[Pair], sent: Mapping[int, Iterable[Question]], replies: Mapping[int, Replies], places: Places
) -> Counts:
    """Count the replies of the pairs of one leaf; probes and replies are by source address."""
    counts = Counts()
    for pair in pairs:
        received = replies.get(pair.src_ip, {})
        ports = dict.fromkeys(one.port for one in sent.get(pair.src_ip, ()) if one.dst_ip == pair.dst_ip)
        for port in ports:
            _walk(counts, pair, [received.get(Question(pair.dst_ip, port, hop)) for hop in hops_of(pair)], places)
    return counts


def hops_of(pair: Pair) -> range:
    """Return the hops that a check probes."""
    return range(FIRST_HOP, FIRST_HOP + len(pair.steps))


def _walk(counts: Counts, pair: Pair, addresses: Sequence[int | None], places: Places) -> None:
    """Follow one port from switch to switch."""
    at: str | None = pair.leaf
    silent: tuple[Leg, list[Step]] | None = None  # the hop before, if it had no reply, and the links that led to it
    for hop, steps, address in zip(hops_of(pair), pair.steps, addresses, strict=True):
        leg = Leg(hop, len(pair.steps))
        counts.sent[leg] += 1
        if address is None:
            at, silent = None, (leg, [step for step in steps if step.by == at])
            continue
        counts.replied[leg] += 1
        found, kind = _located(steps, address, at, places)
        counts.named[kind][_name(address, places)] += 1
        at = found[0].to if found else None
        if found:
            counts.replying.add((leg, found[0].to))
            _count(counts, pair, hop, found, _rivals(steps, found[0]))
            if silent is not None:
                _count_passed(counts, *silent, found[0].by)
        silent = None


def _count_passed(counts: Counts, leg: Leg, steps: Sequence[Step], switch: str) -> None:
    """Count a port that the next hop saw come from a switch, which had not replied itself."""
    counts.passed[leg, switch] += 1
    links = [step.link for step in steps if step.to == switch]
    if len(links) == 1:
        counts.crossed.update(links)


def _located(
    steps: Sequence[Step], address: int, at: str | None, places: Places
) -> tuple[Sequence[Step], Named]:  # fmt: skip
    """Return the links by which a probe that was `at` a switch before may have come in where it expired."""
    link, switch = places.link_at.get(address), places.switch_at.get(address)
    near = [step for step in steps if step.to == switch and at in (None, step.by)]
    exact = [step for step in near if step.link == link]
    if exact:
        return exact, Named.LINK
    if not near or len({step.by for step in near}) > 1:
        return (), Named.NOTHING if not near else Named.SWITCH
    return near, Named.SWITCH if link is None else Named.ANOTHER_PORT


def _rivals(steps: Sequence[Step], taken: Step) -> tuple[Step, ...]:
    """Return the links among which the switch that chose this one had the choice."""
    return tuple(step for step in steps if step.by == taken.by)


def _count(counts: Counts, pair: Pair, hop: int, found: Sequence[Step], rivals: Sequence[Step]) -> None:
    choice = Choice(hop, found[0].by, tuple(step.link for step in rivals))
    parallel = tuple(step.link for step in rivals if step.to == found[0].to)
    if len(found) > 1:
        counts.merged.add(parallel)
        return
    counts.choices[choice][found[0].link] += 1
    if len(parallel) > 1:
        counts.groups[Group(pair.src_ip, hop, parallel)][found[0].link] += 1


def _name(address: int, places: Places) -> str:
    return places.switch_at.get(address) or ".".join(map(str, address.to_bytes(4, "big")))

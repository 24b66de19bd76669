"""Decide which ends are joined, by what each hears, and which claims contradict each other.

Hearing has a direction. Two ends are joined if each hears the other, or if one hears the other and the other is
silent: LLDP is lost after restarts of its daemon, and NICs report nothing here. A claim to an end that meets another
is dropped, as if its port were silent.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from heddle.controller.cabling.ends import NONE, Ends
from heddle.controller.cabling.heard import Hearings
from heddle.controller.model.fabric import PortRef

DARK, UNKNOWN, LIT = 0, NONE, 1
"""A port without carrier, one of which that is not known, one with carrier."""


class Observed:
    """The cabling as heard; `move` undoes what a cause explains. Lists are indexed by the end."""

    def __init__(self, ends: Ends, heard: Hearings, up: Collection[PortRef] | None) -> None:
        """Join the ends that hear each other. A port without carrier hears nothing: what it reports is stale.

        A port that the fabric leaves free and that hears has carrier, whether or not `up` has it.
        """
        self.ends = ends
        lit = up if up is None or isinstance(up, AbstractSet) else frozenset(up)
        self.hears = _hears(ends, heard, lit)
        self.carrier = _carrier(ends, lit)
        self.met = [NONE] * len(ends.node)
        """The end that each end is joined to."""
        self.crossed: list[int] = []
        """Ends that hear another than the one that hears them."""
        self.claimed: list[int] = []
        """Ends that hear one that is joined to another, or that several hear."""
        self._join()
        self.explained = {NONE, *self.crossed, *self.claimed}
        """Ends of which more is known than that nothing is heard; their cables are not called missing."""

    def grow(self) -> None:
        """Make room for ends that were added since."""
        more = len(self.ends.node) - len(self.met)
        self.met += [NONE] * more
        self.carrier += [UNKNOWN] * more

    def wrong_ends(self) -> list[int]:
        """Return the ends that are joined to another than the expected one."""
        return [
            end
            for end, (far, wanted) in enumerate(zip(self.met, self.ends.expected, strict=True))
            if far not in (wanted, NONE)
        ]

    def move(self, places: Mapping[int, int]) -> None:
        """Put the plug of each end into another, all at once: a permutation, or into free ends."""
        far = {end: self.met[end] for end in places}
        carrier = {end: self.carrier[end] for end in places}
        for end in places:
            self.met[end], self.carrier[end] = NONE, UNKNOWN
        for end, place in places.items():
            self.carrier[place] = carrier[end]
            other = far[end]
            if other != NONE:
                other = places.get(other, other)
                self.met[place], self.met[other] = other, place

    def _join(self) -> None:
        """Join the ends that hear each other, then those of which one hears the other and no claim contradicts it."""
        hears = self.hears
        claims = {}
        for end, heard in hears.items():
            if hears.get(heard, NONE) == end != heard:
                self.met[end] = heard
            else:
                claims[end] = heard
        claims = self._without_rivals(claims)
        heard_ends = set(claims.values())
        for end, heard in claims.items():
            if heard in claims or end in heard_ends:
                self.crossed.append(end)
            else:
                self.met[end], self.met[heard] = heard, end

    def _without_rivals(self, claims: Mapping[int, int]) -> dict[int, int]:
        """Return the claims to ends that no other has: of several the expected one, if there is one."""
        hearers: dict[int, list[int]] = {}
        for end, heard in claims.items():
            hearers.setdefault(heard, []).append(end)
        kept = {}
        for heard, rivals in hearers.items():
            believed = NONE
            if self.met[heard] == NONE:
                wanted = self.ends.expected[heard]
                believed = rivals[0] if len(rivals) == 1 else wanted if wanted in rivals else NONE
            self.claimed += [end for end in rivals if end != believed]
            if believed != NONE:
                kept[believed] = heard
        return kept


def _hears(ends: Ends, heard: Hearings, lit: AbstractSet[PortRef] | None) -> dict[int, int]:
    found = {}
    for port, neighbour in heard.items():
        end = ends.of_port(port)
        if lit is None or port in lit or end >= ends.built:
            far = ends.of_neighbour(neighbour, end)
            if far != NONE:
                found[end] = far
    return found


def _carrier(ends: Ends, lit: AbstractSet[PortRef] | None) -> list[int]:
    if lit is None:
        return [UNKNOWN] * len(ends.node)
    known = [UNKNOWN if port is None else LIT if port in lit else DARK for port in ends.port[: ends.built]]
    return known + [UNKNOWN] * (len(ends.port) - ends.built)

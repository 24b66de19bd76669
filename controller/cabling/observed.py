"""Decide which ends are joined, by what each hears, and which claims contradict each other.

Hearing has a direction. Two ends are joined if each hears the other, or if one hears the other and the other is
silent: LLDP is lost after restarts of its daemon, and NICs report nothing here. A claim that another contradicts joins
nothing.
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
        """Join the ends that hear each other. A port without carrier hears nothing: what it reports is stale."""
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
        expected = self.ends.expected
        hearers: dict[int, list[int]] = {}
        for end, heard in self.hears.items():
            hearers.setdefault(heard, []).append(end)
        doubtful = []
        for end, heard in self.hears.items():
            back = self.hears.get(heard, NONE)
            if back == end != heard:
                self.met[end] = heard
            elif back != NONE or end == heard or any(other != heard for other in hearers.get(end, ())):
                doubtful.append(end)
            elif len(hearers[heard]) == 1 or expected[heard] == end:
                self.met[end], self.met[heard] = heard, end
            else:
                doubtful.append(end)
        for end in doubtful:
            heard = self.hears[end]
            shared = self.met[heard] not in (NONE, end) or len(hearers[heard]) > 1
            (self.claimed if shared else self.crossed).append(end)


def _hears(ends: Ends, heard: Hearings, lit: AbstractSet[PortRef] | None) -> dict[int, int]:
    found = {}
    for port, neighbour in heard.items():
        if lit is None or port in lit:
            end = ends.of_port(port)
            far = ends.of_neighbour(neighbour, end)
            if far != NONE:
                found[end] = far
    return found


def _carrier(ends: Ends, lit: AbstractSet[PortRef] | None) -> list[int]:
    if lit is None:
        return [UNKNOWN] * len(ends.node)
    return [UNKNOWN if port is None else LIT if port in lit else DARK for port in ends.port]

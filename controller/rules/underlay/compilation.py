"""Compile rules with a cache of the parts that are equal for several switches, or from compilation to compilation."""

from collections.abc import Callable, Hashable, Iterable
from functools import cache, cached_property
from typing import TypeVar

from heddle.controller.model.fabric import Cable, Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.port_layout import SteeringLayout
from heddle.controller.model.rule import Cookie, CookieKind, FlowRule, Pin
from heddle.controller.rules.pins import pin_rules
from heddle.controller.rules.underlay.aggregate import Labelled, Run, aggregate, relabelled, runs_of
from heddle.controller.rules.underlay.reach import Reach

T = TypeVar("T")
_NONE = object()


@cache
def underlay(kind: CookieKind) -> int:
    """Return the cookie of a rule that belongs to no job."""
    return Cookie(kind).pack()


class Parts:
    """The parts of rules that compilations of one fabric and layout share; keeps those of the newest two.

    A key has all that its part follows from, but fabric and layout. Rules that do not differ between two compilations
    are therefore the same objects in both.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, object] = {}
        self._before: dict[Hashable, object] = {}

    def begin(self) -> None:
        """Begin a compilation: parts that neither the last one nor this one uses are forgotten."""
        self._before, self._made = self._made, {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the cached part of a key; the first call computes it with `make`."""
        found = self._made.get(key, _NONE)
        if found is _NONE:
            found = self._before.get(key, _NONE)
            self._made[key] = found = make() if found is _NONE else found
        return found  # type: ignore[return-value]  # each key has one type of value


class Compilation:
    """One fabric, its health and its pins, with a cache of the parts that rules of several switches share."""

    def __init__(
        self, fabric: Fabric, layout: SteeringLayout, health: Health, pins: Iterable[Pin], parts: Parts
    ) -> None:
        self.fabric = fabric
        self.layout = layout
        self.health = health
        self.reach = Reach(fabric, health)
        self.pin_rules = pin_rules(fabric, pins)
        self.once = parts.once

    @cached_property
    def leaf_number(self) -> dict[str, int]:
        """Return every leaf's number: its position in the fabric's order."""
        return {leaf: number for number, leaf in enumerate(self.fabric.leaves)}

    @cached_property
    def turn(self) -> dict[str, int]:
        """Return every switch's position in the fabric, which spreads otherwise equal decisions."""
        return {switch.id: place for place, switch in enumerate(self.fabric.switches)}

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Return all NIC addresses as runs: consecutive addresses of one leaf."""
        fabric, number = self.fabric, self.leaf_number
        return self.once("runs", lambda: runs_of((nic.ip, number[nic.port.switch]) for nic in fabric.nics))

    @cached_property
    def destinations(self) -> tuple[int, ...]:
        """Return the numbers of the leaves that have a NIC."""
        return tuple(sorted({run.owner for run in self.runs}))

    @cached_property
    def wanted(self) -> int:
        """Return the leaves that have a NIC, as a bitmask."""
        return sum(1 << number for number in self.destinations)

    @cached_property
    def spread_shift(self) -> int:
        """Return the number of low address bits that leaves select by; the tier above uses higher ones."""
        choices = max((len(self.fabric.up_choices[leaf]) for leaf in self.fabric.leaves), default=1)
        return max(0, choices - 1).bit_length()

    def prefixes(self, labels: tuple[int | None, ...], background: int | None) -> tuple[Labelled, ...]:
        """Return the fewest prefixes that map the leaves' addresses to their labels."""
        return self.once(("prefixes", labels, background), lambda: aggregate(relabelled(self.runs, labels), background))

    def rules_once(self, key: Hashable, make: Callable[[], Iterable[FlowRule]]) -> tuple[FlowRule, ...]:
        """Return the cached rules of a key; the first call computes them with `make`."""
        return self.once(("rules", key), lambda: tuple(make()))


def weights_of(cables: Iterable[Cable]) -> tuple[int, ...]:
    """Return the cables' weights as choices: their capacities."""
    return tuple(cable.capacity_bps for cable in cables)

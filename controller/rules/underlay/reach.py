"""Compute which of a switch's choices reach which leaves by an admissible path: up, then down, never up again.

Leaves are numbered in the fabric's order; a set of leaves, or of choices, is a bitmask.
"""

from collections.abc import Iterable
from functools import cached_property

from heddle.controller.model.fabric import Cable, DownGroup, Fabric, Switch
from heddle.controller.model.health import Health


class Reach:
    """The reachability of leaves in one fabric with one state of health."""

    def __init__(self, fabric: Fabric, health: Health) -> None:
        self._fabric = fabric
        self._down_switches = health.down_switches
        self._down_ports = frozenset(fabric.cable_by_link[name].lower for name in health.down_cables)
        self._number = {leaf: number for number, leaf in enumerate(fabric.leaves)}

    @cached_property
    def below(self) -> dict[str, int]:
        """Return the leaves below each switch as the fabric was built."""
        return {switch: self._mask(leaves) for switch, leaves in self._fabric.leaves_below.items()}

    @cached_property
    def down(self) -> dict[str, int]:
        """Return the leaves that each switch reaches by live cables downwards."""
        reached: dict[str, int] = {}
        for switch in _by_tier(self._fabric):
            own = self._number.get(switch.id)
            reached[switch.id] = 0 if own is None else 1 << own
            for cable in self._fabric.down_cables[switch.id]:
                if self._is_live(cable):
                    reached[switch.id] |= reached[cable.lower.switch]
        return reached

    @cached_property
    def by_choice(self) -> dict[str, tuple[int, ...]]:
        """Return, by switch and choice upwards, the leaves that the choice reaches."""
        found: dict[str, tuple[int, ...]] = {}
        entered: dict[str, int] = {}
        for switch in reversed(_by_tier(self._fabric)):
            found[switch.id] = tuple(
                entered[cable.upper.switch] if self._is_live(cable) else 0
                for cable in self._fabric.up_choices[switch.id]
            )
            # Destinations below are reached downwards only. A detour over the tier above would be admissible, but no
            # order of changes would then be free of loss: the tier above must first stop using this switch downwards.
            entered[switch.id] = self.down[switch.id] | _union(found[switch.id]) & ~self.below[switch.id]
        return found

    def cables_down_to(self, group: DownGroup, leaf_number: int) -> int:
        """Return the cables of a group that reach one of its leaves."""
        return sum(
            1 << i
            for i, cable in enumerate(group.cables)
            if self._is_live(cable) and self.down[cable.lower.switch] >> leaf_number & 1
        )

    def _is_live(self, cable: Cable) -> bool:
        """Return whether a cable and the switches at both of its ends are up."""
        return not (
            cable.lower in self._down_ports
            or cable.lower.switch in self._down_switches
            or cable.upper.switch in self._down_switches
        )

    def _mask(self, leaves: Iterable[str]) -> int:
        mask = 0
        for leaf in leaves:
            mask |= 1 << self._number[leaf]
        return mask


def _union(sets: Iterable[int]) -> int:
    union = 0
    for leaves in sets:
        union |= leaves
    return union


def _by_tier(fabric: Fabric) -> list[Switch]:
    return sorted(fabric.switches, key=lambda switch: switch.role.tier)

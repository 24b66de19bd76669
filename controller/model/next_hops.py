"""Equal-cost routing on a fabric: the next hops of a switch towards a leaf, as a routing protocol converges on them."""

from collections.abc import Collection
from typing import NamedTuple

from heddle.controller.model.fabric import Cable, Fabric, PortRef


class NextHop(NamedTuple):
    """A next hop of a switch: its own port, the neighbour's port, and the cable between them."""

    own: PortRef
    far: PortRef
    cable: Cable

    @property
    def link(self) -> str:
        """Return the directed link from the switch to the neighbour."""
        return f"{self.own}>{self.far}"


def next_hops(fabric: Fabric, switch: str, leaf: str, failed: Collection[str] = ()) -> tuple[NextHop, ...]:
    """Return the next hops towards another leaf, by port number: down where the leaf is below the switch, else up.

    `failed` are ids of cables; a next hop from which the leaf cannot be reached is left out.
    """
    if leaf in fabric.leaves_below[switch]:
        below = fabric.leaves_below
        cables = [cable for cable in fabric.down_cables[switch] if leaf in below[cable.lower.switch]]
        hops = [NextHop(cable.upper, cable.lower, cable) for cable in cables]
    else:
        hops = [NextHop(cable.lower, cable.upper, cable) for cable in fabric.up_choices[switch]]
    return tuple(
        hop
        for hop in hops
        if hop.cable.id not in failed and (hop.far.switch == leaf or next_hops(fabric, hop.far.switch, leaf, failed))
    )

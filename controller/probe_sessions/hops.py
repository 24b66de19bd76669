"""Compute the switches and links that a probe can reach at each hop, by the shortest paths of the fabric as built.

A path of top t climbs t - 1 cables from its leaf and descends as many: hop k is the switch after k - 1 cables.
"""

from functools import lru_cache
from itertools import count

from heddle.controller.model.fabric import Fabric

MAX_PAIRS = 4_096
Switches = frozenset[str]


class Hops:
    """The switches at each hop between two NICs of a fabric, given by their addresses."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._leaf_of = {nic.ip: nic.port.switch for nic in fabric.nics}
        self._above: dict[str, list[Switches]] = {}
        self._between = lru_cache(MAX_PAIRS)(self._computed)

    def switches(self, src_ip: int, dst_ip: int, hop: int) -> Switches:
        """Return the switches at which a probe can expire after `hop` hops; empty where it can at none."""
        src, dst = self._leaf_of.get(src_ip), self._leaf_of.get(dst_ip)
        if src is None or dst is None:
            return frozenset()
        between = self._between(src, dst)
        return between[hop - 1] if 0 < hop <= len(between) else frozenset()

    def may_end(self, src_ip: int, dst_ip: int, hop: int, link: str) -> bool:
        """Return whether a directed link can be the one by which a probe came in where it expired."""
        cable = self._fabric.cable_by_link.get(link)
        if cable is None:
            return False
        below, above = cable.lower.switch, cable.upper.switch
        first, second = (below, above) if link == cable.up_link else (above, below)
        return second in self.switches(src_ip, dst_ip, hop) and first in self.switches(src_ip, dst_ip, hop - 1)

    def _computed(self, src: str, dst: str) -> tuple[Switches, ...]:
        """Return the switches at every hop from one leaf to another; empty where no path leads up and then down."""
        if src == dst:
            return (frozenset((src,)),)
        for climbs in count(1):
            up, down = self._climbed(src, climbs), self._climbed(dst, climbs)
            if not up or not down:
                return ()
            tops = up if up == down else up & down
            if tops:
                rise = [self._climbed(src, height) for height in range(climbs)]
                fall = [self._climbed(dst, height) for height in reversed(range(climbs))]
                return (*rise, tops, *fall)
        raise AssertionError("count ends never")

    def _climbed(self, leaf: str, climbs: int) -> Switches:
        """Return the switches that are so many cables above a leaf."""
        above = self._above.setdefault(leaf, [frozenset((leaf,))])
        while len(above) <= climbs:
            cables = (cable for switch in above[-1] for cable in self._fabric.up_choices[switch])
            above.append(frozenset(cable.upper.switch for cable in cables))
        return above[climbs]

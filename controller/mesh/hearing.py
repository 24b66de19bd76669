"""Turn what returned over SRv6 into what ports hear: probes of the mesh, and the pings of two NICs of a leaf.

A probe that is answered joins both ends of the cable at its far end, as its uNs let no other switch pass it. In the
style ua a cable above the leaf takes two kinds of probes, of which each has room for one uN: both must be answered.
Of cables in parallel nothing is heard: a probe returns by another just as well.
"""

from collections.abc import Iterable, Sequence

from heddle.controller.cabling.sources.pinged import parallel_cables
from heddle.controller.model.cabling import Peer
from heddle.controller.model.fabric import Cable, Fabric, PortRef
from heddle.controller.model.srv6 import ADDRESS_BITS, BLOCK_BITS, USID_BITS
from heddle.controller.model.srv6_pings import Pinged
from heddle.controller.model.srv6_settings import Style

Changes = dict[PortRef, Peer | None]
_THIRD_USID_AT = ADDRESS_BITS - BLOCK_BITS - 3 * USID_BITS


class PingedPeers:
    """What the ports of one fabric hear by pings."""

    def __init__(self, fabric: Fabric) -> None:
        """Begin with nothing."""
        self.fabric = fabric
        self._parallel = parallel_cables(fabric)
        self._kinds: dict[str, set[int]] = {}
        self._heard: dict[PortRef, PortRef] = {}

    @property
    def wrong(self) -> frozenset[Cable]:
        """Return the cables of which an end hears another port than the planned one."""
        cables = self.fabric.cable_by_port
        return frozenset(cables[port] for port, peer in self._heard.items() if peer != _far(cables[port], port))

    def answered(self, probes: Iterable[tuple[Cable, int]]) -> Changes:
        """Take the addresses of probes that were answered, with the cable at the far end of each."""
        joined = []
        for cable, address in probes:
            if cable.id in self._parallel or cable.lower in self._heard or cable.upper in self._heard:
                continue
            kinds = self._kinds.setdefault(cable.id, set())
            kinds.add(address >> _THIRD_USID_AT & 0xFFFF)
            if len(kinds) >= self._kinds_of(cable):
                joined.append((cable.lower, cable.upper))
        return self._changed(joined)

    def located(self, reports: Sequence[Pinged]) -> Changes:
        """Take what the pings of several NICs have shown: what all of them agree on, and none says otherwise."""
        found = [
            {(each.lower, each.upper) for each in report.returned if each.id not in self._parallel}
            | {(each.cable.lower, each.instead[0]) for each in report.findings if len(each.instead) == 1}
            for report in reports
        ]
        return self._changed(sorted(set.intersection(*found))) if found else {}

    def _changed(self, joined: Iterable[tuple[PortRef, PortRef]]) -> Changes:
        """Join ends, and return what is heard anew; who was joined with one of them hears nothing any more."""
        before = dict(self._heard)
        for ends in joined:
            for port in ends:
                if (other := self._heard.pop(port, None)) is not None:
                    self._heard.pop(other, None)
            self._heard |= {ends[0]: ends[1], ends[1]: ends[0]}
        changes: Changes = dict.fromkeys(before.keys() - self._heard.keys())
        for port, peer in self._heard.items():
            if before.get(port) != peer:
                changes[port] = Peer(peer.switch, peer.number)
        return changes

    def _kinds_of(self, cable: Cable) -> int:
        is_leafs = cable.lower.switch in self.fabric.nics_of_leaf
        return 1 if is_leafs or self.fabric.srv6.style is not Style.UA else 2


def _far(cable: Cable, port: PortRef) -> PortRef:
    return cable.upper if port == cable.lower else cable.lower

"""The traffic classes that plans assume of switches and NICs: one row each, and the class of every network's flows.

Flow plans, SONiC's settings and their comparison, the lab's queues and NICs read this table. Each NIC process of the
lab imports it, so it imports little.
"""

from collections.abc import Mapping
from typing import NamedTuple

from heddle.foundation.network import Network


class TrafficClass(NamedTuple):
    """Packets of one DSCP, and how each port treats them."""

    name: str
    """What texts call these packets."""
    dscp: int
    priority: int
    """The 802.1p priority, queue and PFC priority; a lossless class has a priority group of the same number."""
    lossless: bool
    """Whether a full buffer pauses the sender (PFC) instead of dropping."""
    weight: int
    """The share (ETS) of what strict classes leave, in proportion to other weights; 0 for a strict class."""
    ecn: bool
    """Whether a growing queue marks packets that are ECN-capable."""

    @property
    def strict(self) -> bool:
        """Return whether its packets are served before those of all classes with a weight."""
        return self.weight == 0


OTHER = TrafficClass("other traffic", dscp=0, priority=0, lossless=False, weight=50, ecn=True)
"""Every DSCP without a row has this class too."""
DATA = TrafficClass("data", dscp=26, priority=3, lossless=True, weight=50, ecn=True)
CNP = TrafficClass("CNPs", dscp=48, priority=6, lossless=False, weight=0, ecn=False)

CLASSES = (OTHER, DATA, CNP)
"""All classes, by priority."""
CLASS_OF_NETWORK: Mapping[Network, TrafficClass] = {
    Network.COMPUTE: DATA,
    Network.STORAGE: DATA,
    Network.BUSINESS: DATA,
    Network.MANAGEMENT: DATA,
}
"""The class of planned flows, by the network of the NIC that sends them."""

FLOW_CLASSES = tuple(each for each in CLASSES if each not in (OTHER, CNP))
"""The classes that planned flows may have."""
LOSSLESS = tuple(each for each in CLASSES if each.lossless)
PRIORITY_OF_DSCP = {each.dscp: each.priority for each in CLASSES}
"""Every other DSCP has the priority of OTHER."""

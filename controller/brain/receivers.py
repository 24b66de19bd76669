"""Share a receiver's port between its planned senders and those that no job has planned.

Such an incast is planned again as if the others were senders like the planned ones: they get what they are measured
to send, at most their max-min fair share, and the planned senders share the rest. So a sender that ignores its rate
takes no more than that from those that keep to theirs.
"""

from heddle.controller.model.event import HotLink
from heddle.controller.model.fabric import Fabric
from heddle.controller.planner.proof.fluid import INCAST_HEADROOM


def is_receiver(fabric: Fabric, link: str) -> bool:
    """Return whether a link leads to a NIC."""
    return link.partition(">")[2] in fabric.nic_by_id


def capacity_bps(fabric: Fabric, link: str) -> int | None:
    """Return the capacity of a link out of a switch port in bit/s; None where the fabric has no such link."""
    port, _, peer = link.partition(">")
    nic = fabric.nic_by_id.get(peer)
    if nic is not None:
        return nic.capacity_bps if str(nic.port) == port else None
    cable = fabric.cable_by_link.get(link)
    return cable.capacity_bps if cable is not None else None


def others_share_bps(fabric: Fabric, hot: HotLink, excess_bps: int, others: int) -> int:
    """Return what is left to the `others` NICs that send more than planned to a receiver, in bit/s.

    NICs that send more than planned elsewhere count too: the planned senders then have less than their fair share, but
    no less than the others have in excess.
    """
    fair = max(1, others) / (hot.senders + max(1, others))
    shared_bps = INCAST_HEADROOM * (capacity_bps(fabric, hot.link) or 0)
    return min(excess_bps, int(shared_bps * fair))

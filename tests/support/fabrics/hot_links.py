"""Hot links as telemetry would report them, from a state and a measured rate."""

from heddle.controller.brain.state import State
from heddle.controller.model.event import HotLink
from heddle.controller.views.planned_traffic import PlannedTraffic


def hot_link(state: State, link: str, measured_bps: int) -> HotLink:
    """Return a congested link whose planned senders send as planned."""
    nic = state.fabric.nic_by_id.get(link.partition(">")[2])
    capacity_bps = nic.capacity_bps if nic is not None else state.fabric.cable_by_link[link].capacity_bps
    return PlannedTraffic(state, {link: measured_bps / capacity_bps}).link(link, priority=3)

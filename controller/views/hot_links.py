"""Find the links between switches that telemetry shows as congested, and the NICs that send more than planned."""

from collections.abc import Iterable

from controller.brain.state import State
from controller.model.event import Congested, HotLink
from controller.views.measured import link_utilisation
from controller.views.view import link_loads_bps
from telemetry.detection.signal import Kind, Signal
from telemetry.detection.window import Snapshot

MIN_OVER = 0.02
"""A NIC sends more than planned from this share of its rate on: less is ACKs and headers."""
_HOT = (Kind.CONGESTION, Kind.DROP)


def is_hot(active: Iterable[Signal]) -> bool:
    """Return whether any port is congested or drops."""
    return any(signal.kind in _HOT for signal in active)


def hot_links(state: State, snapshot: Snapshot, active: Iterable[Signal]) -> Congested:
    """Return the congested links of a sampling period, with their measured rates."""
    signals = [signal for signal in active if signal.kind in _HOT]
    fabric = state.fabric
    fresh = {signal.port: signal for signal in reversed(signals) if not signal.stale}
    if not fresh:
        return Congested(hot=(), stale=tuple(sorted({signal.port for signal in signals})))
    used = link_utilisation(fabric, snapshot)
    ends = {cable.up_link: cable.lower for cable in fabric.cables} | {
        cable.down_link: cable.upper for cable in fabric.cables
    }
    hot = tuple(
        HotLink(
            port=str(port),
            link=link,
            priority=fresh[str(port)].priority,
            measured_bps=round(used[link] * fabric.cable_by_link[link].capacity_bps),
        )
        for link, port in ends.items()
        if str(port) in fresh and link in used
    )
    planned = link_loads_bps(state)
    over = [
        (nic.id, round(used[nic.up_link] * nic.capacity_bps) - planned.get(nic.up_link, 0))
        for nic in fabric.nics
        if nic.up_link in used
    ]
    least = {nic.id: MIN_OVER * nic.capacity_bps for nic in fabric.nics}
    loud = sorted((each for each in over if each[1] > least[each[0]]), key=lambda each: -each[1])
    stale = {signal.port for signal in signals if signal.stale}
    return Congested(hot=hot, over=tuple(loud), stale=tuple(sorted(stale)))

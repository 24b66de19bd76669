"""Find the links between switches that telemetry shows as congested, and the NICs that send more than planned."""

from collections.abc import Iterable

from controller.brain.state import State
from controller.model.event import Congested, HotLink
from controller.views.congestion import congestion
from controller.views.measured import link_utilisation, pfc_queues
from controller.views.view import link_loads_bps
from telemetry.detection.signal import Kind, Signal
from telemetry.detection.window import Snapshot

MIN_OVER = 0.02
"""A NIC sends more than planned from this share of its rate on: less is ACKs and headers."""
_HOT = (Kind.CONGESTION, Kind.DROP)


def is_hot(active: Iterable[Signal]) -> bool:
    """Return whether any port is congested, drops or is paused without end."""
    return any(signal.kind in _HOT or signal.kind is Kind.STORM for signal in active)


def storming_nics(state: State, snapshot: Snapshot, active: Iterable[Signal]) -> tuple[str, ...]:
    """Return the NICs that send pause without end: the root of the pauses of the switch port at their cable."""
    fresh = [signal for signal in active if signal.kind is Kind.STORM and not signal.stale]
    peers, nics = state.fabric.peer_by_name, state.fabric.nic_by_id
    found = congestion(state, fresh, pfc_queues(snapshot)) if fresh else ()
    roots = {each.root_cause for each in found if peers.get(each.signal.port) == each.root_cause}
    return tuple(sorted(roots & nics.keys()))


def hot_links(state: State, snapshot: Snapshot, active: Iterable[Signal]) -> Congested:
    """Return the congested links of a sampling period, with their measured rates."""
    active = tuple(active)
    storms = storming_nics(state, snapshot, active)
    # What a tripped watchdog discards is no congestion.
    discarding = {signal.port for signal in active if signal.kind is Kind.STORM}
    signals = [signal for signal in active if signal.kind in _HOT and signal.port not in discarding]
    fabric = state.fabric
    fresh = {signal.port: signal for signal in reversed(signals) if not signal.stale}
    if not fresh:
        return Congested(hot=(), stale=tuple(sorted({signal.port for signal in signals})), storms=storms)
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
    return Congested(hot=hot, over=tuple(loud), stale=tuple(sorted(stale)), storms=storms)

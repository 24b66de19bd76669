"""Find the links out of switches that telemetry shows as congested, and the NICs that send more than planned."""

from collections.abc import Iterable

from heddle.controller.brain.state import State
from heddle.controller.model.event import Congested
from heddle.controller.views.congestion import congestion
from heddle.controller.views.measured import Totals, link_utilisation, pfc_queues
from heddle.controller.views.planned_traffic import PlannedTraffic
from heddle.telemetry.detection.signal import Signal, SignalKind
from heddle.telemetry.detection.window import Snapshot

_HOT = (SignalKind.CONGESTION, SignalKind.DROP)


def is_hot(active: Iterable[Signal]) -> bool:
    """Return whether any port is congested, drops or is paused without end."""
    return any(signal.kind in _HOT or signal.kind is SignalKind.STORM for signal in active)


def storming_nics(state: State, snapshot: Snapshot, active: Iterable[Signal]) -> tuple[str, ...]:
    """Return the NICs that send pause without end: the root of the pauses of the switch port at their cable."""
    fresh = [signal for signal in active if signal.kind is SignalKind.STORM and not signal.stale]
    peers, nics = state.fabric.peer_by_name, state.fabric.nic_by_id
    found = congestion(state, fresh, pfc_queues(snapshot)) if fresh else ()
    roots = {each.root_cause for each in found if peers.get(each.signal.port) == each.root_cause}
    return tuple(sorted(roots & nics.keys()))


def hot_links(state: State, snapshot: Snapshot, active: Iterable[Signal], before: Totals | None = None) -> Congested:
    """Return the congested links of a sampling period, and those that were lately, with their rates since `before`."""
    active = tuple(active)
    storms = storming_nics(state, snapshot, active)
    # What a tripped watchdog discards is no congestion; a NIC's own egress is its host's affair.
    apart = {signal.port for signal in active if signal.kind is SignalKind.STORM} | state.fabric.nic_by_id.keys()
    signals = [signal for signal in active if signal.kind in _HOT and signal.port not in apart]
    stale = {signal.port for signal in signals if signal.stale}
    fresh = {signal.port: signal.priority for signal in reversed(signals) if not signal.stale}
    lately = state.hot_ports.keys() - fresh.keys() - stale
    if not fresh and not lately:
        return Congested(hot=(), stale=tuple(sorted(stale)), storms=storms)
    measured = link_utilisation(state.fabric, snapshot, before)
    traffic = PlannedTraffic(state, measured)
    link_of = {port: f"{port}>{state.fabric.peer_by_name[port]}" for port in (*fresh, *lately)}
    known = {port for port, link in link_of.items() if link in measured}
    return Congested(
        hot=tuple(traffic.link(link_of[port], priority) for port, priority in sorted(fresh.items()) if port in known),
        calm=tuple(traffic.link(link_of[port]) for port in sorted(lately & known)),
        over=traffic.over(),
        stale=tuple(sorted(stale | lately - known)),
        storms=storms,
    )

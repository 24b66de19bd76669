"""Find congested ports, the planned flows that they affect, and the root of each tree of PFC pauses.

PFC spreads upstream: a full egress queue fills the buffers of its switch, the switch pauses the ports that feed it,
those fill in turn. So many ports report pauses, one reports congestion. To find it from a paused port, go downstream:

    paused port P ──► its peer Q paused it. Q is a NIC: the host is too slow, Q is the root.
                      Q is a switch port: one of that switch's egress ports is full. Of the next ports of planned flows
                      over P>Q (without a plan: all of the switch's ports with a condition), the first that is
                        paused itself    ──► continue from there
                        congested, drops ──► is the root
                        neither          ──► the root is Q's switch; the port is unknown
    port P that paused its peer ──► the full egress is on P's own switch: continue there as above.

A NIC ends the search even if it is paused itself: it forwards nothing, so what stops its own traffic does not make it
pause others. Without a plan, traffic that came down is searched for on the ports that lead down first: paths of a Clos
fabric do not go up again, and an uplink there is paused because of another root.

A port that is visited twice closes a circle: a deadlock, reported as such. Pure.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heddle.controller.brain.state import State
from heddle.controller.model.fabric import Fabric
from heddle.telemetry.detection.signal import Signal, SignalKind

MAX_FLOW_IDS = 100
"""The maximum number of flow ids per condition; all flows are counted."""

CIRCLE = "circle through "
"""What precedes the name of a port in `root_cause` where pauses go round in a circle."""

Queue = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Congested:
    """A raised condition, the planned flows that cross its port, and the port or switch that causes it.

    `trail` are the ports from the one of the condition down to the root, both included; empty without a root.
    """

    signal: Signal
    flow_ids: tuple[str, ...]
    flows: int
    root_cause: str
    trail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Crossing:
    """The planned flows over some ports: the first ids, the counts, and by link the ports of their next hops."""

    flow_ids: Mapping[str, list[str]]
    counts: Mapping[str, int]
    onward: Mapping[str, Counter[str]]


def congestion(state: State, active: Iterable[Signal], pfc: Mapping[Queue, tuple[bool, bool]]) -> tuple[Congested, ...]:
    """Explain the raised conditions; `pfc` holds (was paused, paused its peer) by port and priority."""
    signals = tuple(active)
    peers = state.fabric.peer_by_name
    feeding = {peers.get(port, port) for (port, _), (_, pausing) in pfc.items() if pausing}
    crossing = _crossing(state, {_sending(peers, signal) for signal in signals} | {port for port, _ in pfc} | feeding)
    full = {
        (s.port, s.priority)
        for s in signals
        if s.kind in (SignalKind.CONGESTION, SignalKind.DROP) and s.priority is not None
    }
    tree = _PauseTree(state.fabric, crossing.onward, pfc, full)
    return tuple(_explained(signal, crossing, _sending(peers, signal), _trail(tree, signal, pfc)) for signal in signals)


def _sending(peers: Mapping[str, str], signal: Signal) -> str:
    """Return the port that sends what a condition concerns: losses are counted where frames arrive."""
    return peers.get(signal.port, signal.port) if signal.kind is SignalKind.LOSS else signal.port


def _explained(signal: Signal, crossing: "_Crossing", port: str, trail: tuple[str, ...]) -> Congested:
    root = trail[-1] if trail else ""
    return Congested(
        signal=signal,
        flow_ids=tuple(crossing.flow_ids.get(port, ())),
        flows=crossing.counts.get(port, 0),
        root_cause=CIRCLE + root if root in trail[:-1] else root,
        trail=trail,
    )


def _trail(tree: "_PauseTree", signal: Signal, pfc: Mapping[Queue, tuple[bool, bool]]) -> tuple[str, ...]:
    if signal.kind is SignalKind.PAUSING and (signal.port, signal.priority) not in pfc:
        return ()  # the pauses have ended, the condition is about to be cleared
    if signal.kind in (SignalKind.PAUSING, SignalKind.STORM) and signal.priority is not None:
        return tree.trail(signal.port, signal.priority)
    return () if signal.kind is SignalKind.SILENT else (signal.port,)


class _PauseTree:
    """The search of the drawing above, over the ports and queues with PFC or a condition."""

    def __init__(
        self,
        fabric: Fabric,
        onward: Mapping[str, Counter[str]],
        pfc: Mapping[Queue, tuple[bool, bool]],
        full: set[Queue],
    ) -> None:
        self._peers, self._onward, self._pfc, self._full = fabric.peer_by_name, onward, pfc, full
        self._up_facing = {str(cable.lower) for cable in fabric.cables}
        self._reporting: dict[Queue, list[str]] = defaultdict(list)
        for port, priority in sorted({*pfc, *full}):
            self._reporting[_switch(port), priority].append(port)

    def trail(self, port: str, priority: int) -> tuple[str, ...]:
        """Return the ports from a queue's to what causes its pauses: a port, NIC or switch; a circle repeats one."""
        paused, pausing = self._pfc.get((port, priority), (True, False))
        met = [port]
        while True:
            if len(met) == 1 and pausing and not paused:
                link, behind = f"{self._peers.get(port, '')}>{port}", port
            else:
                behind = self._peers.get(port, port)
                link = f"{port}>{behind}"
            port = self._behind(link, behind, priority)
            if self._is_root(port, priority):
                return (*(each for each in met if each != port), port)
            if port in met:
                return (*met, port)
            met.append(port)

    def _behind(self, link: str, port: str, priority: int) -> str:
        """Return the egress port that fills the switch of `port`: a paused one, else a full one, else the switch."""
        switch = _switch(port)
        if switch == port:
            return port  # a NIC: its host is too slow
        planned = [name for name, _ in self._onward.get(link, Counter()).most_common()]
        around = [name for name in self._reporting[switch, priority] if name != port]
        onward = [name for name in around if port not in self._up_facing or name not in self._up_facing]
        for choices in (planned, onward, around):
            for wanted in (self._paused, self._is_full):
                for name in choices:
                    if name != port and wanted(name, priority):
                        return name
        return switch

    def _is_root(self, found: str, priority: int) -> bool:
        """Return whether the search ends: at a NIC, at a switch, or at a port that is not paused."""
        return _switch(found) == found or not self._paused(found, priority)

    def _paused(self, port: str, priority: int) -> bool:
        return self._pfc.get((port, priority), (False, False))[0]

    def _is_full(self, port: str, priority: int) -> bool:
        return (port, priority) in self._full


def _switch(port: str) -> str:
    """Return the switch of a port, or a NIC itself."""
    return port.rpartition(":")[0] or port


def _crossing(state: State, ports: set[str]) -> _Crossing:
    """Collect the flows of every job that loads a link out of these ports, in one pass."""
    flow_ids: dict[str, list[str]] = defaultdict(list)
    counts: Counter[str] = Counter()
    onward: dict[str, Counter[str]] = defaultdict(Counter)
    for job in state.jobs.values():
        if not any(link.partition(">")[0] in ports for link in job.flows.link_loads_bps):
            continue
        for flow in job.flows.flows:
            for position, link in enumerate(flow.links):
                port = link.partition(">")[0]
                if port not in ports:
                    continue
                counts[port] += 1
                if len(flow_ids[port]) < MAX_FLOW_IDS:
                    flow_ids[port].append(flow.flow_id)
                if position + 1 < len(flow.links):
                    onward[link][flow.links[position + 1].partition(">")[0]] += 1
    return _Crossing(flow_ids, counts, onward)

"""What is congested now, which planned flows suffer there, and at which port a pause tree starts.

PFC spreads upstream: a full egress queue fills the buffers of its switch, the switch pauses the ports that feed it,
those fill in turn. So many ports tell of pauses, and one of congestion. To find it from a paused port, go downstream:

    paused port P ──► its peer Q paused it. Q is a NIC: the host is too slow, Q is the root.
                      Q is a switch port: one of that switch's egress ports is full. Of those that planned flows over
                      P>Q go on by (all of the switch's ports with a condition, where no plan says), the first that is
                        paused itself    ──► go on from there
                        congested, drops ──► that is the root
                        neither          ──► the root is Q's switch, more cannot be said
    port P that paused its peer ──► the full egress is on P's own switch: look there as above.

Ports that are met twice close a circle: a deadlock, told as such. Everything here is read off values.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.brain.state import State
from controller.model.fabric import Fabric
from telemetry.detection.signal import Kind, Signal

MAX_FLOW_IDS = 100
"""At most this many flows are named per condition; all are counted."""

Queue = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Congested:
    """A raised condition, the planned flows that cross its port, and the port or switch where it comes from."""

    signal: Signal
    flow_ids: tuple[str, ...]
    flows: int
    root_cause: str


@dataclass(frozen=True, slots=True)
class _Crossing:
    """The planned flows over some ports: ids (the first ones), how many, and where they go on from each link."""

    flow_ids: Mapping[str, list[str]]
    counts: Mapping[str, int]
    onward: Mapping[str, Counter[str]]


def congestion(state: State, active: Iterable[Signal], pfc: Mapping[Queue, tuple[bool, bool]]) -> tuple[Congested, ...]:
    """Explain the raised conditions; `pfc` says of ports and priorities whether they were paused, and paused others."""
    signals = tuple(active)
    peers = state.fabric.peer_by_name
    feeding = {peers.get(port, port) for (port, _), (_, pausing) in pfc.items() if pausing}
    crossing = _crossing(state, {signal.port for signal in signals} | {port for port, _ in pfc} | feeding)
    full = {(s.port, s.priority) for s in signals if s.kind in (Kind.CONGESTION, Kind.DROP) and s.priority is not None}
    tree = _PauseTree(state.fabric, crossing.onward, pfc, full)
    return tuple(
        Congested(
            signal=signal,
            flow_ids=tuple(crossing.flow_ids.get(signal.port, ())),
            flows=crossing.counts.get(signal.port, 0),
            root_cause=_root(tree, signal),
        )
        for signal in signals
    )


def _root(tree: "_PauseTree", signal: Signal) -> str:
    if signal.kind in (Kind.PAUSING, Kind.STORM) and signal.priority is not None:
        return tree.root(signal.port, signal.priority)
    return "" if signal.kind is Kind.SILENT else signal.port


class _PauseTree:
    """The walk of the drawing above, over the ports and queues that tell of anything."""

    def __init__(
        self,
        fabric: Fabric,
        onward: Mapping[str, Counter[str]],
        pfc: Mapping[Queue, tuple[bool, bool]],
        full: set[Queue],
    ) -> None:
        self._peers, self._onward, self._pfc, self._full = fabric.peer_by_name, onward, pfc, full
        self._told: dict[Queue, list[str]] = defaultdict(list)
        for port, priority in sorted({*pfc, *full}):
            self._told[_switch(port), priority].append(port)

    def root(self, port: str, priority: int) -> str:
        """Return the port, NIC or switch where the pauses of a queue begin."""
        paused, pausing = self._pfc.get((port, priority), (True, False))
        met: set[str] = set()
        if pausing and not paused:
            met.add(port)
            found = self._behind(f"{self._peers.get(port, '')}>{port}", port, priority)
            if not self._paused(found, priority):
                return found
            port = found
        while port not in met:
            met.add(port)
            peer = self._peers.get(port, port)
            found = self._behind(f"{port}>{peer}", peer, priority)
            if not self._paused(found, priority):
                return found
            port = found
        return f"circle through {port}"

    def _behind(self, link: str, port: str, priority: int) -> str:
        """Return the egress that fills what `port` belongs to: a paused one, else a full one, else all of it."""
        switch = _switch(port)
        if switch == port:
            return port  # a NIC: the host does not take what comes
        planned = [name for name, _ in self._onward.get(link, Counter()).most_common()]
        around = [name for name in self._told[switch, priority] if name != port]
        for choices in (planned, around):
            for wanted in (self._paused, self._is_full):
                for name in choices:
                    if name != port and wanted(name, priority):
                        return name
        return switch

    def _paused(self, port: str, priority: int) -> bool:
        return self._pfc.get((port, priority), (False, False))[0]

    def _is_full(self, port: str, priority: int) -> bool:
        return (port, priority) in self._full


def _switch(port: str) -> str:
    """Return the switch of a port; a NIC is its own."""
    return port.rpartition(":")[0] or port


def _crossing(state: State, ports: set[str]) -> _Crossing:
    """Walk once over the flows of every job that loads a link out of these ports."""
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

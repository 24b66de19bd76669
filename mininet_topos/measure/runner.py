"""Run a set of flows on a lab's NICs and collect the counters of NICs, links, queues and sockets."""

import re
import subprocess
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from heddle.controller.model.address import ip_text, ipv6_text
from heddle.controller.model.fabric import Nic
from heddle.controller.model.plan import ALWAYS
from heddle.controller.model.srv6 import Sids
from heddle.controller.model.steering_traits import traits_of
from heddle.foundation.address import mac_text
from heddle.mininet_topos.host.child import Child
from heddle.mininet_topos.host.json_lines import wait_readable
from heddle.mininet_topos.measure.flow_run import (
    Capture,
    FlowChange,
    FlowRequest,
    RunResult,
    SprayPath,
    admission_message,
    paths_message,
)  # fmt: skip
from heddle.mininet_topos.measure.iterations import IteratedJob, Iterations
from heddle.mininet_topos.measure.reports import balance, by_queue_pair, flow_result, nic_counters, read_capture
from heddle.mininet_topos.nic.control import COMPLETE
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.switches.fabric_net import FabricNet
from heddle.mininet_topos.wire import shaping
from heddle.mininet_topos.wire.roce import PSN_MASK
from heddle.mininet_topos.wire.srv6 import OUTER_BYTES

ECT0 = 2
FIRST_QPN = 0x100
PROGRESS_S = 0.25
WARM_UP_S = 2.0
SETTLE_STEP_S = 0.05
SETTLE_STEPS = 40
QUIET_STEPS = 4


class FlowChanges(Protocol):
    """Changes for running flows that arrive during a run, from another thread."""

    def fileno(self) -> int:
        """Return a descriptor that is readable while there are changes to take."""

    def take(self) -> Sequence[Mapping[str, FlowChange]]:
        """Return the changes by flow id that have arrived since the last call, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counters:
    """Cumulative counters of the root namespace at one moment."""

    queue_drops: Mapping[str, int]
    socket_drops: int
    vswitchd_cpu_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Execution:
    """A finished run whose counters have not been collected yet; NICs got the command to stop at `stop_ns`."""

    requests: Sequence[FlowRequest]
    qpns: Mapping[str, tuple[int, int]]
    start_ns: int
    stop_ns: int
    before: _Counters


class FlowRunner:
    """Runs flows on the NICs of one lab, one run at a time."""

    def __init__(
        self,
        net: FabricNet,
        nics: Mapping[str, Child],
        capture: Child,
        settings: NicSettings,
        read_queues: Callable[[], Mapping[str, shaping.QueueCounters]] | None = None,
    ) -> None:
        """Configure the capture; `read_queues` returns the egress queues' counters, None for the plain tc queues."""
        self._net, self._nics, self._capture, self._settings = net, nics, capture, settings
        self._sids = Sids(net.fabric)
        self._next_qpn, self._ended = FIRST_QPN, False
        self._open: Mapping[str, tuple[FlowRequest, tuple[int, int]]] = {}
        self._egress_link = _egress_links(net)
        self._read_queues = read_queues or partial(shaping.read_counters, self._egress_link)
        capture.send_request(
            op="configure", incoming=_ingress_links(net), outgoing=_nic_links(net), namespaces=dict(net.namespaces),
            outer_bytes=OUTER_BYTES if traits_of(net.fabric).in_packets else 0,
        )  # fmt: skip
        capture.read_reply()

    def run(
        self,
        requests: Sequence[FlowRequest],
        timeout_s: float,
        on_progress: Callable[[float], None] | None,
        changes: FlowChanges | None = None,
    ) -> RunResult:
        """Run the flows; see `Lab.run_flows`."""
        if len({request.flow_id for request in requests}) < len(requests):
            raise ValueError("two flows of a run have the same id")
        self._ended = False
        if self._settings.warm_up:
            brief = [replace(request, size_bytes=1, start_offset_ns=0, window=ALWAYS) for request in requests]
            self._execute(brief, WARM_UP_S, None, None)
        return self._collect(self._execute(requests, timeout_s, on_progress, changes))

    def iterate(self, jobs: Sequence[IteratedJob], seconds: float) -> tuple[RunResult, Iterations]:
        """Run jobs that compute and send in turns; see `Lab.run_iterations`."""
        requests = [request for job in jobs for request in job.requests]
        iterations = Iterations(jobs, self._nics)
        self._ended = False
        brief = [replace(request, size_bytes=1, start_offset_ns=0) for request in requests]
        self._execute(brief, WARM_UP_S, None, None)
        execution = self._execute(requests, seconds, None, None, iterations)
        return self._collect(execution), iterations

    def end(self) -> None:
        """End the present run before its time, a quarter of a second later at most; from any thread."""
        self._ended = True

    def modify(self, changes: Mapping[str, FlowChange]) -> None:
        """Change flows of the present run; raises KeyError for one that it has not. See `Lab.modify_flow`."""
        changed = []
        for flow_id, change in changes.items():
            request, (qpn, peer_qpn) = self._open[flow_id]
            for nic, number, values in (
                (request.dst_nic, peer_qpn, change.for_responder()),
                (request.src_nic, qpn, change.for_requester()),
            ):
                if values:
                    self._nics[nic].send_request(op="modify", qpn=number, **values)
                    changed.append(nic)
        for nic in changed:
            self._nics[nic].read_reply()

    def captured(self) -> Capture:
        """Return what the capture has counted since the last call; see `Lab.captured`."""
        self._capture.send_request(op="report")
        counted = read_capture(self._capture.read_reply())
        self._capture.send_request(op="reset")
        self._capture.read_reply()
        return counted

    def numbers_of(self, flow_ids: Iterable[str]) -> frozenset[int]:
        """Return the numbers of the sending queue pairs of some flows of the present run."""
        return frozenset(self._open[flow_id][1][0] for flow_id in flow_ids if flow_id in self._open)

    def list_queue_pairs(self) -> dict[str, dict[str, Any]]:
        """Return every NIC's reply to `queue_pairs`; see `Lab.observed_flows`."""
        return self._request_all(op="queue_pairs")

    def _execute(
        self,
        requests: Sequence[FlowRequest],
        timeout_s: float,
        on_progress: Callable[[float], None] | None,
        changes: FlowChanges | None,
        iterations: Iterations | None = None,
    ) -> "_Execution":
        qpns = {request.flow_id: self._take_qpns() for request in requests}
        self._open = {request.flow_id: (request, qpns[request.flow_id]) for request in requests}
        self._prepare(requests, qpns)
        before = self._counters()
        start_ns = time.monotonic_ns() + 50_000_000 + 3_000_000 * len(self._nics)
        self._request_all(op="run", start_ns=start_ns)
        senders = {request.src_nic for request in requests}
        if iterations is not None:
            iterations.drive({flow_id: own for flow_id, (own, _) in qpns.items()}, start_ns, timeout_s)
        else:
            self._await_completion(senders, start_ns, timeout_s, on_progress, changes)
        stop_ns = time.monotonic_ns()
        self._request_all(op="stop")
        self._settle(before)
        return _Execution(requests=requests, qpns=qpns, start_ns=start_ns, stop_ns=stop_ns, before=before)

    def _take_qpns(self) -> tuple[int, int]:
        """Return QPNs for both ends of a flow; never reused within a lab, so late packets match no queue pair."""
        self._next_qpn += 2
        return self._next_qpn - 2, self._next_qpn - 1

    def _prepare(self, requests: Sequence[FlowRequest], qpns: Mapping[str, tuple[int, int]]) -> None:
        self._request_all(op="reset")
        ends: dict[str, dict[str, list[dict[str, Any]]]] = {
            nic: {"requesters": [], "responders": []} for nic in self._nics
        }
        for request in requests:
            requester, responder = self._describe(request, *qpns[request.flow_id])
            ends[request.src_nic]["requesters"].append(requester)
            ends[request.dst_nic]["responders"].append(responder)
        for nic, child in self._nics.items():
            child.events.clear()
            child.send_request(op="open", **ends[nic])
        for child in self._nics.values():
            child.read_reply()
        self._capture.send_request(op="reset")
        self._capture.read_reply()

    def _describe(self, request: FlowRequest, qpn: int, peer_qpn: int) -> tuple[dict[str, Any], dict[str, Any]]:
        settings, nics = self._settings, self._net.fabric.nic_by_id
        first_psn = zlib.crc32(f"{settings.seed}/{request.flow_id}".encode()) & PSN_MASK
        src, dst = nics[request.src_nic], nics[request.dst_nic]
        common = {"first_psn": first_psn, "traffic_class": src.traffic_class.dscp << 2 | ECT0}
        requester = {
            **common,
            **self._peer(src, dst, peer_qpn),
            "qpn": qpn,
            "udp_source_port": request.udp_source_port,
            "rate_bps": request.rate_bps,
            "floor_bps": request.floor_bps,
            "size_bytes": request.size_bytes,
            "start_offset_ns": request.start_offset_ns,
            "admission": admission_message(request.window),
            "operation": request.operation,
            "mtu_bytes": settings.mtu_bytes,
            "message_bytes": settings.message_bytes,
            "window": settings.window,
            "ack_every": settings.ack_every_at(request.rate_bps, bool(request.paths)),
            "timeout_ns": settings.ack_timeout_ns,
            **self._tunnel(src, request.sid),
            **self._spray(src, request.paths),
        }
        responder = {
            **common,
            **self._peer(dst, src, qpn),
            "qpn": peer_qpn,
            "udp_source_port": request.reverse_udp_source_port,
            **self._tunnel(dst, request.reverse_sid),
            **self._spray(dst, request.paths and request.reverse_paths_or_path),
        }
        return requester, responder

    def _tunnel(self, nic: Nic, sid: str) -> dict[str, str]:
        """Return the part of a queue pair's description on `nic` that names its path, empty where packets name none."""
        return {"sid_source": ipv6_text(self._sids.source(nic)), "sid": sid} if sid else {}

    def _spray(self, nic: Nic, paths: tuple[SprayPath, ...]) -> dict[str, Any]:
        """Return the part of a queue pair's description on `nic` that has its paths, empty where it does not spray."""
        return {"sid_source": ipv6_text(self._sids.source(nic)), "paths": paths_message(paths)} if paths else {}

    def _peer(self, nic: Nic, peer: Nic, qpn: int) -> dict[str, Any]:
        """Return the part of a queue pair's description on `nic` that names its peer."""
        mac = mac_text(self._net.first_hop_mac(nic, peer))
        return {"peer_ip": ip_text(peer.ip), "peer_mac": mac, "peer_qpn": qpn}

    def _request_all(self, **request: Any) -> dict[str, dict[str, Any]]:
        for child in self._nics.values():
            child.send_request(**request)
        return {nic: child.read_reply() for nic, child in self._nics.items()}

    def _await_completion(
        self,
        senders: set[str],
        start_ns: int,
        timeout_s: float,
        on_progress: Callable[[float], None] | None,
        changes: FlowChanges | None,
    ) -> None:
        """Wait until every sending NIC has reported completion, or until the timeout; apply changes that arrive.

        A path that is denied calls `on_progress` at once.
        """
        sources = [] if changes is None else [changes.fileno()]
        deadline = start_ns / 1e9 + timeout_s
        waiting = {self._nics[nic].fd: self._nics[nic] for nic in senders if not _is_complete(self._nics[nic])}
        while waiting and not self._ended and (rest := deadline - time.monotonic()) > 0:
            readable = wait_readable([*waiting, *sources], min(rest, PROGRESS_S))
            for fd in waiting.keys() & readable:
                waiting[fd].poll_events()
            if changes is not None and changes.fileno() in readable:
                self._apply(changes)
            if on_progress is not None:
                on_progress(max(0.0, time.monotonic() - start_ns / 1e9))
            waiting = {fd: child for fd, child in waiting.items() if not _is_complete(child)}

    def _apply(self, changes: FlowChanges) -> None:
        for batch in changes.take():
            self.modify({flow_id: change for flow_id, change in batch.items() if flow_id in self._open})

    def _settle(self, before: _Counters) -> None:
        """Wait for packets in flight: until sent = received + dropped, or until no counter has changed for a while."""
        last, quiet = None, 0
        for _ in range(SETTLE_STEPS):
            counts = self._request_all(op="counts").values()
            tx = sum(count["tx_vport_rdma_unicast_packets"] for count in counts)
            rx = sum(count["rx_vport_rdma_unicast_packets"] for count in counts)
            if tx == rx + _grown(self._counters().queue_drops, before.queue_drops):
                return
            quiet = quiet + 1 if (tx, rx) == last else 0
            if quiet == QUIET_STEPS and not self._backlog():
                return
            last = (tx, rx)
            time.sleep(SETTLE_STEP_S)

    def _backlog(self) -> bool:
        queues = self._read_queues()
        return any(queue.backlog_bytes for queue in queues.values())

    def _counters(self) -> _Counters:
        queues = self._read_queues()
        drops = {link: queues[interface].dropped_packets for interface, link in self._egress_link.items()}
        return _Counters(
            queue_drops=drops,
            socket_drops=_socket_drops(self._egress_link),
            vswitchd_cpu_ns=self._net.switch_cpu_ns(),
        )

    def _collect(self, execution: "_Execution") -> RunResult:
        qpns, start_ns, before = execution.qpns, execution.start_ns, execution.before
        reports = self._request_all(op="report")
        after = self._counters()
        self._capture.send_request(op="report")
        capture = read_capture(self._capture.read_reply())
        sent = by_queue_pair(reports, "requesters", "moves")
        received = by_queue_pair(reports, "responders", "goodput")
        flows = tuple(
            flow_result(
                request,
                sent[request.src_nic, qpns[request.flow_id][0]],
                received[request.dst_nic, qpns[request.flow_id][1]],
                start_ns,
            )
            for request in execution.requests
        )
        nics = {nic: nic_counters(report) for nic, report in reports.items()}
        queue_drops = {link: drops - before.queue_drops[link] for link, drops in after.queue_drops.items()}
        ends = [flow.completed_ns for flow in flows]
        last = execution.stop_ns - start_ns if None in ends else max((end for end in ends if end), default=0)
        return RunResult(
            flows=flows,
            nics=nics,
            capture=capture,
            queue_drops={link: drops for link, drops in queue_drops.items() if drops},
            integrity=balance(nics.values(), sum(queue_drops.values()), after.socket_drops - before.socket_drops),
            duration_ns=last,
            vswitchd_cpu_ns=after.vswitchd_cpu_ns - before.vswitchd_cpu_ns,
        )


def _is_complete(nic: Child) -> bool:
    return any(event["event"] == COMPLETE for event in nic.events)


def _grown(after: Mapping[str, int], before: Mapping[str, int]) -> int:
    return sum(after.values()) - sum(before.values())


def _socket_drops(interfaces: Iterable[str]) -> int:
    """Return the frames that Open vSwitch's receive sockets on these interfaces have dropped (from `ss -m`)."""
    listing = subprocess.run(
        ["ss", "-0", "-a", "-n", "-m", "-O", "-H"], text=True, capture_output=True, check=True
    ).stdout
    wanted = set(interfaces)
    found = re.findall(r"\*:(\S+).*,d(\d+)\)", listing)
    return sum(int(drops) for interface, drops in found if interface in wanted)


def _egress_links(net: FabricNet) -> dict[str, str]:
    """Return the directed link that each switch port's interface transmits to."""
    found = {net.interface_of[cable.lower]: cable.up_link for cable in net.fabric.cables}
    found |= {net.interface_of[cable.upper]: cable.down_link for cable in net.fabric.cables}
    return found | _nic_links(net)


def _nic_links(net: FabricNet) -> dict[str, str]:
    return {net.interface_of[nic.port]: nic.down_link for nic in net.fabric.nics}


def _ingress_links(net: FabricNet) -> dict[str, str]:
    """Return the directed link that each switch port's interface receives from."""
    found = {net.interface_of[cable.upper]: cable.up_link for cable in net.fabric.cables}
    found |= {net.interface_of[cable.lower]: cable.down_link for cable in net.fabric.cables}
    return found | {net.interface_of[nic.port]: nic.up_link for nic in net.fabric.nics}

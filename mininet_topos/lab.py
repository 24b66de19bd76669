"""The lab: start and remove switches, hosts, NICs and the packet capture, and run flows between the NICs.

    with Lab(fabric) as lab:
        lab.ecmp.load()                       # or lab.connect_controller(port)
        result = lab.run_flows(requests, timeout_s=20)

Everything is removed however the `with` block ends (return, exception, SIGINT, SIGTERM); after `kill -9` the next lab
removes it. Several labs may run at the same time.
"""

import atexit
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from heddle.controller.model.error import PrerequisiteError
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.host.child import Child
from heddle.mininet_topos.host.priorities import Waited, set_niceness, waited
from heddle.mininet_topos.host.registry import LabRegistration
from heddle.mininet_topos.host.signals import TerminationAsException, stop_deferred
from heddle.mininet_topos.measure.flow_run import Capture, FiveTuple, FlowChange, FlowRequest, RunResult
from heddle.mininet_topos.measure.iterations import IteratedJob, Iterations
from heddle.mininet_topos.measure.observed_flows import observed_flows
from heddle.mininet_topos.measure.path_trace import PathTracer
from heddle.mininet_topos.measure.runner import FlowChanges, FlowRunner
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.switches.ecmp import EcmpRules
from heddle.mininet_topos.switches.fabric_net import FabricNet, require_lab_tools
from heddle.mininet_topos.switches.ovs import Datapath, OpenVSwitch, require_open_vswitch
from heddle.mininet_topos.switches.queue_model import DAEMON_COMMAND, QueueModel
from heddle.telemetry.counter_page import QUEUE_FIELDS
from heddle.v1 import heddle_pb2 as pb

T = TypeVar("T")


class Lab:
    """A fabric of real switches and links on this machine. `net.host("h1").cmd("ping …")` runs a command in a host."""

    def __init__(
        self,
        fabric: Fabric,
        *,
        datapath: Datapath = Datapath.AUTO,
        static_arp: bool | None = None,
        settings: NicSettings | None = None,
        ecmp_seed: int = 0,
        queues: QueueSettings | None = None,
    ) -> None:
        """Describe the lab; `with` (or `start`) builds it. With `queues` the switch ports do ECN, PFC and counters."""
        self.fabric = fabric
        self.nics: Mapping[str, Child] = {}
        self._datapath, self._static_arp, self._ecmp_seed = datapath, static_arp, ecmp_seed
        self._queue_settings = queues
        self._queues: QueueModel | None = None
        self._settings = settings or NicSettings.for_fabric(fabric)
        self._registration: LabRegistration | None = None
        self._children: list[Child] = []
        self._net: FabricNet | None = None
        self._ovs: OpenVSwitch | None = None
        self._termination: TerminationAsException | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
            return self
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Build everything; raises PrerequisiteError with the remedy where this machine cannot, and leaves nothing."""
        require_lab_tools()
        require_open_vswitch()
        self._termination = TerminationAsException()
        atexit.register(self.stop)  # for an interrupt between two statements that no `try` covers
        try:
            self._build()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Remove everything that the lab made; safe to call at any stage and again."""
        with stop_deferred():
            self._remove()
            atexit.unregister(self.stop)
        if self._termination is not None:
            self._termination.end()

    def _remove(self) -> None:
        """Run every step even if others fail; the registration's step removes whatever the others left."""
        with ExitStack() as steps:  # last pushed, first run
            for child in self._children:
                steps.callback(child.reap)
            if self._ovs is not None:
                steps.callback(self._ovs.stop)
            if self._registration is not None:
                steps.callback(self._registration.end)
            if self._net is not None:
                steps.callback(self._net.stop)
            for child in self._children:
                steps.callback(child.close)
            if self._queues is not None:
                steps.callback(self._queues.stop)
            self._children, self._net, self._ovs, self._registration, self._queues = [], None, None, None, None

    @property
    def id(self) -> str:
        """Return the lab's id: the name of its directory, and after `hd` the prefix of its interface names."""
        return self._up(self._registration).entry.id

    @property
    def net(self) -> FabricNet:
        """Return the Mininet network."""
        return self._up(self._net)

    @property
    def ovs(self) -> OpenVSwitch:
        """Return the lab's own Open vSwitch."""
        return self._up(self._ovs)

    @property
    def queues(self) -> QueueModel:
        """Return the queue model of the switch ports; raises PrerequisiteError in a lab without one."""
        return self._up(self._queues)

    def connect_controller(self, port: int, address: str = "127.0.0.1") -> None:
        """Connect all switches to a controller."""
        self.net.connect_controller(port, address)

    def disconnect_controller(self) -> None:
        """Disconnect all switches from their controller; their rules stay."""
        self.net.disconnect_controller()

    @property
    def has_rules(self) -> bool:
        """Whether rules of switches decide paths, so that `path_of` can follow them."""
        return self._ovs is not None

    def path_of(self, stream: FiveTuple) -> tuple[str, ...]:
        """Return the directed links of a stream's path under the rules that are installed now."""
        return self._tracer.path_of(stream)

    def stream_of(self, request: FlowRequest) -> FiveTuple:
        """Return the 5-tuple of a flow's data packets."""
        nics = self.fabric.nic_by_id
        return FiveTuple(nics[request.src_nic].ip, nics[request.dst_nic].ip, request.udp_source_port)

    def reverse_stream_of(self, request: FlowRequest) -> FiveTuple:
        """Return the 5-tuple of a flow's acknowledgements."""
        nics = self.fabric.nic_by_id
        return FiveTuple(nics[request.dst_nic].ip, nics[request.src_nic].ip, request.reverse_udp_source_port)

    def run_flows(
        self,
        requests: Sequence[FlowRequest],
        timeout_s: float,
        on_progress: Callable[[float], None] | None = None,
        changes: FlowChanges | None = None,
    ) -> RunResult:
        """Run flows from one common instant until all have completed or the time is over.

        `on_progress` is called a few times a second with the seconds since the start. `changes`, a `JobFollower` for
        instance, are applied as they arrive; those of flows that do not run are ignored.
        """
        if self._ovs is not None:  # a lab of routers has none
            self._ovs.forget_flows()
        return self._runner.run(requests, timeout_s, on_progress, changes)

    def run_iterations(self, jobs: Sequence[IteratedJob], seconds: float) -> tuple[RunResult, Iterations]:
        """Run jobs that compute and communicate in turns, from one common instant, for so many seconds."""
        if self._ovs is not None:
            self._ovs.forget_flows()
        return self._runner.iterate(jobs, seconds)

    def end_flows(self) -> None:
        """End the present run before its time; may be called from another thread, also when nothing runs."""
        self._runner.end()

    def modify_flow(self, flow_id: str, change: FlowChange) -> None:
        """Change ports, rate or admission window of a running flow; call it from `run_flows`' `on_progress`."""
        self._runner.modify({flow_id: change})

    def captured(self) -> Capture:
        """Return what the capture has counted since the last call, or since the start. Call it like `modify_flow`.

        The result of the run then has what was counted after the last call.
        """
        return self._runner.captured()

    def delivered_bytes(self) -> int:
        """Return the bytes that leaves have sent to NICs so far; needs the queue model."""
        page = self.queues.latest()
        return sum(page.port(str(nic.port))["tx_bytes"] for nic in self.fabric.nics)

    def pfc_frames(self) -> int:
        """Return the PFC frames that switch ports have sent so far; needs the queue model."""
        return int(self.queues.counters().queues[:, :, QUEUE_FIELDS.index("pfc_tx_frames")].sum())

    def waited(self) -> Waited:
        """Return for how long switches and NICs have waited for a processor so far: how late this machine is."""
        switches = () if self._ovs is None else (self._ovs.pid,)
        return waited(switches, [child.pid for child in self.nics.values()])

    def observed_flows(self, flow_ids: Iterable[str] | None = None) -> dict[str, pb.ObservedFlows]:
        """Return what each host's agent would report: its queue pairs, of these flows only. Call as `modify_flow`."""
        only = None if flow_ids is None else self._runner.numbers_of(flow_ids)
        return observed_flows(self.fabric, self._runner.list_queue_pairs(), only)

    def storm_from(self, nic_id: str, priority: int, running: bool) -> None:
        """Start or stop a NIC that pauses its switch port without end; also from `run_flows`' `on_progress`."""
        self.nics[nic_id].send_request(op="storm", priority=priority, running=running)
        self.nics[nic_id].read_reply()

    @property
    def counters_directory(self) -> Path:
        """Return the directory of the NICs' counter files, `<nic id>.json`, each replaced several times a second."""
        return self._up(self._registration).entry.directory / "nic"

    def _build(self) -> None:
        with stop_deferred():
            self._registration = LabRegistration()
        entry = self._registration.entry
        self._ovs = OpenVSwitch(entry, self._datapath)
        self._ovs.start()
        capture = self._child("the capture", [sys.executable, "-m", "heddle.mininet_topos.measure.capture"])
        daemon = None if self._queue_settings is None else self._child("the queue daemon", list(DAEMON_COMMAND))
        self._net = FabricNet(self.fabric, entry, self._ovs, self._static_arp, self._queue_settings)
        self._net.start()
        if self._queue_settings is not None and daemon is not None:
            self._queues = QueueModel.start(self._net, self._queue_settings, entry.directory, daemon)
        self.ecmp = EcmpRules(self._net, self._ecmp_seed)
        self._tracer = PathTracer(self._net)
        self._start_nics()
        read_queues = None if self._queues is None else self._queues.egress_counters
        self._runner = FlowRunner(self._net, self.nics, capture, self._settings, read_queues)

    def _start_nics(self) -> None:
        self.counters_directory.mkdir()
        import_module("heddle.mininet_topos.nic.control")  # writes the bytecode once, for all NIC processes
        nics = {}
        for nic in self.fabric.nics:
            command = self.net.nic_command(nic, sys.executable, "-S", "-m", "heddle.mininet_topos.nic")
            child = nics[nic.id] = self._child(f"NIC {nic.id}", command)
            set_niceness(child.pid)
            configuration = self._settings.configuration(
                self.fabric, nic, self.counters_directory, lossless=self._queue_settings is not None
            )
            child.send_request(op="configure", device=self.net.device_of[nic.id], **configuration)
        for child in nics.values():
            child.read_reply()
        self.nics = nics

    def _child(self, name: str, command: list[str]) -> Child:
        child = Child(name, command, self._up(self._registration).entry.environment)
        self._children.append(child)
        return child

    def _up(self, part: T | None) -> T:
        if part is None:
            raise PrerequisiteError("the lab is not running")
        return part

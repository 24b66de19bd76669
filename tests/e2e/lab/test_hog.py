"""A hog on real switches: traffic of no job joins a planned link, and planned flows leave it where they can.

An agent samples the switches and NICs every 200 ms, a broker carries the samples, and the job's NICs follow its plan.
`-rP` prints the figures of each run.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from heddle.controller.config import load_fabric
from heddle.foundation.traffic_class import DATA
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import GOODPUT_PERIOD_NS, FlowRequest, FlowResult, RunResult
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.switches.queue_model import why_unavailable
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.processes.lab_agent import lab_agent
from tests.support.processes.mosquitto import PROGRAM, mosquitto

NEEDS = [
    pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}"),
    pytest.mark.skipif(not Path(PROGRAM).exists(), reason="Debian's mosquitto is not installed (scripts/setup all)"),
]
pytestmark = [pytest.mark.e2e, pytest.mark.alone, *NEEDS]
FABRIC = "version: 1\nname: hog\ngenerate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2, gbps: 0.02}\n"
LINE_BPS = 20_000_000
PERIOD_MS = 200
PERIOD_S = PERIOD_MS / 1e3
HOG_AT_S = 1.0
RUN_S = 3.5
LONGEST_RUN_S = 15.0
PACE = 0.97
"""NICs send at this part of the planned rate, so that a late packet of theirs fills no queue."""
PAYLOAD_PART = 4096 / 4158
RATE_PART = 0.95
MAX_MOVES = 16
"""The default limit for congestion."""
ENDLESS_BYTES = 1 << 40


class Stack(NamedTuple):
    lab: Lab
    controller: Controller


@contextmanager
def running(directory: Path, lines: str = "") -> Iterator[Stack]:
    """Run a lab with queues, and a controller with telemetry; `lines` are added to its config."""
    path = directory / "fabric.yaml"
    path.write_text(FABRIC)
    fabric = load_fabric(path)
    with mosquitto() as broker:
        config = directory / "heddle.yaml"
        telemetry = f"telemetry: {{broker: '127.0.0.1:{broker.port}', period_ms: {PERIOD_MS}}}"
        config.write_text(f"{lines}{telemetry}\n")
        controller = Controller(path, more=("--config", str(config)))
        try:
            settings = NicSettings.for_fabric(fabric)
            with (
                Lab(fabric, settings=settings, queues=QueueSettings()) as lab,
                lab_agent(lab, "hog", broker.port, f"{PERIOD_MS}ms"),
            ):
                lab.connect_controller(controller.openflow_port)
                controller.wait_for_rules()
                yield Stack(lab, controller)
        finally:
            controller.end()


@pytest.fixture(scope="module")
def stack(tmp_path_factory) -> Iterator[Stack]:
    with running(tmp_path_factory.mktemp("hog"), "congestion_pause_ms: 1000\n") as found:
        yield found


def submit(stack: Stack, steering: str, rate_bps: int, *pairs: tuple[str, str]) -> pb.JobPlan:
    ranks = sorted({nic for pair in pairs for nic in pair})
    flows = [pb.FlowDemand(src_rank=ranks.index(a), dst_rank=ranks.index(b), rate_bps=rate_bps) for a, b in pairs]
    request = pb.SubmitJobRequest(
        job_id="planned", ranks=ranks, collectives=[pb.Collective(kind="CUSTOM", flows=flows)], steering=steering
    )
    return stack.controller.jobs.SubmitJob(request)


def paced(flow: pb.FlowPlan) -> int:
    return int(flow.rate_bps * PACE)


def planned_requests(plan: pb.JobPlan) -> list[FlowRequest]:
    return [
        FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, udp_source_port=flow.udp_source_port,
            reverse_udp_source_port=flow.reverse_udp_source_port, rate_bps=paced(flow), size_bytes=ENDLESS_BYTES,
        )
        for flow in plan.flows
    ]  # fmt: skip


def hog_over(stack: Stack, link: str, source: str, target: str, rate_bps: int = LINE_BPS) -> FlowRequest:
    """Return a flow of no job whose hashed path has a link."""
    request = FlowRequest(
        flow_id=f"hog-{source}", src_nic=source, dst_nic=target, udp_source_port=0, reverse_udp_source_port=0xD000,
        rate_bps=rate_bps, size_bytes=ENDLESS_BYTES, start_offset_ns=int(HOG_AT_S * 1e9),
    )  # fmt: skip
    for port in range(0xC000, 0x10000, 0x111):
        tried = replace(request, udp_source_port=port)
        if link in stack.lab.path_of(stack.lab.stream_of(tried)):
            return tried
    raise AssertionError(f"no port leads over {link}")


class Watch:
    """What the controller publishes, and when the first sample of a port was over the threshold; times in Unix ns."""

    def __init__(self, stack: Stack, job_id: str, port: str) -> None:
        self.events: list[pb.Event] = []
        self.generations: list[tuple[int, pb.JobPlan]] = []
        self.passed_unix_ns: int | None = None
        self.port, self._done = port, threading.Event()
        now = time.time_ns()
        self._stream = stack.controller.telemetry.WatchEvents(pb.WatchEventsRequest(since_unix_ns=now))
        self._plans = stack.controller.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id))
        self._samples = stack.controller.telemetry.WatchPorts(pb.WatchPortsRequest(ports=[port]))
        targets = (self._listen, self._follow, self._sample)
        self._threads = [threading.Thread(target=target, daemon=True) for target in targets]

    @property
    def notes(self) -> list[pb.Event]:
        """Return what the brain has logged."""
        return [event for event in self.events if event.kind == "note"]

    @property
    def texts(self) -> list[str]:
        """Return what the brain has logged about the port."""
        return [note.text for note in self.notes if note.subject == self.port]

    def __enter__(self) -> "Watch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for stream in (self._stream, self._plans, self._samples):
            stream.cancel()
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        try:
            self.events.extend(self._stream)
        except grpc.RpcError:
            assert self._done.is_set()

    def _follow(self) -> None:
        try:
            for plan in self._plans:
                self.generations.append((time.time_ns(), plan))
        except grpc.RpcError:
            assert self._done.is_set()

    def _sample(self) -> None:
        """Find the first sample in which the share of marked packets is over the threshold."""
        settings, before = DetectorSettings(), None
        try:
            for sample in self._samples:
                queue = next((one for one in sample.queues if one.priority == DATA.priority), pb.QueueSample())
                if before is not None and self.passed_unix_ns is None:
                    sent, marked = queue.packets - before.packets, queue.ecn_marked_packets - before.ecn_marked_packets
                    if sent >= settings.congestion_min_packets and marked >= settings.congestion_raise_share * sent:
                        self.passed_unix_ns = sample.timestamp_unix_ns
                before = queue
        except grpc.RpcError:
            assert self._done.is_set()


class Ran(NamedTuple):
    """A run and its start, the plan after it, and what was watched."""

    result: RunResult
    start_unix_ns: int
    after: pb.JobPlan
    watch: Watch

    @property
    def planned(self) -> list[FlowResult]:
        """Return the results of the planned flows."""
        return [flow for flow in self.result.flows if not flow.request.flow_id.startswith("hog")]

    def named_periods(self, port: str, source: str) -> float | None:
        """Return how many periods after the threshold a note on the port named a NIC."""
        for note in self.watch.notes:
            if note.subject == port and source in note.text and self.watch.passed_unix_ns is not None:
                return (note.timestamp_unix_ns - self.watch.passed_unix_ns) / 1e6 / PERIOD_MS
        return None

    def recovered_periods(self, flow: FlowResult) -> float | None:
        """Return how many periods after the last acknowledgement of a new plan a flow had its rate for a period."""
        moved_s = (self.watch.generations[1][0] - self.start_unix_ns) / 1e9
        expected = flow.request.rate_bps * PAYLOAD_PART * PERIOD_S / 8
        step_s = GOODPUT_PERIOD_NS / 1e9
        window = round(PERIOD_S / step_s)
        for first in range(int(moved_s / step_s), len(flow.goodput_bytes) - window):
            if sum(flow.goodput_bytes[first : first + window]) >= RATE_PART * expected:
                return max(0.0, first * step_s + PERIOD_S - moved_s) / PERIOD_S
        return None


def run(
    stack: Stack, plan: pb.JobPlan, port: str, hogs: Sequence[FlowRequest], seconds: float = RUN_S,
    until: Callable[[Watch], bool] = lambda watch: False,
) -> Ran:  # fmt: skip
    """Run the planned flows beside hogs for this long; from `RUN_S` on, end the run as soon as `until` holds."""
    try:
        starts: list[int] = []

        def progress(elapsed_s: float) -> None:
            starts.append(time.time_ns() - round(elapsed_s * 1e9))
            if elapsed_s >= RUN_S and until(watch):
                stack.lab.end_flows()

        with (
            Watch(stack, plan.job_id, port) as watch,
            JobFollower(stack.controller.channel, plan, paced) as follower,
        ):
            result = stack.lab.run_flows([*planned_requests(plan), *hogs], seconds, progress, follower)
            after = stack.controller.jobs.GetJob(pb.GetJobRequest(job_id=plan.job_id))
            assert follower.problem is None
        return Ran(result, max(starts), after, watch)
    finally:
        stack.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=plan.job_id))


def uplink(plan: pb.JobPlan, source: str) -> str:
    """Return the link on which a NIC's planned flow leaves its leaf."""
    return next(flow.links[1] for flow in plan.flows if flow.src_nic == source)


def figures(ran: Ran, port: str, hog: str, what: str) -> str:
    """Render a run for `-rP`."""
    flows = [(flow.lost_packets, flow.retransmitted_packets, flow.out_of_sequence) for flow in ran.planned]
    rate = ran.recovered_periods(ran.planned[0]) if len(ran.watch.generations) > 1 else None
    raised = [e.timestamp_unix_ns for e in ran.watch.events if e.kind == "congestion_raised" and port in e.subject]
    after = [(at - (ran.watch.passed_unix_ns or at)) / 1e6 / PERIOD_MS for at in raised[:1]]
    named = ran.named_periods(port, hog)
    return (
        f"FIGURES {what}: raised after {after} periods, named after {named}, "
        f"{ran.after.certificate.flows_moved} flows moved, rate again after {rate} periods, "
        f"(lost, sent again, out of sequence) {flows}"
    )


def nic(number: int) -> str:
    return f"h{(number - 1) % 8 + 1}-n0"


def hog_with_room(stack: Stack, steering: str, leaf: int) -> Ran:
    """Let a hog join a link of a job whose flows have another path; ports are remembered, so a leaf serves once."""
    first = 2 * leaf - 1
    source, hog = nic(first), nic(first + 1)
    plan = submit(stack, steering, 0, (source, nic(first + 2)), (nic(first + 4), nic(first + 6)))
    link = uplink(plan, source)
    port = link.partition(">")[0]
    ran = run(stack, plan, port, [hog_over(stack, link, hog, nic(first + 5))])
    print(figures(ran, port, hog, f"hog {steering}"))
    assert ran.named_periods(port, hog) is not None
    assert link not in next(flow.links for flow in ran.after.flows if flow.src_nic == source)
    assert "congested" in ran.after.reason
    assert 1 <= ran.after.certificate.flows_moved <= MAX_MOVES
    assert ran.result.integrity.valid, ran.result.integrity
    moved = next(flow for flow in ran.planned if flow.request.src_nic == source)
    assert ran.recovered_periods(moved) is not None
    assert not ran.result.queue_drops
    return ran


def test_planned_flows_leave_a_link_that_a_hog_joins_and_have_their_rate_again(stack):
    assert_moves_lost_nothing(hog_with_room(stack, "SOURCE_PORT", 1))


def assert_moves_lost_nothing(ran: Ran) -> None:
    (moved,) = [flow for flow in ran.planned if flow.moves]
    assert (moved.lost_packets, moved.retransmitted_packets, moved.out_of_sequence) == (0, 0, 0)
    assert sum(flow.lost_packets for flow in ran.planned) == 0


@pytest.mark.soak
def test_pinned_flows_that_leave_a_hog_lose_at_most_a_window(stack):
    assert_a_window_at_most(hog_with_room(stack, "PIN", 2))


def assert_a_window_at_most(ran: Ran) -> None:
    for flow in ran.planned:
        assert max(flow.lost_packets, flow.retransmitted_packets, flow.out_of_sequence) <= NicSettings().window


def test_where_no_other_path_has_room_hogs_are_named_and_nothing_moves(stack):
    rate_bps, rest_bps = LINE_BPS * 7 // 10, LINE_BPS * 3 // 10
    plan = submit(stack, "SOURCE_PORT", rate_bps, (nic(5), nic(7)), (nic(6), nic(1)))
    link = uplink(plan, nic(5))
    port = link.partition(">")[0]
    assert uplink(plan, nic(6)) != link
    hogs = [hog_over(stack, link, nic(5), nic(2), rest_bps), hog_over(stack, link, nic(6), nic(3), rest_bps)]
    refused = "no other path has room: nothing is moved"

    def is_named(watch: Watch) -> bool:
        return any(f"more than planned: {name}" in text for name in (nic(5), nic(6)) for text in watch.texts)

    # DCQCN slows the hogs at once: where the machine pauses in their first three periods, a condition comes later.
    ran = run(stack, plan, port, hogs, LONGEST_RUN_S, lambda watch: is_named(watch) and refused in watch.texts)
    print(figures(ran, port, "more than planned: h", "hogs without room"))
    assert is_named(ran.watch), ran.watch.texts
    assert refused in ran.watch.texts
    assert ran.after.generation == plan.generation
    assert not ran.result.moves


@pytest.mark.soak
def test_planned_senders_give_way_to_one_more_and_have_their_rates_again(stack):
    plan = submit(stack, "SOURCE_PORT", 0, (nic(3), nic(7)), (nic(5), nic(7)))
    port = plan.flows[0].links[-1].partition(">")[0]
    hog = hog_over(stack, plan.flows[0].links[-1], nic(1), nic(7))
    ran = run(stack, plan, port, [replace(hog, size_bytes=2_000_000)], seconds=12.0)
    rates = [[flow.rate_bps for flow in generation.flows] for _, generation in ran.watch.generations]
    print(figures(ran, port, nic(1), "incast"), rates)
    assert ran.named_periods(port, nic(1)) is not None
    assert sum(rates[0]) == pytest.approx(0.95 * LINE_BPS, rel=1e-3)
    assert sum(rates[1]) == pytest.approx(0.95 * LINE_BPS * 2 / 3, rel=0.2)
    assert rates[-1] == rates[0]
    assert not ran.result.queue_drops

"""The whole loop on real switches: a controller, NICs that follow their job's plan, and traffic at full rate.

`-rP` prints the times and losses of each run.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import pytest

from heddle.controller.config import load_fabric
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import GOODPUT_PERIOD_NS, FlowRequest, RunResult
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

FABRIC = "version: 1\nname: loop\ngenerate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2, gbps: 0.02}\n"
SIZE_BYTES = 4_000_000
ACT_AT_S = 0.6
PACE = 0.97
"""NICs send at this part of the planned rate, so that a late packet of theirs fills no queue."""
PAYLOAD_PART = 4096 / 4158
FRAME_BITS = 8 * 4158
FULL = 0.9
WINDOW = 4
"""Goodput is at its rate if it has FULL of it over so many periods of 50 ms."""
TIMEOUT_S = 30.0
LOST_OR_LATE = (
    "lost_packets", "retransmitted_packets", "out_of_sequence", "packet_seq_err", "duplicate_request",
    "local_ack_timeout_err",
)  # fmt: skip
OTHERS = ("leaf1:1>spine1:1", "leaf1:2>spine2:1", "leaf2:2>spine2:2", "leaf3:1>spine1:3", "leaf4:2>spine2:4")
LONG = [pytest.param(name, "PIN", marks=pytest.mark.soak) for name in OTHERS]
LONG += [pytest.param(name, "SOURCE_PORT", marks=pytest.mark.soak) for name in OTHERS]


class Stack(NamedTuple):
    lab: Lab
    controller: Controller


@pytest.fixture(scope="module")
def stack(tmp_path_factory) -> Iterator[Stack]:
    path = tmp_path_factory.mktemp("loop") / "fabric.yaml"
    path.write_text(FABRIC)
    config = path.with_name("heddle.yaml")
    config.write_text("port_hold_ms: 100\n")
    fabric = load_fabric(path)
    running = Controller(path, more=("--config", str(config)))
    try:
        with Lab(fabric) as lab:
            lab.connect_controller(running.openflow_port)
            running.wait_for_rules()
            yield Stack(lab, running)
    finally:
        running.end()


def paced(flow: pb.FlowPlan) -> int:
    return int(flow.rate_bps * PACE)


def submit(stack: Stack, steering: str, size_bytes: int) -> pb.JobPlan:
    """Plan a permutation in which every NIC sends at full rate to one on another leaf."""
    nics = [nic.id for nic in stack.lab.fabric.nics]
    pairs = [pb.RankPair(src_rank=rank, dst_rank=(rank + 3) % len(nics)) for rank in range(len(nics))]
    collective = pb.Collective(kind="SEND_RECV", bytes=size_bytes, pairs=pairs)
    return stack.controller.jobs.SubmitJob(
        pb.SubmitJobRequest(job_id=f"loop-{steering.lower()}", ranks=nics, collectives=[collective], steering=steering)
    )


class Acted(NamedTuple):
    """A run, the plans before and after it, and when what happened in it began and ended, in seconds of the run."""

    result: RunResult
    before: pb.JobPlan
    after: pb.JobPlan
    began_s: float
    ended_s: float


def run(stack: Stack, steering: str, *acts: Callable[[], object], size_bytes: int = SIZE_BYTES) -> Acted:
    """Run the permutation; each act happens in a thread, ACT_AT_S after the start and after each other."""
    plan = submit(stack, steering, size_bytes)
    requests = [
        FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, udp_source_port=flow.udp_source_port,
            reverse_udp_source_port=flow.reverse_udp_source_port, rate_bps=paced(flow), size_bytes=size_bytes,
        )
        for flow in plan.flows
    ]  # fmt: skip
    times: list[float] = []
    done: list[Future[None]] = []
    left = list(acts)

    def acted(act: Callable[[], object], seconds: float) -> None:
        began = time.monotonic()
        act()
        times.extend((seconds, seconds + time.monotonic() - began))

    def on_progress(seconds: float) -> None:
        if left and seconds > ACT_AT_S * (1 + len(acts) - len(left)) and all(one.done() for one in done):
            done.append(threads.submit(acted, left.pop(0), seconds))

    with ThreadPoolExecutor(1) as threads, JobFollower(stack.controller.channel, plan, paced) as follower:
        result = stack.lab.run_flows(requests, TIMEOUT_S, on_progress, changes=follower)
        for one in done:
            one.result()
        assert not left
        after = stack.controller.jobs.GetJob(pb.GetJobRequest(job_id=plan.job_id))
        assert follower.problem is None
    stack.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=plan.job_id))
    return Acted(result, plan, after, times[0], times[-1])


def wait_for_cable(stack: Stack, cable: str) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not all(link.up for link in stack.controller.fabric.GetTopology(pb.GetTopologyRequest()).links):
        assert time.monotonic() < end, f"{cable} does not return"
        time.sleep(0.02)


def recovered_s(acted: Acted, flow_ids: set[str], since_s: float) -> float | None:
    """Return when, seconds after `since_s`, the goodput of flows was that of the new plan and stayed for a while."""
    plans = {flow.flow_id: flow for flow in acted.after.flows}
    flows = [flow for flow in acted.result.flows if flow.request.flow_id in flow_ids]
    expected = sum(paced(plans[flow.request.flow_id]) for flow in flows) * PAYLOAD_PART
    periods = min(len(flow.goodput_bytes) for flow in flows)
    bits = [8 * sum(flow.goodput_bytes[period] for flow in flows) for period in range(periods)]
    seconds = GOODPUT_PERIOD_NS / 1e9
    for first in range(int(since_s / seconds) + 1, periods - WINDOW):
        if sum(bits[first : first + WINDOW]) >= FULL * expected * WINDOW * seconds:
            return first * seconds - since_s
    return None


def on_cable(plan: pb.JobPlan, link: str) -> set[str]:
    """Return the flows that use a cable in either direction, themselves or by their ACKs."""
    back = ">".join(reversed(link.split(">")))
    return {flow.flow_id for flow in plan.flows if {link, back} & {*flow.links, *flow.reverse_links}}


@pytest.mark.parametrize(("cable", "steering"), [("leaf2:1>spine1:2", "SOURCE_PORT"), *LONG])
def test_after_a_cut_flows_move_to_the_new_plan_and_deliver_every_byte(stack, cable, steering):
    try:
        acted = run(stack, steering, lambda: stack.lab.net.set_cable(cable, up=False))
    finally:
        stack.lab.net.set_cable(cable, up=True)
        wait_for_cable(stack, cable)
    result, hit = acted.result, on_cable(acted.before, cable)
    assert hit
    assert result.completed
    assert all(flow.delivered_bytes == sum(flow.goodput_bytes) == SIZE_BYTES for flow in result.flows)
    assert not on_cable(acted.after, cable)
    listed = {move.flow_id for move in result.moves if move.kind == "failure" and f"{cable} down" in move.reason}
    forward = {flow.flow_id for flow in acted.before.flows if cable.split(">")[0] in " ".join(flow.links)}
    assert hit & forward <= listed <= hit, (hit, forward, listed)
    after_s = recovered_s(acted, hit, acted.ended_s)
    assert after_s is not None
    moved_ms = max(move.moved_ns for move in result.moves) / 1e6 - acted.ended_s * 1e3
    lost_ms = max(flow.lost_packets * FRAME_BITS / flow.request.rate_bps for flow in result.flows) * 1e3
    resent = sum(flow.retransmitted_packets for flow in result.flows)
    print(
        f"FIGURES cut {cable} {steering}: new plan's rate after {after_s * 1e3:.0f} ms, last NIC moved after "
        f"{moved_ms:.0f} ms, lost {lost_ms:.0f} ms of the flow that lost most, {resent} packets sent again"
    )


@pytest.mark.parametrize("steering", ["SOURCE_PORT", pytest.param("PIN", marks=pytest.mark.soak)])
def test_a_spine_is_drained_and_returned_under_full_traffic_without_a_lost_or_late_packet(stack, steering):
    fabric = stack.controller.fabric
    acted = run(
        stack,
        steering,
        lambda: fabric.Drain(pb.DrainRequest(target="spine1")),
        lambda: fabric.Drain(pb.DrainRequest(target="spine1", undrain=True)),
    )
    assert_nothing_lost_or_late(acted, f"spine1 {steering}")
    left = {move.flow_id for move in acted.result.moves if "spine1 drained" in move.reason}
    assert {flow.flow_id for flow in acted.before.flows if "spine1" in " ".join(flow.links)} <= left
    if steering == "SOURCE_PORT":  # sessions do not move pinned flows that have a path
        assert "spine1 returned" in acted.after.reason
        assert acted.after.certificate.max_link_utilisation == acted.before.certificate.max_link_utilisation


@pytest.mark.soak
@pytest.mark.parametrize("steering", ["SOURCE_PORT", "PIN"])
@pytest.mark.parametrize("target", ["leaf1:1>spine1:1", "spine2"])
def test_heddle_drain_loses_no_packet(stack, steering, target):
    command = [sys.executable, "-m", "heddle.programs.console.main", "drain", target, "--server", stack.controller.grpc]
    try:
        drain = partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)
        acted = run(stack, steering, drain, size_bytes=3 * SIZE_BYTES)  # the command itself starts slowly
    finally:
        subprocess.run([*command, "--undrain"], check=True, stdout=subprocess.DEVNULL)
    assert_nothing_lost_or_late(acted, f"{target} {steering}")
    assert min(flow.completed_ns or 0 for flow in acted.result.flows) > acted.ended_s * 1e9, "the drain came too late"
    used = {link for flow in acted.after.flows for link in (*flow.links, *flow.reverse_links)}
    assert not [link for link in used if target in link]


def assert_nothing_lost_or_late(acted: Acted, name: str) -> None:
    result = acted.result
    counts = {field: sum(getattr(flow, field) for flow in result.flows) for field in LOST_OR_LATE}
    moves = [f"{move.reason.split(':')[0]} {(move.moved_ns - move.requested_ns) / 1e6:.1f} ms" for move in result.moves]
    print(f"FIGURES drain {name}: {acted.ended_s - acted.began_s:.3f} s until the last reply, {counts}, moves {moves}")
    assert result.completed
    assert result.valid, result.integrity
    assert set(counts.values()) == {0}
    assert not result.queue_drops
    assert all(flow.delivered_bytes == flow.request.size_bytes for flow in result.flows)

"""Running jobs converge on real switches while their NICs send: no packet is lost, sent again or out of order."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from heddle.controller.config import load_fabric
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.soak]

FABRIC = "version: 1\nname: far\ngenerate: {kind: spine_leaf, spines: 3, leaves: 3, hosts_per_leaf: 3, gbps: 0.02}\n"
PLACES = ((9, 4, 2), (5, 3, 7), (8, 1, 6))
"""The hosts of jobs that arrive one after the other: with the last one, all of them are far from their goal."""
ARRIVES_AT_S = 0.6
SIZE_BYTES = 12_000_000
PACE = 0.4
"""Ring and all-to-all of a job are sent at the same time here, at this part of their rates."""
TIMEOUT_S = 60.0
LOST_OR_LATE = (
    "lost_packets", "retransmitted_packets", "out_of_sequence", "packet_seq_err", "duplicate_request",
    "local_ack_timeout_err",
)  # fmt: skip


class Stack(NamedTuple):
    lab: Lab
    controller: Controller


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC)
    running = Controller(path)
    try:
        with Lab(load_fabric(path)) as lab:
            lab.connect_controller(running.openflow_port)
            running.wait_for_rules()
            yield Stack(lab, running)
    finally:
        running.end()


def submit(stack: Stack, number: int) -> pb.JobPlan:
    """Submit a ring and an all-to-all whose senders drain before a move."""
    kinds = (("RING_ALL_REDUCE", 0), ("ALL_TO_ALL", 1))
    return stack.controller.jobs.SubmitJob(
        pb.SubmitJobRequest(
            job_id=f"job{number}",
            ranks=[f"h{host}-n0" for host in PLACES[number]],
            collectives=[pb.Collective(kind=kind, bytes=10**6, phase=phase) for kind, phase in kinds],
            drains_before_moves=True,
        )
    )


def planned(stack: Stack, job_id: str) -> pb.JobPlan:
    return stack.controller.jobs.GetJob(pb.GetJobRequest(job_id=job_id))


def wait_for_a_convergence(stack: Stack, job_id: str) -> pb.JobPlan:
    end = time.monotonic() + TIMEOUT_S
    while "converges" not in (plan := planned(stack, job_id)).reason:
        assert time.monotonic() < end, plan.reason
        time.sleep(0.05)
    return plan


def test_jobs_converge_under_traffic_without_a_lost_or_late_packet(stack: Stack) -> None:
    submit(stack, 0)
    submit(stack, 1)
    time.sleep(5)  # the planner of goals has its kernels then
    before = planned(stack, "job0")
    requests = [
        FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, udp_source_port=flow.udp_source_port,
            reverse_udp_source_port=flow.reverse_udp_source_port, rate_bps=paced(flow), size_bytes=SIZE_BYTES,
        )
        for flow in before.flows
    ]  # fmt: skip
    arrivals = []

    def on_progress(seconds: float) -> None:
        if not arrivals and seconds > ARRIVES_AT_S:
            arrivals.append(threads.submit(submit, stack, 2))

    with ThreadPoolExecutor(1) as threads, JobFollower(stack.controller.channel, before, paced) as follower:
        result = stack.lab.run_flows(requests, TIMEOUT_S, on_progress, changes=follower)
        assert follower.problem is None
    after = wait_for_a_convergence(stack, "job0")
    moved = [move for move in result.moves if "converges" in move.reason]
    counts = {name: sum(getattr(flow, name) for flow in result.flows) for name in LOST_OR_LATE}
    print(f"FIGURES {after.reason}: {len(moved)} moves of NICs, {counts}")
    assert moved
    assert result.completed
    assert result.valid, result.integrity
    assert set(counts.values()) == {0}
    assert not result.queue_drops
    assert all(flow.delivered_bytes == SIZE_BYTES for flow in result.flows)


def paced(flow: pb.FlowPlan) -> int:
    return int(flow.rate_bps * PACE)

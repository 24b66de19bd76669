"""Real NICs follow the generations of a plan that a gRPC server publishes while they send at full rate."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import grpc
import pytest

from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FiveTuple, FlowRequest
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.plan_server import PlanServer, serving
from tests.support.fabrics.small_fabrics import spine_leaf

pytestmark = pytest.mark.e2e

PAIRS = (("h1-n0", "h3-n0"), ("h4-n0", "h2-n0"))
RATE_BPS = 16_000_000
SIZE_BYTES = 4_000_000
NEVER_NS = 60_000_000_000


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    fabric = spine_leaf(2, 2, 4)
    with Lab(fabric, settings=replace(NicSettings.for_fabric(fabric), ack_timeout_ns=NEVER_NS)) as lab:
        lab.ecmp.load()
        yield lab


def stream(lab: Lab, source: str, destination: str, port: int) -> FiveTuple:
    nics = lab.fabric.nic_by_id
    return FiveTuple(nics[source].ip, nics[destination].ip, port)


def planned(lab: Lab, number: int, spine: str, after: int = 0) -> pb.FlowPlan:
    """Return the plan of a flow over a spine, both ways, from ports above `after` that the hash maps there."""
    source, destination = PAIRS[number]

    def port_via(source: str, destination: str) -> tuple[int, tuple[str, ...]]:
        paths = ((port, lab.path_of(stream(lab, source, destination, port))) for port in range(0xC000 + after, 0xFFFF))
        return next((port, path) for port, path in paths if f">{spine}:" in path[1])

    port, links = port_via(source, destination)
    reverse_port, reverse_links = port_via(destination, source)
    return pb.FlowPlan(
        flow_id=f"job/0/{number}",
        src_nic=source,
        dst_nic=destination,
        links=links,
        udp_source_port=port,
        reverse_links=reverse_links,
        reverse_udp_source_port=reverse_port,
        rate_bps=RATE_BPS,
    )


def run(lab: Lab, flows: list[pb.FlowPlan], on_progress: Callable[[PlanServer, float], None]):
    """Run the flows of a plan while a follower applies what `on_progress` publishes."""
    plan = pb.JobPlan(job_id="job", generation=1, flows=flows)
    cables = [link for cable in lab.fabric.cables for link in (cable.up_link, cable.down_link)]
    plans = PlanServer(plan, cables)
    requests = [
        FlowRequest(
            flow_id=flow.flow_id,
            src_nic=flow.src_nic,
            dst_nic=flow.dst_nic,
            udp_source_port=flow.udp_source_port,
            reverse_udp_source_port=flow.reverse_udp_source_port,
            rate_bps=flow.rate_bps,
            size_bytes=SIZE_BYTES,
        )
        for flow in flows
    ]
    with (
        serving(plans) as address,
        grpc.insecure_channel(address) as channel,
        JobFollower(channel, plan) as follower,
    ):
        return lab.run_flows(requests, 30, lambda seconds: on_progress(plans, seconds), changes=follower)


def test_planned_moves_of_running_flows_lose_and_resend_nothing_and_use_each_path_in_turn(lab):
    before = [planned(lab, number, "spine1") for number in range(2)]
    generations = [
        [planned(lab, number, spine, 0x100 * step) for number in range(2)]
        for step, spine in enumerate(("spine2", "spine1"), start=1)
    ]
    ready = list(generations)
    before_run_ns = time.time_ns()

    def publish(plans: PlanServer, seconds: float) -> None:
        if ready and seconds > 0.3 * (3 - len(ready)):
            plans.publish("rebalanced", ready.pop(0))

    result = run(lab, before, publish)
    observed = lab.observed_flows()
    assert result.completed
    assert result.valid, result.integrity
    assert [(flow.retransmitted_packets, flow.lost_packets) for flow in result.flows] == [(0, 0)] * 2
    assert sorted((move.flow_id, move.reason, move.kind, move.resent_packets) for move in result.moves) == [
        (flow.flow_id, f"generation {number}: rebalanced", "planned", 0) for flow in before for number in (2, 3)
    ]
    for number, flow in enumerate(result.flows):
        steps = [plan[number] for plan in (before, *generations)]
        used = [stream(lab, step.src_nic, step.dst_nic, step.udp_source_port) for step in steps]
        counted = [result.capture.links_of(one) for one in used]
        assert [set(links) for links in counted] == [set(step.links) for step in steps]
        assert sum(links[steps[0].links[0]] for links in counted) == flow.tx_packets
        assert sum(flow.goodput_bytes) == SIZE_BYTES
        own = observed[lab.fabric.nic_by_id[flow.request.src_nic].host].flows
        assert [one.udp_source_port for one in own] == [steps[-1].udp_source_port]
        assert own[0].sent_bytes > SIZE_BYTES
        assert before_run_ns < own[0].timestamp_unix_ns <= time.time_ns()


def test_after_a_cut_both_directions_move_at_once_and_what_was_lost_is_sent_again(lab):
    cut = lab.fabric.cables[2]  # leaf2 to spine1: leaf1 does not notice
    before, after = ([planned(lab, 0, spine)] for spine in ("spine1", "spine2"))
    ready = [after]

    def publish(plans: PlanServer, seconds: float) -> None:
        if ready and seconds > 0.4:
            lab.net.set_cable(cut.up_link, up=False)
            plans.links.update({cut.up_link: False, cut.down_link: False})
            plans.publish(f"link {cut.up_link} down", ready.pop())

    try:
        result = run(lab, before, publish)
    finally:
        lab.net.set_cable(cut.up_link, up=True)
    assert {str(cut.lower), str(cut.upper)} == {"leaf2:1", "spine1:2"}
    assert result.completed
    move = result.moves[0]
    assert (move.kind, move.reason) == ("failure", f"generation 2: link {cut.up_link} down")
    assert (move.old_udp_source_port, move.new_udp_source_port) == (before[0].udp_source_port, after[0].udp_source_port)
    assert result.flows[0].delivered_bytes == sum(result.flows[0].goodput_bytes) == SIZE_BYTES
    assert result.flows[0].local_ack_timeout_err == 0
    new = stream(lab, *PAIRS[0], after[0].udp_source_port)
    back = stream(lab, *PAIRS[0][::-1], after[0].reverse_udp_source_port)
    assert set(result.capture.links_of(new)) == set(after[0].links)
    assert {link for link, counts in result.capture.acks.items() if back in counts} == set(after[0].reverse_links)

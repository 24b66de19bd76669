"""A follower turns the generations that a gRPC server publishes into changes, and outlives the server."""

from collections.abc import Iterator

import grpc
import pytest

from heddle.mininet_topos.host.json_lines import wait_readable
from heddle.mininet_topos.measure.flow_run import FlowChange
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.plan_server import PlanServer, serving
from tests.support.packets.nic_pair import wait_for

FAST_RECONNECT = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 50)]
TIMEOUT_S = 30.0


def flow(number: int, port: int, link: str = "a>b") -> pb.FlowPlan:
    return pb.FlowPlan(flow_id=f"f{number}", udp_source_port=port, links=[link])


@pytest.fixture
def plans() -> PlanServer:
    plan = pb.JobPlan(job_id="job", generation=1, flows=[flow(0, 50_000), flow(1, 50_001)])
    return PlanServer(plan, links=("a>b", "a>c"))


@pytest.fixture
def address(plans) -> Iterator[str]:
    with serving(plans) as address:
        yield address


@pytest.fixture
def follower(plans, address) -> Iterator[JobFollower]:
    with (
        grpc.insecure_channel(address, options=FAST_RECONNECT) as channel,
        JobFollower(channel, plans.plans[0]) as follower,
    ):
        wait_for(lambda: plans.watches)
        yield follower


def taken(follower: JobFollower, count: int = 1) -> list[dict[str, FlowChange]]:
    """Return the changes of the next `count` generations that change anything."""
    found: list = []
    while len(found) < count:
        assert wait_readable([follower.fileno()], TIMEOUT_S), "no change arrived"
        found += follower.take()
    return found


def test_a_new_generation_becomes_a_change_of_the_flows_that_differ(plans, follower):
    plans.publish("rebalanced", [flow(1, 50_009)])
    assert taken(follower) == [{"f1": FlowChange(udp_source_port=50_009, reason="generation 2: rebalanced")}]
    assert follower.take() == []


def test_generations_stay_apart_and_in_order(plans, follower):
    plans.publish("first", [flow(0, 50_007)])
    plans.publish("second", [flow(0, 50_008), flow(1, 50_009)])
    first, second = taken(follower, 2)
    assert first["f0"].udp_source_port == 50_007
    assert {flow_id: change.udp_source_port for flow_id, change in second.items()} == {"f0": 50_008, "f1": 50_009}


def test_every_generation_that_arrives_is_kept_with_all_flows_of_its_plan(plans, follower):
    plans.publish("first", [flow(0, 50_007)])
    plans.publish("second", [flow(1, 50_009)])
    taken(follower, 2)
    last = follower.generations[-2:]
    assert [(one.plan.generation, one.plan.reason) for one in last] == [(2, "first"), (3, "second")]
    ports = [{name: each.udp_source_port for name, each in one.flows.items()} for one in last]
    assert ports == [{"f0": 50_007, "f1": 50_001}, {"f0": 50_007, "f1": 50_009}]
    assert last[0].monotonic_ns <= last[1].monotonic_ns


def test_the_topology_decides_whether_a_move_follows_a_failure(plans, follower):
    plans.links["a>b"] = False
    plans.publish("link a>b down", [flow(0, 50_007, "a>c")])
    assert taken(follower)[0]["f0"].move == "failure"
    plans.publish("rebalanced", [flow(0, 50_008, "a>c")])
    assert taken(follower)[0]["f0"].move == "planned"


def test_a_generation_that_was_published_right_before_the_server_ended_is_followed(plans, follower):
    plans.has_ended = True
    plans.publish("slower", [flow(0, 50_007)])
    assert taken(follower)[0]["f0"].udp_source_port == 50_007


def test_a_flow_that_waited_for_its_link_sends_again_when_the_link_returns(plans, follower):
    plans.links["a>b"] = False
    plans.publish("link a>b down", [flow(1, 50_007, "a>c")], state="degraded")
    taken(follower)
    plans.links["a>b"] = True
    plans.publish("link a>b up", [])
    assert taken(follower) == [{"f0": FlowChange(move="failure", reason="generation 3: link a>b up")}]


def test_flows_that_do_not_fit_one_message_are_read_page_by_page(plans, follower):
    plans.truncates = True
    plans.publish("rebalanced", [flow(1, 50_009)])
    assert set(taken(follower)[0]) == {"f1"}


def test_a_generation_that_is_published_while_the_server_is_away_arrives_after_its_return(plans):
    with serving(plans) as address:
        channel = grpc.insecure_channel(address, options=FAST_RECONNECT)
        follower = JobFollower(channel, plans.plans[0])
        follower.__enter__()
        plans.publish("before", [flow(0, 50_002)])
        taken(follower)
    later = PlanServer(plans.plans[-1], plans.links)
    later.publish("while it was away", [flow(1, 50_009)])
    with serving(later, address):
        found = taken(follower)
        follower.__exit__(None, None, None)
        channel.close()
    assert found == [{"f1": FlowChange(udp_source_port=50_009, reason="generation 3: while it was away")}]


def test_a_released_job_is_followed_no_further(plans, follower):
    plans.publish("before", [flow(0, 50_002)])
    taken(follower)
    plans.publish("released", [], state="released")
    follower._thread.join(TIMEOUT_S)
    assert not follower._thread.is_alive()
    assert plans.watches == 1


def test_a_follower_names_why_no_plan_arrives_and_goes_on_once_there_is_one(plans, address):
    later = pb.JobPlan(job_id="late", flows=[flow(0, 50_000)])
    with grpc.insecure_channel(address) as channel, JobFollower(channel, later) as follower:
        wait_for(lambda: follower.problem == "no such job")
        plans.plans[0] = pb.JobPlan(job_id="late", generation=1, flows=[flow(0, 50_001)])
        assert taken(follower)[0]["f0"].udp_source_port == 50_001
        wait_for(lambda: follower.problem is None)

"""A leaf that acknowledges nothing or refuses its rules, seen by clients of a whole controller."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from heddle.controller.api.translate import request_to
from heddle.controller.model.job import Steering
from heddle.testing.switches.openflow_switch import BARRIER_REQUEST, FLOW_MOD
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.conftest import Running, running
from tests.unit.brain.test_parking import pair

TIMEOUT_S = 60


def submitted(controller: Running, name: str, a: int, b: int) -> "asyncio.Future[pb.JobPlan]":
    request = request_to(pair(name, a, b, Steering.PIN))
    return asyncio.ensure_future(controller.jobs.SubmitJob(request, timeout=TIMEOUT_S))


async def refused(call) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


@pytest.fixture
async def refusing() -> AsyncIterator[Running]:
    """A controller whose leaf1 has connected empty, and refuses every rule."""
    async with running() as found:
        await found.connect_all()
        await submitted(found, "runs", 1, 3)
        await found.switches["leaf1"].disconnect()
        await found.until(lambda topology: not connected(topology, "leaf1"))
        leaf = await found.connect("leaf1")
        leaf.refused[FLOW_MOD] = (4, 6)
        await found.until(lambda topology: fault(topology, "leaf1"))
        yield found


def connected(topology: pb.Topology, name: str) -> bool:
    return next(switch.connected for switch in topology.switches if switch.id == name)


def fault(topology: pb.Topology, name: str) -> str:
    return next(switch.fault for switch in topology.switches if switch.id == name)


async def test_jobs_elsewhere_are_answered_while_a_leaf_acknowledges_nothing(controller):
    leaf = controller.switches["leaf1"]
    before = leaf.received[BARRIER_REQUEST]
    leaf.withheld.add(BARRIER_REQUEST)
    over_it = submitted(controller, "over", 1, 3)
    while leaf.received[BARRIER_REQUEST] == before:
        await asyncio.sleep(0.01)
    assert (await submitted(controller, "elsewhere", 5, 7)).state == "running"
    assert not over_it.done()
    await leaf.release()
    assert (await over_it).state == "running"


async def test_a_job_over_a_leaf_that_refuses_its_rules_is_unavailable_and_one_elsewhere_runs(refusing):
    error = await refused(submitted(refusing, "over", 1, 3))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "switch leaf1 lacks rules that it should hold" in error.details()
    assert "BAD_MATCH/BAD_FIELD for RULE_ADD table" in error.details()
    assert (await submitted(refusing, "elsewhere", 5, 7)).state == "running"


async def test_operators_see_which_rule_a_leaf_refuses_and_which_job_is_degraded(refusing):
    topology = await refusing.fabric.GetTopology(pb.GetTopologyRequest())
    assert "BAD_MATCH/BAD_FIELD for RULE_ADD table" in fault(topology, "leaf1")
    assert fault(topology, "leaf2") == ""
    plan = await refusing.jobs.GetJob(pb.GetJobRequest(job_id="runs"))
    assert plan.state == "degraded"
    explanation = await refusing.fabric.Explain(pb.ExplainRequest(flow_id="runs/0/0-1/0"))
    assert "Switch leaf1: it lacks rules that it should hold: BAD_MATCH/BAD_FIELD" in explanation.text
    leaf = refusing.switches["leaf1"]
    leaf.refused.clear()
    await leaf.disconnect()
    await refusing.connect("leaf1")
    await refusing.until(lambda topology: connected(topology, "leaf1") and not fault(topology, "leaf1"))
    assert (await refusing.jobs.GetJob(pb.GetJobRequest(job_id="runs"))).state == "running"

"""The fabric in force is in etcd: an apply at the leader holds for every controller, whatever its file has."""

import asyncio
import contextlib
from contextlib import AsyncExitStack

import grpc
import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.runtime.fabric_apply import FabricChangedError, Life
from heddle.controller.store.etcd import candidacy
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.fabrics.grown_files import LEAF_MORE, SPINE_MORE, YARD
from tests.unit.api.conftest import running

JOB = pb.GetJobRequest(job_id="mesh")


@pytest.fixture
def site(one_etcd, tmp_path, monkeypatch):
    monkeypatch.setattr(candidacy, "LOOK_NS", 0)
    return Site(one_etcd, tmp_path.name)


class Site:
    """The controllers of a fabric of the test's own."""

    def __init__(self, etcd, name):
        self._etcd, self._name = etcd, name

    def text(self, text: str) -> str:
        return text.replace("name: yard", f"name: {self._name}")

    def fabric(self, text: str) -> Fabric:
        return parse_fabric(self.text(text), "fabric.yaml")

    def controller(self, fabric: Fabric, name: str):
        cluster = {"endpoints": self._etcd.endpoints, "name": name, "advertise": f"{name}.example:1"}
        return running(fabric, cluster=cluster)


async def until_leads(found) -> pb.Topology:
    while True:
        with contextlib.suppress(grpc.aio.AioRpcError):
            return await found.fabric.GetTopology(pb.GetTopologyRequest(), timeout=10)
        await asyncio.sleep(0.05)


async def next_life(found) -> Life:
    """Wait until a controller is to begin again; return with what, without the processes made for it."""
    with pytest.raises(FabricChangedError) as why:
        await found.application.failed()
    why.value.life.close()
    return why.value.life


async def submitted(leader) -> pb.JobPlan:
    await until_leads(leader)
    await leader.connect_all()
    ranks = [f"h{number}-n0" for number in range(1, 7)]
    collectives = [pb.Collective(kind="ALL_TO_ALL", bytes=3_000)]
    return await leader.jobs.SubmitJob(pb.SubmitJobRequest(job_id="mesh", ranks=ranks, collectives=collectives))


def paths_and_ports(plan: pb.JobPlan) -> list[tuple[object, ...]]:
    return [(tuple(each.links), each.udp_source_port, each.reverse_udp_source_port) for each in plan.flows]


async def test_an_apply_at_the_leader_holds_for_one_that_waits_and_for_those_that_start_with_another_file(site, caplog):
    grown = site.fabric(LEAF_MORE)
    async with AsyncExitStack() as stays:
        async with site.controller(site.fabric(YARD), "c0") as leader:
            plan = await submitted(leader)
            waiting = await stays.enter_async_context(site.controller(site.fabric(YARD), "c1"))
            channel = await stays.enter_async_context(grpc.aio.insecure_channel(leader.addresses["grpc"]))
            request = pb.ApplyFabricRequest(fabric=site.text(LEAF_MORE))
            call = rpc.FabricServiceStub(channel).ApplyFabric(request, timeout=60)
            applied = await next_life(leader)
        assert (await call).applied
        assert (await next_life(waiting)).fabric == grown
    assert applied.fabric.switch_by_id.keys() == grown.switch_by_id.keys()
    for text in (YARD, SPINE_MORE):  # it lacks a part, or has one that no fabric in force has
        async with site.controller(site.fabric(text), "c0") as again:
            assert (await next_life(again)).fabric == grown
    async with site.controller(grown, "c1") as follower:
        assert {each.id for each in (await until_leads(follower)).switches} == grown.switch_by_id.keys()
        assert paths_and_ports(await follower.jobs.GetJob(JOB)) == paths_and_ports(plan)
    said = [line for line in caplog.messages if "the fabric in force, in etcd, is not that of this controller" in line]
    assert len(said) == 3  # one line each

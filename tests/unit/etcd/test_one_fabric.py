"""The fabric in force is in etcd: an apply at the leader holds for every controller, whatever its file has."""

import asyncio
import contextlib
import subprocess
import time
from contextlib import AsyncExitStack

import grpc
import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.runtime.fabric_apply import FabricChangedError, Life
from heddle.controller.store.etcd import candidacy
from heddle.programs.console.client import connected
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.clusters.cluster import HEDDLE, ControllerCluster
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
        self.etcd, self._name = etcd, name

    def text(self, text: str) -> str:
        return text.replace("name: yard", f"name: {self._name}")

    def fabric(self, text: str) -> Fabric:
        return parse_fabric(self.text(text), "fabric.yaml")

    def controller(self, fabric: Fabric, name: str):
        cluster = {"endpoints": self.etcd.endpoints, "name": name, "advertise": f"{name}.example:1", "lease_s": 20}
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


def switches_of(cluster: ControllerCluster) -> set[str]:
    """Return the switches of the fabric that the leader serves; waits while there is none."""
    while True:
        with contextlib.suppress(grpc.RpcError), grpc.insecure_channel(cluster.leader().grpc) as channel:
            found = rpc.FabricServiceStub(channel).GetTopology(pb.GetTopologyRequest(), timeout=10)
            return {each.id for each in found.switches}
        time.sleep(0.05)


def until_served(cluster: ControllerCluster, fabric: Fabric) -> None:
    while switches_of(cluster) != fabric.switch_by_id.keys():
        time.sleep(0.05)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_processes_lead_in_turn_with_the_fabric_in_force_and_what_was_removed_stays_removed(site, tmp_path):
    file = tmp_path / "fabric.yaml"
    file.write_text(site.text(YARD))
    with ControllerCluster(tmp_path, file, site.etcd, count=2) as cluster:
        first = cluster.leader()
        grown = tmp_path / "grown.yaml"
        grown.write_text(site.text(LEAF_MORE))
        command = (*HEDDLE, "fabric", "apply", str(grown), "--server", cluster.addresses)
        said = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (said.returncode, said.stderr) == (0, "")
        assert "the files of the other controllers: replace them; they follow etcd" in said.stdout
        assert said.stdout.endswith(f"in force: the controller serves {grown}\n")
        until_served(cluster, site.fabric(LEAF_MORE))
        (other,) = (member for member in cluster.members if member is not first)
        for ends in (first, other):  # each leads in turn, with the file of before
            ends.kill()
            until_served(cluster, site.fabric(LEAF_MORE))
            ends.start()
            ends.wait_until_ready()
        with connected(cluster.addresses) as client:
            client.fabric.Drain(pb.DrainRequest(target="leaf4"))
            assert client.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=site.text(YARD))).applied
        until_served(cluster, site.fabric(YARD))
        file.write_text(site.text(LEAF_MORE))
        for member in cluster.members:
            member.kill()
        for member in cluster.members:
            member.start()
            member.wait_until_ready()
        until_served(cluster, site.fabric(YARD))
        logs = [member.log.read_text() for member in cluster.members]
    assert not any("Traceback" in log for log in logs)
    assert all("the fabric in force, in etcd, is not that of this controller" in log for log in logs)

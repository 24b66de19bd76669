"""Several controllers follow the cabling: one decides, the next leader keeps what was found, or takes it back."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

import grpc
import pytest

from heddle.controller import parts
from heddle.controller.brain.cabling import following
from heddle.controller.config.load import parse_fabric
from heddle.controller.model.event import Tick
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.model.found_cabling import as_found, with_found
from heddle.controller.runtime.journal.fitting import as_in_file
from heddle.controller.store.etcd import candidacy
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.clusters.cluster import ControllerCluster
from tests.support.fabrics.grown_files import YARD
from tests.support.processes.cabled_switches import CabledSharedSwitches
from tests.unit.api.conftest import running
from tests.unit.etcd.test_one_fabric import next_life, until_leads
from tests.unit.journal.test_followed_fabric import exchange, heard_in

EXCHANGED = ("leaf1:1>spine1:1", "leaf1:2>spine2:1")
LIMIT_S = 120.0
WATCHED_S = 10.0
FOUND = {"leaf1:1>spine2:1", "leaf1:2>spine1:1"}


@pytest.fixture
def site(one_etcd, tmp_path, monkeypatch):
    """Return what starts a controller of a fabric of the test's own, and that fabric."""
    monkeypatch.setattr(candidacy, "LOOK_NS", 0)
    monkeypatch.setattr(following, "STABLE_MS", 0)
    monkeypatch.setattr(parts, "processes", lambda fabric: (ThreadPlanner(fabric), ThreadCompiler(fabric)))
    name = tmp_path.name

    def controller(fabric: Fabric, member: str):
        cluster = {"endpoints": one_etcd.endpoints, "name": member, "advertise": f"{member}.example:1", "lease_s": 20}
        return running(fabric, cluster=cluster, cabling="follow")

    return controller, parse_fabric(
        YARD.replace("name: yard", f"name: {name}").replace("spines: 2", "spines: 4"), "fabric.yaml"
    )


async def hears(found, fabric: Fabric) -> None:
    """Let all switches of a leader hear a fabric as it is plugged, and wait until that is judged."""
    loop = found.application.loop
    loop.post(heard_in(fabric))
    while not loop.state.cabling.heard or loop.state.cabling.stale or loop.state.cabling.token is not None:
        await asyncio.sleep(0.02)
    loop.post(Tick())  # else what follows from it waits for the next second


async def test_the_next_leader_keeps_what_was_found_and_another_takes_it_back_once_plugs_are_back(site, caplog):
    controller, file = site
    followed = with_found(file, [exchange(file, *EXCHANGED)])
    ranks = [f"h{number}-n0" for number in range(1, 7)]
    job = pb.SubmitJobRequest(job_id="mesh", ranks=ranks, collectives=[pb.Collective(kind="ALL_TO_ALL", bytes=3_000)])
    async with AsyncExitStack() as stays:
        async with controller(file, "c0") as leader:
            await until_leads(leader)
            await leader.connect_all()
            waiting = await stays.enter_async_context(controller(file, "c1"))
            waiting.application.loop.post(heard_in(followed))  # what it hears decides nothing
            await leader.jobs.SubmitJob(job)
            await hears(leader, followed)
            assert as_in_file((await next_life(leader)).fabric) == followed
        assert (await next_life(waiting)).fabric == followed
    async with controller(followed, "c1") as leader:
        topology = await until_leads(leader)
        assert {link.id for link in topology.links if link.as_found} >= FOUND
        assert not {link.id for link in topology.links if link.as_found} & set(EXCHANGED)
        loop = leader.application.loop
        for _ in range(3):  # nothing is heard yet: that says nothing
            loop.post(Tick())
            await asyncio.sleep(0.05)
        assert loop.state.cabling.following is None
        assert loop.state.out_of_use.down_cables == FOUND, "until all switches have the new rules"
        await leader.connect_all()
        await hears(leader, followed)
        assert (loop.state.cabling.following, loop.state.out_of_use.down_cables) == (None, frozenset())
        assert len(loop.state.cabling.followed) == 1, "how often is known to the next leader"
        while (plan := await leader.jobs.GetJob(pb.GetJobRequest(job_id="mesh"))).state != "running":
            await asyncio.sleep(0.02)
        assert {link for flow in plan.flows for link in flow.links} <= {link.id for link in topology.links}
    async with controller(followed, "c0") as leader:
        await until_leads(leader)
        await leader.connect_all()
        await hears(leader, file)
        assert as_in_file((await next_life(leader)).fabric) == file
    async with controller(file, "c0") as leader:
        await until_leads(leader)
        assert len(leader.application.loop.state.cabling.followed) == 2
        assert as_found(leader.application.loop.state.fabric) == frozenset()
    assert not any("give it that file" in line for line in caplog.messages), "each file is right"


def until(cluster: ControllerCluster, holds: Callable[[pb.Topology], bool]) -> pb.Topology:
    """Wait until the leader's topology, with all switches connected, is as wanted."""
    end = time.monotonic() + LIMIT_S
    while True:
        with contextlib.suppress(grpc.RpcError), grpc.insecure_channel(cluster.leader().grpc) as channel:
            found = rpc.FabricServiceStub(channel).GetTopology(pb.GetTopologyRequest(), timeout=10)
            if holds(found) and all(switch.connected and switch.rules for switch in found.switches):
                return found
        assert time.monotonic() < end, [member.log.read_text()[-3_000:] for member in cluster.members]
        time.sleep(0.1)


def found_up(topology: pb.Topology) -> set[str]:
    return {link.id for link in topology.links if link.as_found and link.id.startswith("leaf")}


def is_heard(file: Fabric, topology: pb.Topology) -> bool:
    """Return whether both ends of all cables of the file are heard, and nothing is wrong or as found."""
    heard = {link.id for link in topology.links if link.heard}
    return heard >= file.cable_by_link.keys() and not topology.miscablings and not found_up(topology)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("killed_after_s", [2.0, 6.0, 7.5])
def test_processes_follow_plugs_while_leaders_are_killed_and_none_flaps(one_etcd, tmp_path, killed_after_s):
    text = YARD.replace("name: yard", f"name: {tmp_path.name}").replace("spines: 2", "spines: 4")
    file, path = parse_fabric(text, "fabric.yaml"), tmp_path / "fabric.yaml"
    path.write_text(text)
    plugs = (PortRef("leaf1", 1), PortRef("leaf1", 2))
    with ControllerCluster(tmp_path, path, one_etcd, count=2, settings={"cabling": "follow"}) as cluster:
        switches = CabledSharedSwitches(file, [member.openflow for member in cluster.members])
        try:
            until(cluster, lambda found: is_heard(file, found))
            switches.exchange(plugs)
            time.sleep(killed_after_s)  # before it is followed, at about that time, after it
            ended = cluster.leader()
            ended.kill()
            until(cluster, lambda found: found_up(found) == FOUND)
            ended.start()
            ended.wait_until_ready()
            quiet_s = time.monotonic() + WATCHED_S
            while time.monotonic() < quiet_s:
                assert found_up(until(cluster, lambda found: True)) == FOUND
            switches.exchange(plugs)
            until(cluster, lambda found: is_heard(file, found))
            logs = "".join(member.log.read_text() for member in cluster.members)
        finally:
            switches.close()
    assert "Traceback" not in logs
    assert "give it that file" not in logs
    begun = [line for line in logs.splitlines() if "plans are to follow the cabling as found" in line]
    assert 2 <= len(begun) <= 3, "once each way, and once more where a leader was killed while it did"

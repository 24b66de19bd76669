"""Several controllers follow the cabling: one decides, the next leader keeps what was found, or takes it back."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from heddle.controller import parts
from heddle.controller.brain.cabling import following
from heddle.controller.config.load import parse_fabric
from heddle.controller.model.event import Tick
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.found_cabling import as_found, with_found
from heddle.controller.runtime.journal.fitting import as_in_file
from heddle.controller.store.etcd import candidacy
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.fabrics.grown_files import YARD
from tests.unit.api.conftest import running
from tests.unit.etcd.test_one_fabric import next_life, until_leads
from tests.unit.journal.test_followed_fabric import exchange, heard_in

EXCHANGED = ("leaf1:1>spine1:1", "leaf1:2>spine2:1")
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

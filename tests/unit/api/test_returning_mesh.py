"""The ping mesh of a fabric whose packets name their paths, over gRPC: a lossy cable is named without partners."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from heddle.controller.cabling.merging import HeardBy
from heddle.controller.model.address import parse_ip
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.probe_sessions import far_ends as far_ends_module
from heddle.controller.probe_sessions.far_ends import FarEnds
from heddle.controller.probe_sessions.mesh import BUDGET, PingMesh
from heddle.controller.runtime.judged_cables import JudgedBy, JudgedCables
from heddle.probing.self_ping import FRAME_BITS
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.probing.agent import FakeProbeAgent
from tests.oracles.usid_walk import walk
from tests.property.controller.test_srv6_paths import world
from tests.property.controller.test_srv6_pings import exchanged
from tests.support.processes.probe_agents import until_attached
from tests.unit.api.conftest import running
from tests.unit.api.test_ping_mesh import turns
from tests.unit.brain.driver import small_fabric

FABRIC = replace(small_fabric(spines=4), steered_by=SteeredBy.SRV6)
LINK, CABLE = "spine2:3>leaf3:2", "leaf3:2>spine2:3"
NIC_OF = {nic.ip: nic for nic in FABRIC.nics}
HOSTS = [nic.host for nic in FABRIC.nics]


class Site:
    """Agents whose probes go where the SIDs of switches lead them; a `lost` link loses every second one."""

    def __init__(self):
        self.lost, self.orders, self.packets, self.world = "", [], 0, world(FABRIC)

    def answer(self, order):
        self.orders.append(order)
        nic = NIC_OF[parse_ip(order.src_ip)]
        rtt_us = []
        for sid in order.sids:
            taken, end, _ = walk(self.world, nic.port.switch, sid)
            crossed = [f"{one[0]}:{one[1]}>{other[0]}:{other[1]}" for one, other in taken]
            self.packets += 1
            rtt_us.append(500 if end == nic.id and not (self.lost in crossed and self.packets % 2) else 0)
        return [pb.ProbeReplies(order_id=order.order_id, sent=len(rtt_us), mesh_rtt_us=rtt_us)]


class HelloWithSids(FakeProbeAgent):
    async def _run(self, hello):
        for nic in hello.nics:
            nic.sids = True
        await super()._run(hello)


@asynccontextmanager
async def meshed(site, agent=HelloWithSids, nic_pps=100):
    async with running(FABRIC, mesh_probes_pps=0) as controller:
        attached, loop = controller.application.attached.probe_agents, controller.application.loop
        agents = [agent(controller.channel, nic.host, [nic.ip], site.answer) for nic in FABRIC.nics]
        await until_attached(attached, HOSTS)
        judged = JudgedCables(loop)
        far_ends = FarEnds(attached, partial(controller.application.peers.hear, HeardBy.PINGS))
        mesh = PingMesh(
            attached, lambda: loop.state, lambda cables: judged.report(JudgedBy.PROBES, cables),
            np.random.default_rng(0).random, nic_pps=nic_pps, turn_s=0.1, far_ends=far_ends,
        )  # fmt: skip
        task = asyncio.create_task(mesh.run())
        try:
            yield controller, mesh
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for each in agents:
                await each.close()


async def test_a_cable_that_loses_probes_is_named_with_its_repair_and_a_sound_fabric_has_none():
    site = Site()
    async with meshed(site) as (controller, mesh):
        await turns(mesh)
        assert mesh.crossed == 2 * len(FABRIC.cables)
        assert controller.application.loop.state.bad_cables == {}
        site.lost = LINK
        topology = await controller.until(lambda topology: any(link.fault for link in topology.links))
        faults = {link.id: link.fault for link in topology.links if link.fault}
    assert faults.keys() == {LINK, CABLE}
    assert f"of its probes over {CABLE} and {LINK}" in faults[LINK]


async def test_an_order_has_the_source_and_the_data_s_dscp_and_keeps_the_budget():
    site = Site()
    async with meshed(site, nic_pps=1_000) as (_, mesh):
        await turns(mesh, 2)
    order = site.orders[0]
    nic = NIC_OF[parse_ip(order.src_ip)]
    leaf = FABRIC.switch_by_id[nic.port.switch].datapath_id
    assert (order.srv6_source, order.dscp) == (f"fcbb:0:{leaf:x}:e0{nic.port.number:02x}::", 26)
    assert not order.mesh
    assert not order.questions
    assert max(each.rate_pps for each in site.orders) * FRAME_BITS <= BUDGET * 10**9


async def test_agents_that_send_no_such_probes_take_no_part():
    site = Site()
    async with meshed(site, FakeProbeAgent) as (_, mesh):
        await asyncio.sleep(0.3)
        assert (site.orders, mesh.counts["turns"]) == ([], 0)


async def test_two_exchanged_cables_are_one_condition_until_they_are_repaired(monkeypatch):
    monkeypatch.setattr(far_ends_module, "LOCATE_S", 0.2)
    site = Site()
    async with meshed(site) as (controller, mesh):
        loop = controller.application.loop
        await turns(mesh)
        one, other = FABRIC.up_choices["leaf1"][0], FABRIC.up_choices["leaf3"][1]
        site.world = exchanged(FABRIC, one.lower, other.lower)
        await controller.until(lambda _: bool(loop.state.cabling.verdict.causes))
        cause = loop.state.cabling.verdict.causes[0]
        assert (cause.kind, set(cause.cables)) == ("exchanged", {one.id, other.id})
        site.world = world(FABRIC)
        await controller.until(lambda _: not loop.state.cabling.verdict.causes)
        await turns(mesh, 3)
        assert mesh.judge.raised == {}
        assert not loop.state.cabling.verdict.unknown & {cable.id for cable in FABRIC.cables}

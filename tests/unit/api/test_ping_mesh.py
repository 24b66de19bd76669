"""The ping mesh over gRPC: a turn's losses name one cable, and what agents cannot know or have made up names none."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heddle.controller.brain.begin import begin
from heddle.controller.model.address import parse_ip
from heddle.controller.model.event import PortStatus
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.model.steering import layout_of
from heddle.controller.probe_sessions.mesh import BUDGET, PingMesh
from heddle.controller.probe_sessions.sessions import MAX_QUESTIONS, ProbeAgents
from heddle.controller.rules.compile import WHOLE, compile_fabric
from heddle.controller.rules.listing import group_rows, rows
from heddle.controller.runtime.judged_cables import JudgedBy, JudgedCables
from heddle.probing.datagram import FRAME_BITS
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.probing.agent import FakeProbeAgent
from tests.oracles.openflow_interpreter import Network, roce
from tests.support.processes.probe_agents import until_attached
from tests.unit.api.conftest import running
from tests.unit.brain.driver import small_fabric

FABRIC = small_fabric(spines=4)
LINK, CABLE = "spine2:3>leaf3:2", "leaf3:2>spine2:3"
NIC_OF = {nic.ip: nic for nic in FABRIC.nics}


@dataclass
class Site:
    """Agents that answer as the switches' rules lead probes, and of `lost` links lose every second packet."""

    lost: set[str] = field(default_factory=set)
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the agents of some hosts report instead, as fields of the reply."""
    orders: list[pb.ProbeOrder] = field(default_factory=list)
    packets: int = 0
    on_order: Callable[[], object] = int

    def __post_init__(self):
        compiled = compile_fabric(FABRIC, layout_of(FABRIC), WHOLE, ())
        self.network = Network(FABRIC, rows(FABRIC, compiled), group_rows(FABRIC, compiled))

    def passes(self, source, target, port) -> bool:
        journey = self.network.send(source.id, {**roce(source.ip, target.ip, port), "udp_dst": 4796})
        assert journey.nic == target.id
        names = {cable.up_link.split(">")[0]: cable.up_link for cable in FABRIC.cables}
        names |= {cable.down_link.split(">")[0]: cable.down_link for cable in FABRIC.cables}
        self.packets += 1
        crossed = {names.get(f"{switch}:{number}") for switch, number in journey.hops}
        return not (crossed & self.lost and self.packets % 2)

    def answer(self, order):
        self.orders.append(order)
        self.on_order()
        source = NIC_OF[parse_ip(order.src_ip)]
        rtt_us = []
        for probe in order.mesh:
            target = NIC_OF[parse_ip(probe.dst_ip)]
            arrives = self.passes(source, target, probe.port) and self.passes(target, source, probe.reply_port)
            rtt_us.append(500 if arrives else 0)
        report: dict[str, Any] = {"sent": len(rtt_us), "mesh_rtt_us": rtt_us} | self.reports.get(source.host, {})
        return [pb.ProbeReplies(order_id=order.order_id, **report)]


class HelloWithMesh(FakeProbeAgent):
    async def _run(self, hello):
        for nic in hello.nics:
            nic.mesh = True
        await super()._run(hello)


@asynccontextmanager
async def meshed(site, hosts=None, **options):
    async with running(FABRIC, mesh_probes_pps=0) as controller:
        await controller.connect_all()
        attached = controller.application.attached.probe_agents
        agents = [
            HelloWithMesh(controller.channel, nic.host, [nic.ip], site.answer)
            for nic in FABRIC.nics
            if hosts is None or nic.host in hosts
        ]
        await until_attached(attached, [nic.host for nic in FABRIC.nics if hosts is None or nic.host in hosts])
        loop = controller.application.loop
        judged = JudgedCables(loop)
        mesh = PingMesh(
            attached, lambda: loop.state, lambda cables: judged.report(JudgedBy.PROBES, cables),
            np.random.default_rng(0).random, nic_pps=options.get("nic_pps", 100), turn_s=0.1,
        )  # fmt: skip
        task = asyncio.create_task(mesh.run())
        try:
            yield controller, mesh
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for agent in agents:
                await agent.close()


async def turns(mesh, count=2):
    async with asyncio.timeout(20):
        end = mesh.counts["turns"] + count
        while mesh.counts["turns"] < end:
            await asyncio.sleep(0.01)


async def test_a_cable_that_loses_probes_one_way_is_named_with_its_repair_and_a_sound_fabric_has_none():
    site = Site()
    async with meshed(site) as (controller, mesh):
        await turns(mesh)
        assert mesh.crossed == 2 * len(FABRIC.cables)
        assert controller.application.loop.state.bad_cables == {}
        site.lost = {LINK}
        topology = await controller.until(lambda topology: any(link.fault for link in topology.links))
        faults = {link.id: link.fault for link in topology.links if link.fault}
        assert faults.keys() == {LINK, CABLE}
        assert f"of its probes over {LINK}" in faults[LINK]
        assert "clean or replace the optics of leaf3:2 and spine2:3" in faults[LINK]
        assert [bad.found.probed for bad in controller.application.loop.state.bad_cables.values()] == [(LINK,)]


async def test_a_turn_keeps_its_budget_on_every_link_and_sends_with_the_data_s_dscp():
    site = Site()
    async with meshed(site, nic_pps=1_000) as (_, mesh):
        await turns(mesh, 2)
    assert {order.dscp for order in site.orders} == {26}
    rates = {}
    for order in site.orders[: len(FABRIC.nics)]:
        assert len(order.mesh) <= MAX_QUESTIONS
        for probe in order.mesh:
            for end in (order.src_ip, probe.dst_ip):
                rates[end] = rates.get(end, 0.0) + order.rate_pps / len(order.mesh)
    assert max(rates.values()) * FRAME_BITS <= BUDGET * 10**9


async def test_agents_that_are_late_report_nonsense_or_refuse_say_nothing_about_cables():
    rubbish = {"mesh_rtt_us": [0], "sent": 1}
    site = Site(reports={"h1": {"mesh_rtt_us": [], "late": True}, "h3": rubbish, "h5": {"refused": "busy"}})
    site.reports["h1"] = {"late": True}
    async with meshed(site) as (controller, mesh):
        site.lost = {"leaf1:1>spine1:1"}
        await turns(mesh, 3)
        agents = controller.application.attached.probe_agents
        assert agents.lies["surplus"] >= 3
        assert mesh.counts["reports_late"] >= 3
        assert mesh.counts["orders_failed"] >= 3
        assert mesh.counts["unknown"] > 0


async def test_a_turn_during_which_a_cable_fails_says_nothing():
    site = Site()
    async with meshed(site, nic_pps=1_000) as (controller, mesh):
        loop = controller.application.loop

        def fail():
            if not site.lost:
                site.lost = {LINK, CABLE}
                loop.post(PortStatus(switch="leaf3", port=2, up=False), "leaf3")

        site.on_order = fail
        await turns(mesh)
        assert mesh.counts["turns_discarded"] > 0
        assert (mesh.counts["lost"], mesh.judge.raised) == (0, {})
        assert loop.state.bad_cables == {}


async def test_agents_of_one_leaf_have_no_link_to_probe():
    async with meshed(Site(), hosts={"h1", "h2"}) as (_, mesh):
        await asyncio.sleep(0.3)
        assert mesh.counts["turns"] == 0


async def test_a_fabric_that_hashes_has_no_mesh():
    state = begin(replace(FABRIC, steered_by=SteeredBy.HASH))
    mesh = PingMesh(ProbeAgents(print), lambda: state, print, np.random.default_rng(0).random, nic_pps=100)
    async with asyncio.timeout(5):
        await mesh.run()

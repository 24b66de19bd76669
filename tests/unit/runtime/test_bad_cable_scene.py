"""A cable's counters go bad, the job is planned around it, and the cable is used again when it is repaired.

From the bytes of an agent to the rules of switches and what an operator reads, in a whole controller on loopback.
"""

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace

from heddle.controller.api.translate import request_to
from heddle.controller.config.telemetry import ports_of
from heddle.controller.runtime import loop
from heddle.controller.runtime.collecting import Collecting
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.observer import Observer
from heddle.telemetry.samples.sample import PortSample, encode
from heddle.telemetry.samples.topic import ports_topic
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.telemetry.bus import FakeBus
from tests.unit.api.conftest import running
from tests.unit.brain.driver import shift_job, small_fabric

PERIOD_MS = 20
SETTINGS = DetectorSettings(
    period_ms=PERIOD_MS, raise_periods=2, loss_raise_ratio=1e-2, loss_clear_ratio=1e-3, loss_min_errors=2,
    loss_clear_periods=3,
)  # fmt: skip
CABLE = "leaf1:1>spine1:1"


class Agent:
    """The agent of leaf1, which reports port 1 every period; one of `one_in` packets arrives damaged, 0: none."""

    def __init__(self, fabric, bus):
        self.topic, self.bus = ports_topic(fabric.name, "leaf1"), bus
        self.one_in = self.packets = self.damaged = self.sequence = 0

    async def run(self):
        while True:
            self.sequence += 1
            self.packets += 1_000
            self.damaged += 1_000 // self.one_in if self.one_in else 0
            sample = PortSample(
                port="leaf1:1", timestamp_unix_ns=time.time_ns(), sequence=self.sequence, boot_id=1,
                rx_packets=self.packets, rx_crc_errors=self.damaged,
            )  # fmt: skip
            self.bus.publish(self.topic, encode([sample]))
            await asyncio.sleep(PERIOD_MS / 1_000)


@asynccontextmanager
async def watched(controller, fabric):
    """Let an agent report to a controller."""
    bus, application = FakeBus(), controller.application
    state = application.loop.state
    application.loop.state = replace(state, settings=replace(state.settings, acts_on_telemetry=True))
    observer = Observer(fabric.name, ports_of(fabric), SETTINGS)
    collecting = Collecting(observer, bus, application.feeds.telemetry, application.loop)
    collecting.start()
    await collecting.collector.connected.wait()
    agent = Agent(fabric, bus)
    reporting = asyncio.create_task(agent.run())
    try:
        yield agent
    finally:
        reporting.cancel()
        await collecting.close()


def cable(topology: pb.Topology) -> pb.Link:
    return next(link for link in topology.links if link.id == CABLE)


async def links_of(controller) -> set[str]:
    plan = await controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))
    assert plan.state == "running"
    return {link for flow in plan.flows for link in flow.links}


async def test_a_cable_whose_counters_go_bad_is_planned_around_and_used_again_when_repaired(monkeypatch):
    monkeypatch.setattr(loop, "TICK_S", 0.05)
    fabric = small_fabric(spines=4)
    async with running(fabric) as controller:
        await controller.connect_all()
        await controller.jobs.SubmitJob(request_to(shift_job("a")))
        async with watched(controller, fabric) as agent:
            agent.one_in = 10
            bad = cable(await controller.until(lambda topology: cable(topology).drained))
            assert bad.fault.startswith("loses 0.09 of its frames: 0.9")
            assert "clean or replace the optics of leaf1:1 and spine1:1, or the cable" in bad.fault
            assert bad.fault.endswith("left out of plans: the running jobs lose nothing by it")
            assert 0 < bad.left_bps < bad.capacity_bps
            assert CABLE not in await links_of(controller)
            agent.one_in = 0
            repaired = cable(await controller.until(lambda topology: not cable(topology).fault))
            assert (repaired.drained, repaired.up, repaired.left_bps) == (False, True, 0)
        events = [(event.kind, event.subject) for event in controller.application.feeds.telemetry.recent()]
        assert {("loss_raised", "leaf1:1"), ("loss_cleared", "leaf1:1"), ("note", CABLE)} <= set(events)

"""The collector inside the controller: from a broker to readers, and the effect of a fault in it."""

import asyncio
import time
from dataclasses import replace

import aiomqtt
import pytest

from heddle.controller.config.telemetry import TelemetryConfig, ports_of
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.runtime.collecting import Collecting
from heddle.controller.runtime.telemetry import Telemetry
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.observer import Observer
from heddle.telemetry.samples.sample import PortSample, QueueSample, encode
from heddle.telemetry.samples.topic import ports_topic, status_topic
from tests.fakes.telemetry.bus import FakeBus
from tests.support.processes.mosquitto import mosquitto
from tests.unit.api.conftest import running
from tests.unit.brain.driver import small_fabric


async def test_a_controller_receives_samples_of_its_switches_over_a_broker():
    fabric = small_fabric()
    port = str(fabric.cables[0].lower)
    topic = ports_topic(fabric.name, fabric.cables[0].lower.switch)
    with mosquitto() as broker:
        config = TelemetryConfig.model_validate({"broker": f"127.0.0.1:{broker.port}", "period_ms": 50})
        async with running(fabric, telemetry=config) as controller:
            collecting, telemetry = controller.application.collecting, controller.application.feeds.telemetry
            assert collecting is not None
            assert telemetry.configured
            await asyncio.wait_for(collecting.collector.connected.wait(), 20)
            async with aiomqtt.Client("127.0.0.1", broker.port) as agent, asyncio.timeout(20):
                for n in range(2):
                    lost = QueueSample(priority=3, dropped_packets=n)
                    now = PortSample(port=port, timestamp_unix_ns=time.time_ns(), sequence=n, queues=(lost,))
                    await agent.publish(topic, encode([now]))
                await agent.publish(status_topic(fabric.name, "a1"), b"online", qos=1)
                while not {"broker_online", "agent_online", "drop_raised"} <= {e.kind for e in telemetry.recent()}:
                    await asyncio.sleep(0.01)
            assert {e.subject for e in telemetry.recent() if e.kind == "drop_raised"} == {f"{port} priority 3"}
            assert telemetry.newest().snapshot.heard.sum() == 1
            assert telemetry.counts["samples"] == 2


async def test_a_start_says_that_telemetry_raises_alarms_only(caplog):
    """0.0.0.0 is this machine, but no name of it that telemetry trusts."""
    config = TelemetryConfig.model_validate({"broker": "0.0.0.0:1", "period_ms": 1_000})
    async with running(small_fabric(), telemetry=config) as controller:
        assert not controller.application.loop.state.settings.acts_on_telemetry
    assert caplog.text.count("telemetry raises alarms only: the broker at 0.0.0.0:1 is not on this machine") == 1


async def test_bad_input_is_in_the_event_log():
    fabric, bus, telemetry = small_fabric(), FakeBus(), Telemetry(configured=True)
    settings = DetectorSettings(period_ms=20)
    collecting = Collecting(Observer(fabric.name, ports_of(fabric), settings), bus, telemetry)
    collecting.start()
    await collecting.collector.connected.wait()
    bus.publish(ports_topic(fabric.name, "unknown"), b"")
    async with asyncio.timeout(20):
        while not any(event.kind == "telemetry_unknown_source" for event in telemetry.recent()):
            await asyncio.sleep(0.01)
    await collecting.close()
    assert telemetry.counts["unknown_source"] == 1


async def test_a_fault_in_telemetry_does_not_end_the_controller(caplog):
    class Faulty(FakeBus):
        async def listen(self, *_):
            raise RuntimeError("a fault")

    fabric = small_fabric()
    collecting = Collecting(Observer(fabric.name, ports_of(fabric), DetectorSettings()), Faulty(), Telemetry())
    collecting.start()
    async with asyncio.timeout(20):
        while not collecting.failed:
            await asyncio.sleep(0.01)
    await collecting.close()
    assert "plans and rules are not affected" in caplog.text


@pytest.mark.parametrize(
    ("steered_by", "trusted", "down"), [("hash", True, 1), ("hash", False, 0), ("openflow", True, 0)]
)
async def test_a_port_without_carrier_is_a_failed_link_where_the_fabric_hashes(steered_by, trusted, down):
    """As OpenFlow port status: of what a stranger may publish on a broker elsewhere nothing follows."""
    fabric = replace(small_fabric(), steered_by=SteeredBy(steered_by))
    cable, bus = fabric.cables[0], FakeBus()
    async with running(fabric) as controller:
        loop = controller.application.loop
        loop.state = replace(loop.state, settings=replace(loop.state.settings, acts_on_telemetry=trusted))
        observer = Observer(fabric.name, ports_of(fabric), DetectorSettings(period_ms=20))
        collecting = Collecting(observer, bus, Telemetry(), loop)
        collecting.start()
        await collecting.collector.connected.wait()
        links = []
        async with asyncio.timeout(20):
            for number, carrier in enumerate((False, True)):
                now = PortSample(
                    port=str(cable.lower), timestamp_unix_ns=time.time_ns(), sequence=number, carrier=carrier
                )
                bus.publish(ports_topic(fabric.name, cable.lower.switch), encode([now]))
                while collecting.collector.totals()["samples"] <= number:
                    await asyncio.sleep(0.01)
                while down and (cable.id in loop.state.health.down_cables) is carrier:
                    await asyncio.sleep(0.01)
                links.append(len(loop.state.health.down_cables))
        await collecting.close()
        assert links == [down, 0]

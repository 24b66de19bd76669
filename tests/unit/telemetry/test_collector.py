"""The collector on a bus in memory, and on a real mosquitto."""

import asyncio
import socket
import time
from contextlib import asynccontextmanager

import aiomqtt
import pytest

from heddle.foundation.backoff import Backoff
from heddle.telemetry.collector import collector as module
from heddle.telemetry.collector.bus import Broker, BusConnectionError
from heddle.telemetry.collector.collector import Collector
from heddle.telemetry.collector.mqtt import MqttBus
from heddle.telemetry.detection.window import Notice
from heddle.telemetry.samples.sample import PortSample, Refusal, encode
from heddle.telemetry.samples.topic import ports_topic, status_topic, subscriptions
from tests.fakes.telemetry.bus import FakeBus
from tests.support.processes.mosquitto import mosquitto
from tests.unit.telemetry.test_observer import LEAF1, observer

TIMEOUT_S = 60
REFUSALS = {*Refusal, *Notice}


class Scans(list):
    """Every scan, and the newest copy of the windows."""

    newest = None

    def on_scan(self, scan, readers):
        self.append(scan)
        if readers is not None:
            self.newest = readers[0]


@asynccontextmanager
async def collecting(bus, **settings):
    """Run a collector with short periods; yields it and its scans."""
    scans = Scans()
    collector = Collector(observer(**{"period_ms": 20, **settings}), bus, scans.on_scan, jitter=lambda: 0.0)
    task = asyncio.create_task(collector.run())
    try:
        yield collector, scans
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def until(holds):
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


def payload(sequence, tx_bytes=0):
    return encode([PortSample(port="leaf1:1", timestamp_unix_ns=time.time_ns(), sequence=sequence, tx_bytes=tx_bytes)])


async def test_published_samples_are_in_the_snapshot():
    bus = FakeBus()
    async with collecting(bus) as (collector, scans):
        await collector.connected.wait()
        assert bus.subscriptions == subscriptions("lab")
        bus.publish(LEAF1, payload(1, tx_bytes=77))
        await until(lambda: scans.newest is not None and scans.newest.total[0, 0] == 77)
        seen = scans.newest
    assert seen.heard.tolist() == [True, False, False, False, False]


async def test_messages_are_scanned_long_before_the_period_is_over():
    bus = FakeBus()
    async with collecting(bus, period_ms=60_000) as (collector, scans):
        await collector.connected.wait()
        await asyncio.sleep(0.3)  # scans keep a distance, also from the start
        bus.publish(LEAF1, payload(1))
        await until(lambda: scans)
    assert [scan.samples for scan in scans] == [1]


async def test_scans_run_without_any_message():
    async with collecting(FakeBus()) as (_, scans):
        await until(lambda: len(scans) >= 3)
    assert [scan.number for scan in scans[:3]] == [0, 1, 2]


async def test_a_lost_bus_is_reconnected(caplog):
    bus = FakeBus()
    async with collecting(bus) as (collector, scans):
        await collector.connected.wait()
        bus.publish(LEAF1, payload(1))
        bus.lose()
        await until(lambda: collector.counts.lost_connections)
        await collector.connected.wait()
        bus.publish(LEAF1, payload(2))
        await until(lambda: sum(scan.samples for scan in scans) == 2)
    assert "connection to the broker lost (lost by the test)" in caplog.text


async def test_a_refused_connection_is_retried_and_logged_once(caplog, monkeypatch):
    monkeypatch.setattr(module, "RECONNECT", Backoff(first_s=0.002, max_s=0.01))
    bus = FakeBus()
    bus.refuse = True
    async with collecting(bus) as (collector, _):
        await until(lambda: bus.attempts > 5)
        bus.refuse = False
        await collector.connected.wait()
    assert caplog.text.count("cannot connect") == 1


async def test_messages_beyond_the_queue_are_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(module, "MAX_PENDING_MESSAGES", 10)
    bus = FakeBus()
    async with collecting(bus) as (collector, scans):
        await collector.connected.wait()
        for n in range(25):
            bus.publish(LEAF1, payload(n))
        await until(lambda: sum(scan.samples for scan in scans) == 10)
    assert collector.counts.overflowed_messages == 15
    assert collector.counts.received_messages == 25


async def test_bad_input_is_logged_and_counted(caplog):
    bus = FakeBus()
    async with collecting(bus) as (collector, _):
        await collector.connected.wait()
        for _ in range(5):
            bus.publish(LEAF1, b"\xff\xff")
        await until(lambda: collector.totals().get("malformed") == 5)
        await until(lambda: "switch leaf1: malformed" in caplog.text)


async def test_a_bus_that_is_lost_while_it_is_cancelled_does_not_go_on():
    class Stubborn(FakeBus):
        async def listen(self, *arguments):
            try:
                await super().listen(*arguments)
            except asyncio.CancelledError:
                raise BusConnectionError("no reply to DISCONNECT") from None

    async with collecting(Stubborn()) as (collector, _):
        await collector.connected.wait()


async def test_run_raises_programming_errors():
    class Faulty(FakeBus):
        async def listen(self, *_):
            raise RuntimeError("a fault")

    with pytest.raises(ExceptionGroup):
        await Collector(observer(), Faulty(), lambda *_: None).run()


async def test_samples_pass_a_real_broker():
    with mosquitto() as broker:
        bus = MqttBus(Broker(host="127.0.0.1", port=broker.port))
        async with collecting(bus) as (collector, scans):
            await collector.connected.wait()
            async with aiomqtt.Client("127.0.0.1", broker.port) as agent:
                await agent.publish(status_topic("lab", "a1"), b"online", qos=1, retain=True)
                for n in range(50):
                    await agent.publish(LEAF1, payload(n, tx_bytes=n))
                await agent.publish(ports_topic("other", "leaf1"), payload(1))
                await until(lambda: sum(scan.samples for scan in scans) == 50)
            assert any(status.agent == "a1" for scan in scans for status in scan.agents)
            assert not REFUSALS & set(collector.totals())
            await until(lambda: int(scans.newest.total[0, 0]) == 49)


async def test_the_collector_reconnects_to_a_restarted_broker():
    with mosquitto() as broker:
        bus = MqttBus(Broker(host="127.0.0.1", port=broker.port))
        async with collecting(bus) as (collector, scans):
            for life in range(3):
                await asyncio.wait_for(collector.connected.wait(), TIMEOUT_S)
                async with aiomqtt.Client("127.0.0.1", broker.port) as agent:
                    await agent.publish(LEAF1, payload(10 * life, tx_bytes=life))
                    await until(lambda life=life: sum(scan.samples for scan in scans) == life + 1)
                await asyncio.to_thread(broker.kill)
                await until(lambda: not collector.connected.is_set())
                await asyncio.to_thread(broker.start)
    assert collector.totals()["gap"] == 18
    assert collector.counts.lost_connections >= 3


@pytest.mark.parametrize("callback", ["_on_connect", "_on_subscribe"])
async def test_a_collector_that_is_cancelled_while_the_broker_replies_ends(monkeypatch, callback):
    replied = getattr(aiomqtt.Client, callback)
    with mosquitto() as broker:
        listening = asyncio.create_task(
            MqttBus(Broker(host="127.0.0.1", port=broker.port)).listen(
                subscriptions("lab"), lambda message: None, asyncio.Event()
            )
        )

        def and_cancel(*arguments):
            replied(*arguments)
            asyncio.get_running_loop().call_soon(listening.cancel)

        monkeypatch.setattr(aiomqtt.Client, callback, and_cancel)
        done, _ = await asyncio.wait([listening], timeout=TIMEOUT_S)
    assert done
    assert listening.cancelled()


async def test_the_last_will_of_a_dead_agent_is_received():
    with mosquitto() as broker:
        bus = MqttBus(Broker(host="127.0.0.1", port=broker.port))
        async with collecting(bus) as (collector, scans):
            await collector.connected.wait()
            will = aiomqtt.Will(status_topic("lab", "a1"), b"offline", qos=1, retain=True)
            agent = aiomqtt.Client("127.0.0.1", broker.port, will=will)
            await agent.__aenter__()
            await agent.publish(status_topic("lab", "a1"), b"online", qos=1, retain=True)
            await until(lambda: any(status.online for scan in scans for status in scan.agents))
            connection = agent._client.socket()
            assert isinstance(connection, socket.socket)
            connection.shutdown(socket.SHUT_RDWR)
            await until(lambda: any(not status.online for scan in scans for status in scan.agents))
            with pytest.raises(aiomqtt.MqttError):
                await agent.publish("x", b"")


async def test_a_wrong_password_is_reported_and_never_printed():
    with mosquitto(users={"collector": "right"}) as broker:
        wrong = Broker(host="127.0.0.1", port=broker.port, username="collector", password="wrong")
        with pytest.raises(BusConnectionError, match="uthori"):
            await MqttBus(wrong).listen(subscriptions("lab"), lambda message: None, asyncio.Event())
        assert "wrong" not in repr(wrong)
        right = Broker(host="127.0.0.1", port=broker.port, username="collector", password="right")
        async with collecting(MqttBus(right)) as (collector, _):
            await asyncio.wait_for(collector.connected.wait(), TIMEOUT_S)

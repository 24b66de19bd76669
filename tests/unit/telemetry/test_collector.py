"""The collector on a bus in memory, and on a real mosquitto."""

import asyncio
import socket
import time
from contextlib import asynccontextmanager

import aiomqtt
import pytest

from foundation.backoff import Backoff
from telemetry.collector import collector as module
from telemetry.collector.bus import Broker, BusConnectionError, MqttBus
from telemetry.collector.collector import Collector
from telemetry.detection.window import Notice
from telemetry.samples.sample import PortSample, Refusal, encode
from telemetry.samples.topic import ports_topic, status_topic, subscriptions
from tests.fakes.telemetry.bus import FakeBus
from tests.support.mosquitto import mosquitto
from tests.unit.telemetry.test_observer import LEAF1, observer

PATIENCE_S = 60
REFUSALS = {*Refusal, *Notice}


class Looks(list):
    """Every look, and the newest copy of the windows."""

    newest = None

    def tell(self, look, readers):
        self.append(look)
        if readers is not None:
            self.newest = readers[0]


@asynccontextmanager
async def collecting(bus, **settings):
    """Run a collector with short periods; gives it and its looks."""
    looks = Looks()
    collector = Collector(observer(**{"period_ms": 20, **settings}), bus, looks.tell, jitter=lambda: 0.0)
    task = asyncio.create_task(collector.run())
    try:
        yield collector, looks
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def until(holds):
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


def payload(sequence, tx_bytes=0):
    return encode([PortSample(port="leaf1:1", timestamp_unix_ns=time.time_ns(), sequence=sequence, tx_bytes=tx_bytes)])


async def test_what_comes_over_the_bus_is_in_the_snapshot():
    bus = FakeBus()
    async with collecting(bus) as (collector, looks):
        await collector.connected.wait()
        assert bus.subscriptions == subscriptions("lab")
        bus.say(LEAF1, payload(1, tx_bytes=77))
        await until(lambda: looks.newest is not None and looks.newest.total[0, 0] == 77)
        seen = looks.newest
    assert seen.heard.tolist() == [True, False, False, False, False]


async def test_what_came_is_looked_at_long_before_the_period_is_over():
    bus = FakeBus()
    async with collecting(bus, period_ms=60_000) as (collector, looks):
        await collector.connected.wait()
        await asyncio.sleep(0.3)  # looks keep a distance, also from the start
        bus.say(LEAF1, payload(1))
        await until(lambda: looks)
    assert [look.samples for look in looks] == [1]


async def test_looks_come_without_any_message():
    async with collecting(FakeBus()) as (_, looks):
        await until(lambda: len(looks) >= 3)
    assert [look.number for look in looks[:3]] == [0, 1, 2]


async def test_a_lost_bus_is_connected_again(caplog):
    bus = FakeBus()
    async with collecting(bus) as (collector, looks):
        await collector.connected.wait()
        bus.say(LEAF1, payload(1))
        bus.lose()
        await until(lambda: collector.counts.lost_connections)
        await collector.connected.wait()
        bus.say(LEAF1, payload(2))
        await until(lambda: sum(look.samples for look in looks) == 2)
    assert "the broker is lost (lost by the test)" in caplog.text


async def test_a_bus_that_refuses_is_asked_again_and_told_of_once(caplog, monkeypatch):
    monkeypatch.setattr(module, "RECONNECT", Backoff(first_s=0.002, max_s=0.01))
    bus = FakeBus()
    bus.refuse = True
    async with collecting(bus) as (collector, _):
        await until(lambda: bus.attempts > 5)
        bus.refuse = False
        await collector.connected.wait()
    assert caplog.text.count("no broker") == 1


async def test_what_the_worker_is_too_slow_for_is_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(module, "MAX_PENDING_MESSAGES", 10)
    bus = FakeBus()
    async with collecting(bus) as (collector, looks):
        await collector.connected.wait()
        for n in range(25):
            bus.say(LEAF1, payload(n))
        await until(lambda: sum(look.samples for look in looks) == 10)
    assert collector.counts.overflowed_messages == 15
    assert collector.counts.received_messages == 25


async def test_bad_input_is_logged_and_counted(caplog):
    bus = FakeBus()
    async with collecting(bus) as (collector, _):
        await collector.connected.wait()
        for _ in range(5):
            bus.say(LEAF1, b"\xff\xff")
        await until(lambda: collector.totals().get("malformed") == 5)
        await until(lambda: "switch leaf1: malformed" in caplog.text)


async def test_a_bus_that_is_lost_while_it_is_cancelled_does_not_go_on():
    class Stubborn(FakeBus):
        async def listen(self, *arguments):
            try:
                await super().listen(*arguments)
            except asyncio.CancelledError:
                raise BusConnectionError("no answer to our goodbye") from None

    async with collecting(Stubborn()) as (collector, _):
        await collector.connected.wait()


async def test_a_fault_of_ours_comes_out_of_run():
    class Faulty(FakeBus):
        async def listen(self, *_):
            raise RuntimeError("a fault")

    with pytest.raises(ExceptionGroup):
        await Collector(observer(), Faulty(), lambda *look: None).run()


async def test_samples_pass_a_real_broker():
    with mosquitto() as broker:
        bus = MqttBus(Broker(host="127.0.0.1", port=broker.port))
        async with collecting(bus) as (collector, looks):
            await collector.connected.wait()
            async with aiomqtt.Client("127.0.0.1", broker.port) as agent:
                await agent.publish(status_topic("lab", "a1"), b"online", qos=1, retain=True)
                for n in range(50):
                    await agent.publish(LEAF1, payload(n, tx_bytes=n))
                await agent.publish(ports_topic("other", "leaf1"), payload(1))
                await until(lambda: sum(look.samples for look in looks) == 50)
            assert any(status.agent == "a1" for look in looks for status in look.agents)
            assert not REFUSALS & set(collector.totals())
            await until(lambda: int(looks.newest.total[0, 0]) == 49)


async def test_a_broker_that_dies_and_comes_back_is_found_again():
    with mosquitto() as broker:
        bus = MqttBus(Broker(host="127.0.0.1", port=broker.port))
        async with collecting(bus) as (collector, looks):
            for life in range(3):
                await asyncio.wait_for(collector.connected.wait(), PATIENCE_S)
                async with aiomqtt.Client("127.0.0.1", broker.port) as agent:
                    await agent.publish(LEAF1, payload(10 * life, tx_bytes=life))
                    await until(lambda life=life: sum(look.samples for look in looks) == life + 1)
                await asyncio.to_thread(broker.kill)
                await until(lambda: not collector.connected.is_set())
                await asyncio.to_thread(broker.start)
    assert collector.totals()["gap"] == 18
    assert collector.counts.lost_connections >= 3


async def test_a_will_of_an_agent_that_dies_is_heard():
    with mosquitto() as broker:
        bus = MqttBus(Broker(host="127.0.0.1", port=broker.port))
        async with collecting(bus) as (collector, looks):
            await collector.connected.wait()
            will = aiomqtt.Will(status_topic("lab", "a1"), b"offline", qos=1, retain=True)
            agent = aiomqtt.Client("127.0.0.1", broker.port, will=will)
            await agent.__aenter__()
            await agent.publish(status_topic("lab", "a1"), b"online", qos=1, retain=True)
            await until(lambda: any(status.online for look in looks for status in look.agents))
            connection = agent._client.socket()
            assert isinstance(connection, socket.socket)
            connection.shutdown(socket.SHUT_RDWR)
            await until(lambda: any(not status.online for look in looks for status in look.agents))
            with pytest.raises(aiomqtt.MqttError):
                await agent.publish("x", b"")


async def test_a_wrong_password_is_said_and_never_shown():
    with mosquitto(users={"collector": "right"}) as broker:
        wrong = Broker(host="127.0.0.1", port=broker.port, username="collector", password="wrong")
        with pytest.raises(BusConnectionError, match="uthori"):
            await MqttBus(wrong).listen(subscriptions("lab"), lambda message: None, asyncio.Event())
        assert "wrong" not in repr(wrong)
        right = Broker(host="127.0.0.1", port=broker.port, username="collector", password="right")
        async with collecting(MqttBus(right)) as (collector, _):
            await asyncio.wait_for(collector.connected.wait(), PATIENCE_S)

"""Record the messages of a broker, across its restarts."""

import asyncio
import time
from contextlib import asynccontextmanager, suppress

from heddle.telemetry.collector.bus import Broker, BusConnectionError
from heddle.telemetry.collector.mqtt import MqttBus
from heddle.telemetry.samples.topic import parse, subscriptions
from heddle.v1 import heddle_pb2

TIMEOUT_S = 60


class Heard:
    """The received messages in order; `connected` is set while subscribed."""

    def __init__(self) -> None:
        self.connected = asyncio.Event()
        self.statuses: list[tuple[str, bytes]] = []
        self.samples: list[heddle_pb2.PortSample] = []
        self.topics: set[str] = set()

    def __call__(self, message) -> None:
        topic = parse(message.topic)
        assert topic is not None
        if topic.source == "agent":
            self.statuses.append((topic.name, message.payload))
            return
        self.topics.add(message.topic)
        self.samples.extend(heddle_pb2.PortSampleBatch.FromString(message.payload).samples)

    def of(self, port: str) -> list[heddle_pb2.PortSample]:
        return [sample for sample in self.samples if sample.port == port]

    async def until(self, holds) -> None:
        end = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < end, f"not within {TIMEOUT_S} s; received {len(self.samples)}, {self.statuses}"
            await asyncio.sleep(0.01)


@asynccontextmanager
async def listening(port: int, fabric: str = "lab", **credentials):
    """Subscribe to a fabric's topics at a broker, and reconnect after each loss."""
    heard = Heard()
    bus = MqttBus(Broker(host="127.0.0.1", port=port, **credentials))

    async def listen() -> None:
        while True:
            with suppress(BusConnectionError):
                await bus.listen(subscriptions(fabric), heard, heard.connected)
            heard.connected.clear()
            await asyncio.sleep(0.02)

    task = asyncio.create_task(listen())
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await heard.connected.wait()
        yield heard
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

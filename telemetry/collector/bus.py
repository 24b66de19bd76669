"""The bus as the collector sees it, and MQTT behind it."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import aiomqtt

from telemetry.samples.sample import MAX_PAYLOAD_BYTES

KEEPALIVE_S = 10
CONNECT_S = 5.0
_REFUSED = 128
_QUIET = logging.getLogger("heddle.telemetry.mqtt")


class BusConnectionError(Exception):
    """The broker is away, refuses us, or does not answer; the text says which."""


class Message(NamedTuple):
    """What came over the bus."""

    topic: str
    payload: bytes


class Inlet(Protocol):
    """Where a bus puts messages: called from the loop, must return at once."""

    def __call__(self, message: Message) -> None:
        """Take one message."""


class Bus(Protocol):
    """Something to subscribe to."""

    async def listen(self, subscriptions: Sequence[tuple[str, int]], inlet: Inlet, connected: asyncio.Event) -> None:
        """Connect, subscribe, set `connected` and hand over messages until the bus is lost; raises BusConnectionError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """Where an MQTT broker is and who we are to it; the password never shows."""

    host: str
    port: int = 1883
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None


class MqttBus:
    """An MQTT 3.1.1 broker, one connection per `listen`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def listen(self, subscriptions: Sequence[tuple[str, int]], inlet: Inlet, connected: asyncio.Event) -> None:
        """See Bus."""
        async with self.connection(inlet) as client:
            granted = await client.subscribe(list(subscriptions))
            if any((code if isinstance(code, int) else code.value) >= _REFUSED for code in granted):
                raise BusConnectionError("the broker refuses the subscription: its access rules must let us read")
            connected.set()
            async for _ in client.messages:
                pass  # the inlet has had it already

    @asynccontextmanager
    async def connection(self, inlet: Inlet | None = None) -> AsyncIterator[aiomqtt.Client]:
        """Give a connected client; raises BusConnectionError for whatever MQTT or the network say, also later."""
        broker = self.broker
        try:
            async with aiomqtt.Client(
                broker.host,
                broker.port,
                username=broker.username,
                password=broker.password,
                tls_context=_tls(broker.ca_file),
                keepalive=KEEPALIVE_S,
                timeout=CONNECT_S,
                logger=_QUIET,
                queue_type=_straight_to(inlet) if inlet else None,
                max_queued_outgoing_messages=10_000,
            ) as client:
                yield client
        except (aiomqtt.MqttError, OSError) as lost:
            raise BusConnectionError(str(lost) or type(lost).__name__) from None


def _tls(ca_file: Path | None) -> ssl.SSLContext | None:
    return ssl.create_default_context(cafile=str(ca_file)) if ca_file else None


def _straight_to(inlet: Inlet) -> type[asyncio.Queue[aiomqtt.Message]]:
    """Return a queue for aiomqtt that holds nothing: a message goes to the inlet, which bounds what waits.

    aiomqtt's own queue is bounded by number alone, and each message in it costs a task.
    """

    class Straight(asyncio.Queue[aiomqtt.Message]):
        def put_nowait(self, item: aiomqtt.Message) -> None:
            payload = item.payload
            if isinstance(payload, bytes | bytearray):
                # One byte past the limit is enough to be refused as oversized; the rest need not wait in memory.
                inlet(Message(str(item.topic), bytes(payload[: MAX_PAYLOAD_BYTES + 1])))

    return Straight

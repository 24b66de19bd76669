"""The collector's message bus by MQTT."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiomqtt

from heddle.telemetry.collector.bus import Broker, BusConnectionError, Inlet, Message
from heddle.telemetry.samples.sample import MAX_PAYLOAD_BYTES

KEEPALIVE_S = 10
CONNECT_TIMEOUT_S = 5.0
_REFUSED = 128
_QUIET = logging.getLogger("heddle.telemetry.mqtt")


class MqttBus:
    """A bus over an MQTT 3.1.1 broker, one connection per `listen`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def listen(self, subscriptions: Sequence[tuple[str, int]], inlet: Inlet, connected: asyncio.Event) -> None:
        """See Bus."""
        async with self.connection(inlet) as client:
            granted = await client.subscribe(list(subscriptions))
            _raise_if_cancelled()
            if any((code if isinstance(code, int) else code.value) >= _REFUSED for code in granted):
                raise BusConnectionError("the broker refuses the subscription: its access rules must allow reading")
            connected.set()
            async for _ in client.messages:
                pass  # the queue has passed it to the inlet already

    @asynccontextmanager
    async def connection(self, inlet: Inlet | None = None) -> AsyncIterator[aiomqtt.Client]:
        """Yield a connected client; raises BusConnectionError for any MQTT or network error, also inside the block."""
        broker, context = self.broker, _context(self.broker)
        try:
            async with aiomqtt.Client(
                broker.host,
                broker.port,
                username=broker.username,
                password=broker.password,
                tls_context=context,
                keepalive=KEEPALIVE_S,
                timeout=CONNECT_TIMEOUT_S,
                logger=_QUIET,
                queue_type=_queue_class(inlet) if inlet else None,
                max_queued_outgoing_messages=10_000,
            ) as client:
                _raise_if_cancelled()
                yield client
        except (aiomqtt.MqttError, OSError) as lost:
            raise BusConnectionError(str(lost) or type(lost).__name__) from None


def _raise_if_cancelled() -> None:
    """Raise CancelledError again where aiomqtt lost it: `wait_for` of Python 3.11 drops one that meets a result."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _context(broker: Broker) -> ssl.SSLContext | None:
    """Return the TLS of one connection, with the files as they are now; raises BusConnectionError."""
    try:
        return broker.tls.context() if broker.tls is not None else None
    except (OSError, ValueError) as fault:
        raise BusConnectionError(f"the certificate for the broker cannot be used: {fault}") from None


def _queue_class(inlet: Inlet) -> type[asyncio.Queue[aiomqtt.Message]]:
    """Return a queue class for aiomqtt that stores nothing and passes each message to the inlet.

    The inlet bounds the pending bytes. aiomqtt's own queue bounds the number of messages only, and costs a task each.
    """

    class PassOn(asyncio.Queue[aiomqtt.Message]):
        def put_nowait(self, item: aiomqtt.Message) -> None:
            payload = item.payload
            if isinstance(payload, bytes | bytearray):
                # One byte past the limit suffices for the decoder to refuse it; the rest would only use memory.
                inlet(Message(str(item.topic), bytes(payload[: MAX_PAYLOAD_BYTES + 1])))

    return PassOn

"""The agent's MQTT session: reconnect when needed, publish `online` while connected, and publish the outbox.

The broker publishes `offline` as the last will if the agent ends without doing so. Samples are sent with quality of
service 0. The session waits until the kernel has accepted a batch; meanwhile newer samples replace those in the outbox.
"""

import asyncio
import logging
import random
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiomqtt
from paho.mqtt import client as mqtt

from heddle.foundation.backoff import Backoff
from heddle.telemetry.agent.outbox import Outbox
from heddle.telemetry.broker_tls import BrokerTls
from heddle.telemetry.complaint import Complaints
from heddle.telemetry.samples.sample import MAX_PAYLOAD_BYTES, PortSample, encode
from heddle.telemetry.samples.topic import OFFLINE, ONLINE

log = logging.getLogger(__name__)

_QUIET = logging.getLogger(f"{__name__}.mqtt")
_QUIET.setLevel(logging.CRITICAL)  # paho raises the same faults, which are logged once

KEEPALIVE_S = 5  # a broker silent for this long is lost; it publishes our last will after 1.5 times this
TIMEOUT_S = 3.0  # for a reply, and for a message to enter the socket buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """Address of an MQTT broker and the credentials for it."""

    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: BrokerTls | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class BrokerSession:
    """Publish an outbox until `end`; `messages`, `samples` and `connects` are cumulative counts."""

    def __init__(self, broker: Broker, identifier: str, status_topic: str, outbox: Outbox) -> None:
        self._broker = broker
        self._identifier = identifier
        self._status_topic = status_topic
        self._outbox = outbox
        self._offered = asyncio.Event()
        self._ended = asyncio.Event()
        self._backoff = Backoff()
        self._complaints = Complaints()
        self.messages = self.samples = self.connects = 0

    def offered(self) -> None:
        """Signal that the outbox has new samples."""
        self._offered.set()

    def end(self) -> None:
        """Make `run` publish `offline` and return."""
        self._ended.set()

    async def run(self) -> None:
        """Connect and publish, and reconnect after a loss, until `end`."""
        attempt = 1
        while not self._ended.is_set():
            held_s = 0.0
            client: _Client | None = None
            try:
                client = self._client()
                async with client:
                    began_s = time.monotonic()
                    try:
                        await self._publish_until_ended(client)
                    finally:
                        held_s = time.monotonic() - began_s
            except aiomqtt.MqttError as fault:
                self._complain(fault)
            finally:
                if client is not None:
                    client.abandon()
            attempt = self._backoff.next_attempt(attempt, held_s)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._backoff.delay_s(attempt, random.random()))

    def _client(self) -> "_Client":
        """Return a client for one connection, with the certificate as its file is now; raises MqttError."""
        tls = self._broker.tls
        try:
            context = tls.context() if tls is not None else None
        except (OSError, ValueError) as fault:
            raise aiomqtt.MqttError(f"the certificate cannot be used: {fault}") from None
        return _Client(
            self._broker.host,
            self._broker.port,
            username=self._broker.user,
            password=self._broker.password,
            tls_context=context,
            identifier=self._identifier,
            will=aiomqtt.Will(self._status_topic, OFFLINE, qos=1, retain=True),
            keepalive=KEEPALIVE_S,
            timeout=TIMEOUT_S,
            logger=_QUIET,
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],  # do not delay small messages (Nagle)
        )

    async def _publish_until_ended(self, client: "_Client") -> None:
        tasks = [asyncio.create_task(work) for work in (self._publish(client), _lost(client), self._ended.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancelled(tasks)
        raise_first(tasks)
        await client.publish(self._status_topic, OFFLINE, qos=1, retain=True)

    async def _publish(self, client: "_Client") -> None:
        await client.publish(self._status_topic, ONLINE, qos=1, retain=True)
        self.connects += 1
        log.info("connected to %s", self._broker)
        while True:
            self._offered.clear()
            await self._send_waiting(client)
            await self._offered.wait()

    async def _send_waiting(self, client: "_Client") -> None:
        batches = list(iter(self._outbox.take, None))
        messages = [Message(topic, part, data) for topic, samples in batches for part, data in payloads(samples)]
        sent: list[mqtt.MQTTMessageInfo] = []
        try:
            await client.send(messages, sent)
        finally:
            for at, message in enumerate(messages):
                if at < len(sent) and sent[at].rc == mqtt.MQTT_ERR_SUCCESS and sent[at].is_published():
                    self.messages += 1
                    self.samples += len(message.samples)
                else:
                    self._outbox.put_back(message.topic, message.samples)

    def _complain(self, fault: aiomqtt.MqttError) -> None:
        self._complaints.add("connection_lost", f"broker {self._broker}", str(fault) or type(fault).__name__)
        for complaint in self._complaints.due(time.monotonic_ns()):
            log.warning("%s", complaint)


class Message(NamedTuple):
    """One message of samples to send."""

    topic: str
    samples: Sequence[PortSample]
    payload: bytes


def payloads(samples: Sequence[PortSample]) -> Iterator[tuple[Sequence[PortSample], bytes]]:
    """Yield samples with their encoding, split in halves until each message is within the contract's size limit."""
    payload = encode(samples)
    if len(payload) <= MAX_PAYLOAD_BYTES or len(samples) == 1:
        yield samples, payload
        return
    half = len(samples) // 2
    yield from payloads(samples[:half])
    yield from payloads(samples[half:])


async def cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks until all have ended: `wait_for` of Python 3.11 may swallow the first cancellation."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=0.1)


def raise_first(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Raise the exception of the first failed task, if any; mark those of the others as retrieved."""
    faults = [task.exception() for task in tasks if not task.cancelled()]
    for fault in faults:
        if fault is not None:
            raise fault


class _Client(aiomqtt.Client):
    """An aiomqtt client for one connection that releases its socket and lock after any failure.

    When a broker dies, paho registers its socket for writing, fails and closes it in one call. The loop handles the
    registration afterwards: it logs an error or watches a descriptor that now belongs to another file. This class
    therefore checks at registration that the socket is still open. When a broker hangs, a client that cannot
    disconnect would keep its socket and lock; `abandon` closes them.
    """

    async def send(self, messages: Sequence[Message], sent: list[mqtt.MQTTMessageInfo]) -> None:
        """Publish messages with QoS 0 and wait until the kernel has the last one; fill `sent` with their states.

        Messages leave in order, so one wait suffices; a wait for each would dominate the cost of the agent.
        """
        for message in messages[:-1]:
            sent.append(self._client.publish(message.topic, message.payload, 0))
            if sent[-1].rc != mqtt.MQTT_ERR_SUCCESS:
                raise aiomqtt.MqttCodeError(sent[-1].rc, "could not publish")
        for message in messages[-1:]:
            sent.append(info := self._client.publish(message.topic, message.payload, 0))
            await self._written(info)

    async def _written(self, info: mqtt.MQTTMessageInfo) -> None:
        if info.rc != mqtt.MQTT_ERR_SUCCESS:
            raise aiomqtt.MqttCodeError(info.rc, "could not publish")
        if not info.is_published():
            written = asyncio.Event()
            with self._pending_call(info.mid, written, self._pending_publishes):
                await self._wait_for(written.wait(), timeout=None)

    def abandon(self) -> None:
        """Close the socket if it is still open."""
        self._client._sock_close()  # paho's public methods wait for the broker

    def _on_socket_register_write(self, client: Any, userdata: Any, sock: Any) -> None:
        def write() -> None:
            try:
                client.loop_write()
            except Exception as fault:
                if not self._disconnected.done():
                    self._disconnected.set_exception(fault)

        def watch() -> None:
            if sock.fileno() >= 0:
                self._loop.add_writer(sock.fileno(), write)

        self._loop.call_soon_threadsafe(watch)  # may run in the connecting thread


async def _lost(client: aiomqtt.Client) -> None:
    """Raise MqttError when the connection is lost, also while nothing is published."""
    async for _ in client.messages:
        pass

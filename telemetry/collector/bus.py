"""The collector's interface to the message bus; what implements it by MQTT is imported where a broker is used."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from heddle.telemetry.broker_tls import BrokerTls


class BusConnectionError(Exception):
    """The broker is unreachable, refuses the connection, or does not reply; the text gives the reason."""


class Message(NamedTuple):
    """A received message."""

    topic: str
    payload: bytes


class Inlet(Protocol):
    """A callback for received messages; the event loop calls it, so it must not block."""

    def __call__(self, message: Message) -> None:
        """Accept one message."""


class Bus(Protocol):
    """A message bus that topics can be subscribed on."""

    async def listen(self, subscriptions: Sequence[tuple[str, int]], inlet: Inlet, connected: asyncio.Event) -> None:
        """Connect, subscribe, set `connected`, pass messages on until the bus is lost; raises BusConnectionError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """Address of an MQTT broker and the credentials for it; the password is not part of the repr."""

    host: str
    port: int = 1883
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: BrokerTls | None = None

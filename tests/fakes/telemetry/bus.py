"""A message bus in memory; the test publishes messages and ends the connection."""

import asyncio

from heddle.telemetry.collector.bus import BusConnectionError, Message


class FakeBus:
    """A `Bus` for the collector. With `refuse` set connections fail; `lose` ends the current one."""

    def __init__(self) -> None:
        self.refuse = False
        self.attempts = 0
        self.subscriptions = ()
        self._inlet = None
        self._lost = asyncio.Event()

    async def listen(self, subscriptions, inlet, connected):
        self.attempts += 1
        if self.refuse:
            raise BusConnectionError("refused by the test")
        self._lost.clear()
        self.subscriptions, self._inlet = subscriptions, inlet
        connected.set()
        await self._lost.wait()
        self._inlet = None
        raise BusConnectionError("lost by the test")

    def publish(self, topic: str, payload: bytes) -> None:
        """Pass a message to the subscriber."""
        assert self._inlet is not None, "no subscriber is connected"
        self._inlet(Message(topic, payload))

    def lose(self) -> None:
        """End the connection."""
        self._lost.set()

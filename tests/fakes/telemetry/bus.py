"""A bus in memory: what a test says comes, and it is lost when a test says so."""

import asyncio

from telemetry.collector.bus import BusConnectionError, Message


class FakeBus:
    """The collector's Bus. `refuse` lets connections fail; `lose` ends the one that stands."""

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

    def say(self, topic: str, payload: bytes) -> None:
        """Let a message come."""
        assert self._inlet is not None, "nobody is connected"
        self._inlet(Message(topic, payload))

    def lose(self) -> None:
        """End the connection."""
        self._lost.set()

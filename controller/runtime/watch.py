"""Deliver values to readers: bounded queues, one per reader, and a cell that holds the newest value."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

Value = TypeVar("Value")
MAX_WAITING = 256
MAX_WATCHERS = 1024
MAX_WATCHERS_OF_A_PEER = 768
PEER_PER_FREE = 3
"""A peer has up to so many for each that is free: the rest is for others, however many peers have as many as may be."""


class TooManyWatchersError(Exception):
    """The limit of concurrent watchers is reached."""


def refuse_more(watchers: Counter[str], peer: str) -> None:
    """Raise TooManyWatchersError where a peer, or all together, have as many watchers as may be."""
    free = MAX_WATCHERS - watchers.total()
    if free <= 0:
        raise TooManyWatchersError(f"{MAX_WATCHERS} watchers are open already")
    if peer and watchers[peer] >= min(MAX_WATCHERS_OF_A_PEER, PEER_PER_FREE * free):
        raise TooManyWatchersError(f"{peer} has {watchers[peer]} watchers open already")


class Watch(Generic[Value]):
    """One reader's queue. `skipped` counts the values that it was too slow for."""

    def __init__(self, peer: str = "") -> None:
        self.peer = peer
        self._waiting: deque[Value] = deque(maxlen=MAX_WAITING)
        self._arrived = asyncio.Event()
        self.skipped = 0

    def put(self, value: Value) -> None:
        """Append a value; the oldest is discarded where the queue is full."""
        if len(self._waiting) == MAX_WAITING:
            self.skipped += 1
        self._waiting.append(value)
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[Value]:
        while True:
            await self._arrived.wait()
            while self._waiting:
                yield self._waiting.popleft()
            self._arrived.clear()


class Watchers(Generic[Value]):
    """All readers of one kind of value; each reads the values of one key."""

    def __init__(self) -> None:
        self._by_key: dict[str, set[Watch[Value]]] = {}
        self._peers: Counter[str] = Counter()

    def open(self, key: str, peer: str = "") -> Watch[Value]:
        """Add a reader; `peer` names whose it is, "" this program's. Raises TooManyWatchersError past the limits."""
        refuse_more(self._peers, peer)
        watch: Watch[Value] = Watch(peer)
        self._by_key.setdefault(key, set()).add(watch)
        self._peers[peer] += 1
        return watch

    def close(self, key: str, watch: Watch[Value]) -> None:
        """Remove a reader."""
        readers = self._by_key.get(key, set())
        if watch in readers:
            readers.remove(watch)
            self._peers -= Counter((watch.peer,))  # drops what is zero
        if not readers:
            self._by_key.pop(key, None)

    def publish(self, key: str, value: Value) -> None:
        """Append a value to the queue of every reader of the key."""
        for watch in self._by_key.get(key, ()):
            watch.put(value)


class Newest(Generic[Value]):
    """A cell with the newest value, numbered from 1: a reader gets the newest, and sees how many it missed."""

    def __init__(self) -> None:
        self.value: Value | None = None
        self.number = 0
        self._replaced = asyncio.Event()

    def put(self, value: Value) -> None:
        """Replace the value and wake waiting readers."""
        self.value, self.number = value, self.number + 1
        replaced, self._replaced = self._replaced, asyncio.Event()
        replaced.set()

    async def after(self, number: int) -> tuple[int, Value]:
        """Return the newest number and value, as soon as the number is greater than `number`."""
        while self.value is None or self.number <= number:
            await self._replaced.wait()
        return self.number, self.value

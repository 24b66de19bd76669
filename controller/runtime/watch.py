"""Watchers: bounded queues of news, one per reader, a slow one skips to the newest; and a board of the newest alone."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

News = TypeVar("News")
MAX_WAITING = 256
MAX_WATCHERS = 1024


class TooManyWatchersError(Exception):
    """The limit on watchers is reached."""


class Watch(Generic[News]):
    """One reader's queue. `skipped` counts what it was too slow for."""

    def __init__(self) -> None:
        self._waiting: deque[News] = deque(maxlen=MAX_WAITING)
        self._arrived = asyncio.Event()
        self.skipped = 0

    def put(self, news: News) -> None:
        """Add news; the oldest goes where the reader is too slow."""
        if len(self._waiting) == MAX_WAITING:
            self.skipped += 1
        self._waiting.append(news)
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[News]:
        while True:
            await self._arrived.wait()
            while self._waiting:
                yield self._waiting.popleft()
            self._arrived.clear()


class Watchers(Generic[News]):
    """All readers of one kind of news, each under a key of its own choice."""

    def __init__(self) -> None:
        self._by_key: dict[str, set[Watch[News]]] = {}
        self._count = 0

    def open(self, key: str) -> Watch[News]:
        """Start a reader; raises TooManyWatchersError past the limit."""
        if self._count >= MAX_WATCHERS:
            raise TooManyWatchersError(f"{MAX_WATCHERS} watchers are open already")
        watch: Watch[News] = Watch()
        self._by_key.setdefault(key, set()).add(watch)
        self._count += 1
        return watch

    def close(self, key: str, watch: Watch[News]) -> None:
        """End a reader."""
        readers = self._by_key.get(key, set())
        if watch in readers:
            readers.remove(watch)
            self._count -= 1
        if not readers:
            self._by_key.pop(key, None)

    def publish(self, key: str, news: News) -> None:
        """Give news to every reader of the key."""
        for watch in self._by_key.get(key, ()):
            watch.put(news)


class Newest(Generic[News]):
    """A board with one piece of news, numbered from 1; readers of any speed see the newest, and what they missed."""

    def __init__(self) -> None:
        self.value: News | None = None
        self.number = 0
        self._replaced = asyncio.Event()

    def put(self, news: News) -> None:
        """Replace the news and wake whoever waits."""
        self.value, self.number = news, self.number + 1
        replaced, self._replaced = self._replaced, asyncio.Event()
        replaced.set()

    async def after(self, number: int) -> tuple[int, News]:
        """Return the newest with its number, as soon as that is greater than `number`."""
        while self.value is None or self.number <= number:
            await self._replaced.wait()
        return self.number, self.value

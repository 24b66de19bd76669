"""Record the events of the southbound, and wait for one."""

import asyncio
from collections.abc import Callable
from typing import Any


class RecordedEvents:
    """A `SouthboundEvents` that keeps every event as (name, *arguments) in `all`."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []
        self._changed = asyncio.Event()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def record(*arguments: object) -> bool:
            self.all.append((name, *arguments))
            self._changed.set()
            return True

        return record

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of every event of this name."""
        return [event[1:] for event in self.all if event[0] == name]

    async def wait_for(self, *wanted: object, timeout_s: float = 30.0) -> tuple[Any, ...]:
        """Wait for the next event that begins with `wanted`, remove it from `all`, and return it."""
        async with asyncio.timeout(timeout_s):
            while True:
                for event in self.all:
                    if event[: len(wanted)] == wanted:
                        self.all.remove(event)
                        return event
                self._changed.clear()
                await self._changed.wait()

"""Tasks of the controller that run beside its loop until they are closed."""

import asyncio
import logging
from collections.abc import Coroutine

_LOG = logging.getLogger("heddle.controller")


class Background:
    """Tasks that no one awaits: one that ends by a fault is logged, and the controller goes on without it."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, *coroutines: Coroutine[None, None, None]) -> None:
        """Run each in a task of its own."""
        for coroutine in coroutines:
            task = asyncio.create_task(coroutine)
            task.add_done_callback(_log_fault)
            self._tasks.append(task)

    async def close(self) -> None:
        """Cancel the tasks, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _log_fault(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        _LOG.error("%s has ended by a fault; the controller goes on without it", task.get_coro(), exc_info=fault)

"""Run work on frozen values in threads: encoding 10,000 flows takes a third of a second.

The threads share the interpreter with the event loop, so there are few of them: each that computes delays the loop by
up to the interpreter's switch interval whenever the loop continues. Callers take turns, so that the work for one waits
for a piece of each other caller's at most, whatever the number of their calls.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar
from weakref import WeakKeyDictionary

from heddle.controller.model.error import BudgetExceededError
from heddle.controller.runtime.limits.fair_turns import FairTurns, NoRoomError, Place
from heddle.controller.runtime.limits.limited import Limit

Result = TypeVar("Result")
SMALL_BYTES = 1_024
"""A request up to this size is read in the event loop, in less than a millisecond."""
MAX_LARGE_REQUESTS = 16
"""The maximum number of larger requests of all callers that wait or are being read."""

TURNS = 2
"""One piece of work runs in the thread, and the next is there when it ends."""
MAX_KEPT_BYTES = 16 << 20

_WRITERS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="api")
_NO_ONE = Place()
_PLACE: ContextVar[Place] = ContextVar("place", default=_NO_ONE)
_TURNS: "WeakKeyDictionary[asyncio.AbstractEventLoop, FairTurns]" = WeakKeyDictionary()


def begin_work(place: Place) -> None:
    """Set whose turn the work of this task takes."""
    _PLACE.set(place)


async def in_worker(write: Callable[..., Result], *values: object) -> Result:
    """Call `write` in a thread, in the caller's turn; it may read frozen values only."""
    running = asyncio.get_running_loop()
    async with _TURNS.setdefault(running, FairTurns(TURNS)).turn(_PLACE.get()):
        return await running.run_in_executor(_WRITERS, write, *values)


class Replies:
    """The newest replies of a method as bytes, by what was requested. Only work in the thread may use it.

    They are kept as long as the frozen values that they are made of are the newest, and up to MAX_KEPT_BYTES.
    """

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = ()
        self._kept: dict[Hashable, bytes] = {}
        self._size = 0

    def reply(self, basis: tuple[object, ...], key: Hashable, write: Callable[[], bytes]) -> bytes:
        """Return the reply to `key` of these values, which `write` makes where none is kept."""
        if len(basis) != len(self._basis) or any(a is not b for a, b in zip(basis, self._basis, strict=True)):
            self._basis, self._kept, self._size = basis, {}, 0
        found = self._kept.get(key)
        if found is None:
            found = write()
            if self._size + len(found) <= MAX_KEPT_BYTES:
                self._kept[key] = found
                self._size += len(found)
        return found


class RequestReader:
    """Reads requests: small ones at once, large ones one after the other in a thread of its own, in callers' turns.

    Where MAX_LARGE_REQUESTS wait, the newest one of the caller with the most gives way to one of a caller with fewer.
    """

    def __init__(self, limited: Counter[Limit]) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="requests")
        self._turns, self._limited = FairTurns(1, MAX_LARGE_REQUESTS - 1), limited

    async def read(self, read: Callable[..., Result], data: bytes, *values: object) -> Result:
        """Call `read` with the bytes of a request and frozen values; BudgetExceededError where too many wait."""
        if len(data) <= SMALL_BYTES:
            return read(data, *values)
        try:
            async with self._turns.turn(_PLACE.get()):
                return await asyncio.get_running_loop().run_in_executor(self._thread, read, data, *values)
        except NoRoomError:
            self._limited[Limit.LARGE_REQUESTS] += 1
            raise BudgetExceededError(
                f"{MAX_LARGE_REQUESTS} requests of more than {SMALL_BYTES:,} bytes are being read already; try again"
            ) from None

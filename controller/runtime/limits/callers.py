"""Limit the calls, streams and unread replies of each caller of the gRPC API, so that none takes the place of others.

A caller's calls begin in turns: up to `in_progress` at a time, the others wait in their order. So a burst of one caller
delays that caller alone. What would take memory without a bound is refused: calls beyond the rate or the waiting ones,
streams, and replies that the caller does not read.

All callers together have a bound too. The more of it is in use, the less each may have: no more than what is free
(Choudhury and Hahne, "Dynamic queue length thresholds", 1998). So n callers without an end leave a part in n + 1 free,
and one that has nothing in progress always has room.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from math import ceil

from heddle.controller.model.call_limits import CallLimits
from heddle.controller.model.error import BudgetExceededError
from heddle.controller.runtime.limits.limited import Limit
from heddle.controller.runtime.limits.log_limit import Allowance

MAX_CALLERS = 4_096
"""The callers that are remembered; of those without a call the one that was silent for the longest is forgotten."""
SHARES = 8
"""All callers together have as many calls, streams and unread replies as so many callers may have."""
MIN_RETRY_MS = 100


class TooManyCallsError(BudgetExceededError):
    """The caller has used up its rate; `after_ms` says when to try again."""

    def __init__(self, text: str, after_ms: int) -> None:
        super().__init__(text)
        self.after_ms = after_ms


class _Caller:
    """What one caller has in progress."""

    __slots__ = ("calls", "rate", "streams", "turns", "unread_bytes")

    def __init__(self, limits: CallLimits, now_s: float) -> None:
        self.rate = Allowance(limits.burst, now_s)
        self.turns = asyncio.Semaphore(limits.in_progress)
        self.calls = self.streams = self.unread_bytes = 0


class Callers:
    """The callers of one server; `refused` counts by limit."""

    def __init__(
        self, limits: CallLimits, refused: Counter[Limit], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits, self._refused, self._monotonic_s = limits, refused, monotonic_s
        self._known: OrderedDict[str, _Caller] = OrderedDict()
        self._calls = self._streams = self._unread_bytes = 0

    async def begin_call(self, name: str, *, takes_turn: bool = True) -> Callable[[], None]:
        """Wait for the caller's turn; return what ends the call. Raises BudgetExceededError, TooManyCallsError.

        A call that waits for other calls of the caller takes no turn: it would wait for those behind it.
        """
        caller, limits = self._caller(name), self._limits
        self._take_token(caller, name)
        limit = limits.in_progress + limits.waiting
        if caller.calls >= limit:
            raise self._refusal(Limit.CALLS, f"{caller.calls:,} calls of {name} are in progress or wait already")
        if caller.calls >= SHARES * limit - self._calls:
            raise self._refusal(Limit.CALLS, f"{self._calls:,} calls are in progress or wait already")
        self._count_call(caller, 1)
        try:
            if takes_turn:
                await caller.turns.acquire()
        except BaseException:
            self._count_call(caller, -1)
            raise

        def end() -> None:
            self._count_call(caller, -1)
            if takes_turn:
                caller.turns.release()

        return end

    def begin_stream(self, name: str) -> Callable[[], None]:
        """Count a stream; return what ends it. Raises BudgetExceededError, TooManyCallsError."""
        caller, limit = self._caller(name), self._limits.streams
        self._take_token(caller, name)
        if caller.streams >= limit:
            raise self._refusal(Limit.STREAMS, f"{name} has {limit:,} streams open already")
        if caller.streams >= SHARES * limit - self._streams:
            raise self._refusal(Limit.STREAMS, f"{self._streams:,} streams are open already")
        caller.streams += 1
        self._streams += 1

        def end() -> None:
            caller.streams -= 1
            self._streams -= 1

        return end

    def send(self, name: str, size_bytes: int) -> Callable[[], None]:
        """Count a reply until the caller has read it; return what ends that. Raises BudgetExceededError.

        One reply of a caller may wait to be read, whatever its size, as far as there is room for all.
        """
        caller, limit = self._caller(name), self._limits.unread_bytes
        if caller.unread_bytes and caller.unread_bytes + size_bytes > limit:
            raise self._refusal(Limit.UNREAD, f"{name} has not read {caller.unread_bytes:,} bytes of replies")
        free = SHARES * limit - self._unread_bytes
        if self._unread_bytes and caller.unread_bytes + size_bytes > free:
            raise self._refusal(Limit.UNREAD, f"callers have not read {self._unread_bytes:,} bytes of replies")
        caller.unread_bytes += size_bytes
        self._unread_bytes += size_bytes

        def read() -> None:
            caller.unread_bytes -= size_bytes
            self._unread_bytes -= size_bytes

        return read

    def _count_call(self, caller: _Caller, change: int) -> None:
        caller.calls += change
        self._calls += change

    def _take_token(self, caller: _Caller, name: str) -> None:
        rate, limits = caller.rate, self._limits
        rate.refill(limits.burst, limits.per_second, self._monotonic_s())
        if rate.tokens < 1:
            self._refused[Limit.RATE] += 1
            after_ms = max(MIN_RETRY_MS, ceil((1 - rate.tokens) / limits.per_second * 1000))
            text = f"{name} has made more than {limits.per_second:,} calls a second; try again in {after_ms} ms"
            raise TooManyCallsError(text, after_ms)
        rate.tokens -= 1

    def _refusal(self, limit: Limit, text: str) -> BudgetExceededError:
        self._refused[limit] += 1
        return BudgetExceededError(f"{text}; try again when some of them have ended")

    def _caller(self, name: str) -> _Caller:
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= MAX_CALLERS:
                self._forget_one()
            found = self._known[name] = _Caller(self._limits, self._monotonic_s())
        self._known.move_to_end(name)
        return found

    def _forget_one(self) -> None:
        for name, caller in self._known.items():
            if not (caller.calls or caller.streams or caller.unread_bytes):
                del self._known[name]
                return

"""What one caller has in progress leaves room for others."""

import asyncio
from collections import Counter

import pytest

from heddle.controller.model.call_limits import CallLimits
from heddle.controller.model.error import BudgetExceededError
from heddle.controller.runtime.limits import callers as module
from heddle.controller.runtime.limits.callers import Callers, TooManyCallsError
from heddle.controller.runtime.limits.limited import Limit

LIMITS = CallLimits(per_second=10, burst=100, in_progress=2, waiting=3, streams=2, unread_bytes=1_000)


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def refused():
    return Counter()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def callers(refused, clock):
    return Callers(LIMITS, refused, clock)


async def test_calls_beyond_those_in_progress_begin_in_order_as_others_end(callers):
    ends = [await callers.begin_call("a") for _ in range(2)]
    waiting = [asyncio.create_task(callers.begin_call("a")) for _ in range(3)]
    other = await callers.begin_call("b")
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    ends[0]()
    assert await waiting[0]
    assert not waiting[1].done()
    other()
    waiting[1].cancel()
    ends[1]()
    assert await waiting[2]


async def test_calls_beyond_the_waiting_ones_are_refused_and_counted(callers, refused):
    tasks = [asyncio.create_task(callers.begin_call("a")) for _ in range(5)]
    await asyncio.sleep(0)
    with pytest.raises(BudgetExceededError, match="5 calls of a are in progress or wait already"):
        await callers.begin_call("a")
    assert refused[Limit.CALLS] == 1
    tasks[4].cancel()
    await asyncio.gather(tasks[4], return_exceptions=True)
    tasks.append(asyncio.create_task(callers.begin_call("a")))
    await asyncio.sleep(0)
    assert not tasks[-1].done()
    for task in tasks[2:]:
        task.cancel()


async def test_a_caller_beyond_its_rate_is_refused_until_the_named_time(refused, clock):
    callers = Callers(LIMITS._replace(burst=3), refused, clock)
    for _ in range(3):
        (await callers.begin_call("a"))()
    with pytest.raises(TooManyCallsError, match="a has made more than 10 calls a second; try again in 100 ms") as late:
        await callers.begin_call("a")
    (await callers.begin_call("b"))()
    clock.now_s += late.value.after_ms / 1000
    (await callers.begin_call("a"))()
    assert refused == {Limit.RATE: 1}


async def test_streams_of_a_caller_and_of_all_are_bounded(callers, refused):
    ends = [callers.begin_stream("a") for _ in range(2)]
    with pytest.raises(BudgetExceededError, match="a has 2 streams open already"):
        callers.begin_stream("a")
    ends.pop()()
    callers.begin_stream("a")
    for number in range(2 * module.SHARES - 2):
        callers.begin_stream(f"other {number}")
    with pytest.raises(BudgetExceededError, match="16 streams are open already"):
        callers.begin_stream("late")
    assert refused[Limit.STREAMS] == 2


async def test_replies_that_a_caller_does_not_read_are_bounded_but_one_may_be_large(callers, refused):
    read = callers.send("a", 5_000)
    with pytest.raises(BudgetExceededError, match="a has not read 5,000 bytes of replies"):
        callers.send("a", 1)
    callers.send("b", 900)
    read()
    callers.send("a", 1_000)
    assert refused == {Limit.UNREAD: 1}


async def test_the_callers_that_are_remembered_are_bounded_and_the_busy_ones_stay(monkeypatch, callers):
    monkeypatch.setattr(module, "MAX_CALLERS", 3)
    callers.begin_stream("busy")
    for number in range(10):
        (await callers.begin_call(f"{number}"))()
    assert len(callers._known) == 3
    assert "busy" in callers._known


@pytest.mark.parametrize("others", [1, 3, 8, 20])
async def test_one_with_nothing_in_progress_has_room_beside_any_callers_that_take_all_they_get(others, clock):
    callers = Callers(LIMITS._replace(streams=40, in_progress=40, waiting=0, burst=10**6), Counter(), clock)

    async def call(name):
        return await callers.begin_call(name)

    async def stream(name):
        return callers.begin_stream(name)

    async def reply(name):
        return callers.send(name, 25)

    for take in (call, stream, reply):
        taken = Counter()
        for _ in range(40):
            for number in range(others):
                try:
                    await take(f"other {number}")
                    taken[number] += 1
                except BudgetExceededError:
                    continue
        await take("late")
        assert max(taken.values()) - min(taken.values()) <= 1 + max(taken.values()) // 5

"""The planner's processes: they plan as one planner in this process does, and nothing urgent waits for them."""

import asyncio
import gc
import os
import signal
import threading
from dataclasses import replace

import pytest
import pytest_asyncio

from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.effect import Place, Solve
from heddle.controller.model.error import BudgetExceededError, InputError, UnavailableError
from heddle.controller.model.health import Health
from heddle.controller.model.job import Steering
from heddle.controller.model.moves import MAX_MOVES, MoveLimit, Whose
from heddle.controller.model.placement import Shape
from heddle.controller.model.plan import Amend, Replan
from heddle.controller.runtime.planning import pool as module
from heddle.controller.runtime.planning.pool import Limits, PlannerPool
from heddle.controller.runtime.planning.worker import WorkerLostError
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.fabrics.other_ports import with_other_ports
from tests.unit.brain.driver import shift_job, small_fabric

FABRIC = small_fabric()
HEALTH = Health(down_cables=frozenset(("leaf1:1>spine1:1",)))


@pytest.fixture
def pool():
    found = PlannerPool(FABRIC, steering_of(FABRIC).completed)

    yield found
    found.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started():
    """A pool with all its processes, and which of them were ready after its start, a transaction and a preview."""
    found, stages = PlannerPool(FABRIC, steering_of(FABRIC).completed), []

    async def ready(count):
        async with asyncio.timeout(60):
            while sum(seats := [seat.ready for seat in (found._first, found._second, found._spare)]) < count:
                await asyncio.sleep(0.01)
        stages.append(seats)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "NEXT_START_S", 0.0)
        found.start()
        await ready(1)
        await found.solve(problem(requests=(shift_job("a"),)))
        await ready(2)
        await found.solve(problem(requests=(shift_job("a"),), preview=True))
        await ready(3)
    yield found, stages
    found.close()


@pytest.fixture
def shared_pool(started):
    """The pool for all tests that leave it able to plan: each start of a process costs a second of the processor."""
    return started[0]


def problem(kept=(), **fields) -> Solve:
    requests = fields.pop("requests", ())
    names = [request.job_id for request, _ in kept] + [request.job_id for request in requests]
    numbers = {name: number for number, name in enumerate(names, 1)}
    limit = MoveLimit(whose=Whose.ANY, max_flows=8)
    health = fields.pop("health", Health())
    return Solve(token=1, requests=requests, kept=tuple(kept), health=health, limit=limit, numbers=numbers, **fields)


def figures(plan):
    flows = [list(job.flows) for job in plan.jobs]
    rest = [(job.own_max_link_utilisation, job.notes, job.pinned, job.guards) for job in plan.jobs]
    return flows, rest, plan.certificate, plan.moved, plan.stranded, plan.pins


async def running_jobs(planner):
    """Let jobs arrive and leave, a link fail and return; return what each plan says."""
    found, kept = [], []
    steps: list[dict] = [
        {"requests": (shift_job("a"),)},
        {"requests": (shift_job("b", by=4, steering=Steering.PIN),)},
        {"requests": (shift_job("c", ranks=4),)},
        {"health": HEALTH},
        {"degraded": {"leaf2:1>spine1:2": 300_000_000}, "has_happened": True},
        {},
        {},
    ]
    for fields in steps:
        plan, _ = await planner.solve(problem(kept, **fields))
        assert isinstance(plan, Replan)
        found.append(figures(plan))
        requests = [request for request, _ in kept] + list(fields.get("requests", ()))
        kept = list(zip(requests, plan.jobs, strict=True))
    again, _ = await planner.solve(problem(kept))
    assert all(job.flows is before.flows for job, (_, before) in zip(again.jobs, kept, strict=True))
    left, _ = await planner.solve(problem(kept[1:]))
    return [*found, figures(left)]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_process_plans_as_the_planner_in_this_process_does(shared_pool):
    assert await running_jobs(shared_pool) == await running_jobs(ThreadPlanner(FABRIC))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_preview_and_a_place_are_those_of_the_planner_in_this_process(shared_pool):
    preview = problem(requests=(shift_job("a"),), preview=True)
    plan, _ = await shared_pool.solve(preview)
    expected, _ = await ThreadPlanner(FABRIC).solve(preview)
    assert figures(plan) == figures(expected)
    shape = Shape(ranks=4, collectives=shift_job("x", ranks=4).collectives)
    place = Place(token=1, shape=shape, kept=(), health=Health())
    assert await shared_pool.place(place) == await ThreadPlanner(FABRIC).place(place)


async def test_processes_plan_with_the_fabric_that_a_journal_leads_to(pool):
    other = with_other_ports(FABRIC)
    pool.start()
    pool.use(other)
    plan, _ = await pool.solve(problem(requests=(shift_job("a"),)))
    expected, _ = await ThreadPlanner(other).solve(problem(requests=(shift_job("a"),)))
    before, _ = await ThreadPlanner(FABRIC).solve(problem(requests=(shift_job("a"),)))
    assert figures(plan) == figures(expected) != figures(before)


async def amended(planner):
    """Plan a job, then other paths for two of its flows."""
    plan, _ = await planner.solve(problem(requests=(shift_job("a"),)))
    avoid = {flow.flow_id: frozenset((flow.links,)) for flow in plan.jobs[0].flows[:2]}
    again, _ = await planner.solve(problem(requests=(shift_job("a"),), amend=Amend(jobs=plan.jobs, avoid=avoid)))
    assert isinstance(again, Replan)
    changed = [one != other for one, other in zip(plan.jobs[0].flows, again.jobs[0].flows, strict=True)]
    assert changed == [True, True, *[False] * 6]
    return figures(again)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_process_gives_flows_other_paths_as_the_planner_in_this_process_does(shared_pool):
    assert await amended(shared_pool) == await amended(ThreadPlanner(FABRIC))


@pytest.mark.asyncio(loop_scope="module")
async def test_an_error_of_the_request_is_returned(shared_pool):
    outcome, _ = await shared_pool.solve(problem(requests=(shift_job("a", ranks=9),)))
    assert isinstance(outcome, InputError)


@pytest.mark.asyncio(loop_scope="module")
async def test_something_urgent_waits_for_no_solve_that_hangs_and_ends_no_preview(shared_pool):
    pool, request, killed = shared_pool, (shift_job("a"),), shared_pool.killed
    await asyncio.gather(pool.solve(problem(requests=request)), pool.solve(problem(requests=request, preview=True)))
    while not pool._spare.ready:
        await asyncio.sleep(0.01)
    stopped = [seat.worker().pid for seat in (pool._first, pool._second)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    hangs = asyncio.create_task(pool.solve(problem(requests=request)))
    preview = asyncio.create_task(pool.solve(problem(requests=request, preview=True)))
    await asyncio.sleep(0)
    plan, _ = await pool.solve(problem(requests=(shift_job("b"),), urgent=True))
    assert isinstance(plan, Replan)
    outcome, _ = await hangs
    assert isinstance(outcome, UnavailableError)
    os.kill(stopped[1], signal.SIGCONT)
    plan, _ = await preview
    assert isinstance(plan, Replan)
    assert pool.killed == killed + 1


async def test_something_urgent_waits_for_a_process_that_loads_its_kernels_and_so_do_callers(pool, monkeypatch, caplog):
    monkeypatch.setattr(module, "PROGRESS_S", 0.05)
    loading_s = 5.0
    monkeypatch.setattr(module, "LOADING_S", loading_s)
    os.kill(pool._first.worker().pid, signal.SIGSTOP)
    loop = asyncio.get_running_loop()
    now, ahead_s = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: now() + ahead_s)
    caller = asyncio.create_task(pool.solve(problem(requests=(shift_job("a"),))))
    await asyncio.sleep(0)
    urgent = asyncio.create_task(pool.solve(problem(requests=(shift_job("b"),), urgent=True)))
    while "requests wait" not in caplog.text:
        await asyncio.sleep(0.01)
    ahead_s = 2 * loading_s  # loading took longer than a solve may
    os.kill(pool._first.worker().pid, signal.SIGCONT)
    for plan, _ in (await caller, await urgent):
        assert isinstance(plan, Replan)
    assert pool.killed == 0


async def test_a_slow_start_is_not_logged_as_long_as_no_request_waits(pool, monkeypatch, caplog):
    monkeypatch.setattr(module, "PROGRESS_S", 0.01)
    os.kill(pool._first.worker().pid, signal.SIGSTOP)
    pool.start()
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert pool._first.loading
    assert "requests wait" not in caplog.text


@pytest.mark.asyncio(loop_scope="module")
async def test_a_second_process_starts_with_the_first_transaction_and_a_third_with_the_first_preview(started):
    assert started[1] == [[True, False, False], [True, True, False], [True, True, True]]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_preview_that_takes_too_long_is_ended_and_the_next_is_planned(shared_pool, monkeypatch):
    pool = shared_pool
    await pool.solve(problem(requests=(shift_job("a"),), preview=True))
    os.kill(pool._second.worker().pid, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(pool, "_limits", Limits(preview_s=0.2))
        outcome, _ = await pool.solve(problem(requests=(shift_job("a"),), preview=True))
    assert isinstance(outcome, BudgetExceededError)
    plan, _ = await pool.solve(problem(requests=(shift_job("a"),), preview=True))
    assert isinstance(plan, Replan)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_process_that_dies_is_replaced_and_gets_all_jobs_and_the_request(shared_pool):
    pool = shared_pool
    first, _ = await pool.solve(problem(requests=(shift_job("a"),)))
    os.kill(pool._first.worker().pid, signal.SIGKILL)
    kept = ((shift_job("a"), first.jobs[0]),)
    outcome, _ = await pool.solve(problem(kept, requests=(shift_job("b", by=4),)))
    assert [job.job_id for job in outcome.jobs] == ["a", "b"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_goal_is_sought_in_a_process_of_its_own_which_is_replaced_when_it_is_killed(shared_pool):
    pool, drains = shared_pool, replace(shift_job("a"), drains_before_moves=True)
    first, _ = await pool.solve(problem(requests=(drains,)))
    kept = ((drains, first.jobs[0]),)
    goal = replace(problem(kept, converge=True), limit=MoveLimit(whose=Whose.ANY, max_flows=MAX_MOVES))
    before, _ = await pool.solve(goal)
    killed = pool._background.worker().pid
    assert killed not in (pool._first.worker().pid, pool._second.worker().pid)
    os.kill(killed, signal.SIGKILL)
    after, _ = await pool.solve(goal)
    assert before.speeds == after.speeds
    assert list(before.speeds.before) == ["a"]


async def test_a_pool_that_closes_while_a_process_loads_its_kernels_leaves_no_exception(pool):
    unread = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(context))
    pool.start()
    async with asyncio.timeout(60):
        while not pool._first.loading:
            await asyncio.sleep(0.001)
    worker = pool._first.worker()
    pool.close()
    async with asyncio.timeout(60):
        while worker.alive or any(thread.is_alive() for thread in pool._threads._threads):
            await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    gc.collect()
    assert unread == []


def test_a_call_that_fails_in_the_last_turn_of_the_loop_after_a_pool_was_closed_is_not_logged(pool, caplog):
    began, may_end = threading.Event(), threading.Event()

    def call():
        began.set()
        assert may_end.wait(60)
        raise WorkerLostError

    async def close():
        pool._in_thread(call)
        assert began.wait(60)
        pool.close()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(close())
    may_end.set()
    pool._threads.shutdown()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    gc.collect()
    assert caplog.records == []

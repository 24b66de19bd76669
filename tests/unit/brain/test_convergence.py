"""When running jobs converge: all flows move at once to a plan that is worth it, and otherwise paths stay."""

from dataclasses import dataclass, field

import pytest

from heddle.controller.brain.settings import Settings
from heddle.controller.brain.transactions.convergence import RECURS_MS
from heddle.controller.model.effect import Announce, Solve
from heddle.controller.model.error import UnavailableError
from heddle.controller.model.event import Event, Release, Solved, Tick
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.model.moves import DEFAULT_MOVES, NO_MOVES, Cause, MoveLimit, Whose
from tests.unit.brain.driver import Driver, small_fabric, submitted

STILL = dict.fromkeys(Cause, NO_MOVES)
CONVERGES = {**STILL, Cause.CONVERGENCE: DEFAULT_MOVES[Cause.CONVERGENCE]}
PLACES = ((2, 4, 8), (1, 5, 7), (3, 9, 6))
"""The hosts of jobs that arrive one after the other: each is at 0.55 of its speed then, and in the goal at 0.98."""


@dataclass
class Patient(Driver):
    """A driver that keeps the goals that are sought, as long as it is `slow`."""

    slow: bool = False
    goals: list[Solve] = field(default_factory=list)

    def _solve(self, effect: Solve) -> list[Event]:
        if effect.converge:
            self.goals.append(effect)
        return [] if effect.converge and self.slow else super()._solve(effect)

    def reply_with_goal(self) -> None:
        """Return the newest goal that was kept."""
        for event in super()._solve(self.goals[-1]):
            self.feed(event)


def mixed(job_id: str, hosts: tuple[int, ...], *, drains: bool = True) -> JobRequest:
    """Return a ring and an all-to-all, one after the other, among hosts."""
    ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=10**6)
    exchange = Collective(kind=CollectiveKind.ALL_TO_ALL, size_bytes=10**6, phase=1)
    ranks = tuple(f"h{host}-n0" for host in hosts)
    return JobRequest(job_id=job_id, ranks=ranks, collectives=(ring, exchange), drains_before_moves=drains)


def drifted(*, drains: bool = True, slow: bool = False, moves: object = CONVERGES, follow_ms: int = 25) -> Patient:
    """Let jobs arrive, 20 s apart, whose paths are worse than in a plan of all of them."""
    settings = Settings(moves=moves, follow_ms=follow_ms)  # type: ignore[arg-type]
    driver = Patient(small_fabric(3, 3, 3), settings=settings)
    driver.connect_all()
    for number, hosts in enumerate(PLACES):
        driver.now += 20_000
        driver.slow = slow and number == len(PLACES) - 1
        submitted(driver, mixed(f"job{number}", hosts, drains=drains), reply=number)
    return driver


def verdict(driver: Driver) -> str:
    return driver.state.convergence.verdict


def moves(driver: Driver) -> int:
    """Return how many flows a convergence has moved."""
    return sum(record.moved.flows for record in driver.state.moves if record.reason.startswith("converges"))


def later(driver: Driver, ms: int) -> None:
    driver.now += ms
    driver.feed(Tick())


def test_jobs_that_have_drifted_converge_to_a_plan_of_all_of_them() -> None:
    driver = drifted()
    assert moves(driver) > 0
    *_, converged, last = (note.text for note in driver.notes if note.subject == "convergence")
    assert converged.startswith(f"converges: {moves(driver)} flows of 3 jobs move; mean job speed 0.545")
    assert last == verdict(driver) == "at the goal: mean job speed 0.983, in the goal 0.983"
    assert "mean job speed 0.545, in the goal 0.983" in driver.state.jobs["job0"].reason
    assert driver.state.certificate.below_goal == 0


def test_every_move_is_published_as_one_generation() -> None:
    driver = drifted(slow=True)
    before = {job_id: job.generation for job_id, job in driver.state.jobs.items()}
    driver.effects.clear()
    driver.reply_with_goal()
    published = [effect.plan for effect in driver.effects if isinstance(effect, Announce)]
    assert {plan.job_id: plan.generation for plan in published} == {job: last + 1 for job, last in before.items()}


def test_jobs_whose_senders_do_not_drain_are_left_alone() -> None:
    assert drifted(drains=False).goals == []


def test_a_policy_without_convergence_seeks_no_goal() -> None:
    assert drifted(moves=STILL).goals == []


def test_a_goal_beyond_the_limit_is_left_and_the_verdict_names_both() -> None:
    driver = drifted(moves={**STILL, Cause.CONVERGENCE: MoveLimit(whose=Whose.ANY, max_flows=2)})
    assert moves(driver) == 0
    assert verdict(driver).endswith("and the limit for a convergence is 2")


def test_a_goal_that_is_reached_is_not_sought_again() -> None:
    driver = drifted()
    sought = len(driver.goals)
    later(driver, 1_000_000)
    assert len(driver.goals) == sought


def test_from_paths_that_have_converged_the_goal_is_sought_once_more() -> None:
    driver = drifted(slow=True)
    sought = len(driver.goals)
    driver.reply_with_goal()
    assert len(driver.goals) == sought + 1
    assert driver.goals[-1].kept == tuple((job.request, job.flows) for job in driver.state.jobs.values())
    driver.reply_with_goal()
    assert len(driver.goals) == sought + 1


def test_a_goal_for_jobs_that_have_changed_meanwhile_is_dropped_and_sought_again() -> None:
    driver = drifted(slow=True)
    driver.feed(Release(reply=9, job_id="job1"))
    paths = {job_id: job.flows for job_id, job in driver.state.jobs.items()}
    sought = len(driver.goals)
    driver.reply_with_goal()
    assert {job_id: job.flows for job_id, job in driver.state.jobs.items()} == paths
    assert len(driver.goals) == sought + 1
    assert [request.job_id for request, _ in driver.goals[-1].kept] == ["job0", "job2"]


def test_a_planner_that_fails_leaves_paths_as_they_are() -> None:
    driver = drifted(slow=True)
    paths = {job_id: job.flows for job_id, job in driver.state.jobs.items()}
    driver.feed(Solved(token=driver.goals[-1].token, outcome=UnavailableError("it ended twice"), solve_ns=0))
    assert {job_id: job.flows for job_id, job in driver.state.jobs.items()} == paths
    assert verdict(driver) == "no goal: it ended twice"


def test_paths_stay_while_the_next_change_is_expected_too_soon() -> None:
    driver = drifted(follow_ms=1_667)
    assert moves(driver) == 0
    assert verdict(driver).startswith("stays: another change is expected before 62.4 s")
    assert driver.state.certificate.below_goal == pytest.approx(0.437, abs=0.001)
    later(driver, 62_000)
    assert moves(driver) == 0
    later(driver, 1_000)
    assert moves(driver) > 0


@pytest.mark.parametrize("name", ["job", "again"])
def test_jobs_that_come_and_go_at_the_same_nics_converge_once(name: str) -> None:
    driver = drifted()
    moved = moves(driver)
    for number in range(len(PLACES)):
        driver.feed(Release(reply=10 + number, job_id=f"job{number}"))
    for number, hosts in enumerate(PLACES):
        later(driver, 5_000)
        submitted(driver, mixed(f"{name}{number}", hosts), reply=20 + number)
    assert moves(driver) == moved
    assert "one comes and goes" in verdict(driver)
    sought = len(driver.goals)
    driver.feed(Release(reply=30, job_id=f"{name}1"))
    assert len(driver.goals) > sought
    submitted(driver, mixed(f"{name}1", PLACES[1]), reply=31)
    later(driver, RECURS_MS)
    assert moves(driver) > moved


def test_jobs_that_leave_as_the_next_arrives_are_one_change() -> None:
    driver = drifted(follow_ms=1_000)
    gap_ms, sought = driver.state.convergence.gap_ms, len(driver.goals)
    driver.now += 20_000
    for number in range(len(PLACES) - 1):
        driver.feed(Release(reply=10 + number, job_id=f"job{number}"))
    submitted(driver, mixed("job3", PLACES[0]), reply=20)
    assert driver.state.convergence.gap_ms == (3 * gap_ms + 20_000) // 4
    assert len(driver.goals) > sought

"""Jobs of rings with all-to-alls arrive and leave, and the others converge in the background: how fast jobs run.

The brain decides, with a planner's process for its transactions and one for goals, as in a controller; switches and
callers are left out. The clock of the brain is simulated: `EVERY_MS` pass between arrivals, and the processor time of a
goal while that is sought; the brain wakes when it wants to. *All again* plans every flow anew at each arrival. Jobs run
at their speed before a convergence until it begins, stand still while hosts follow, and then run at their speed after
it.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, NamedTuple, TextIO

import numpy as np

from heddle.benchmarks.loop.churn import BY_DEFAULT, FULL, Loop, in_its_process
from heddle.benchmarks.loop.figures import progress, spread
from heddle.benchmarks.planning.events.arrivals import FABRICS, Event, Scene, events
from heddle.benchmarks.planning.events.running import Running
from heddle.controller.brain.settings import Settings
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.effect import Effect, Solve
from heddle.controller.model.error import HeddleError
from heddle.controller.model.event import Event as Happened
from heddle.controller.model.event import Release, Solved, Submit, Tick
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import Certificate, Infeasible, JobFlows, Replan
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.runtime.planning.worker import Worker

EVERY_MS = 10_000
SCENES = tuple(
    Scene(fabric=fabric, placement="random", sends="rings + all-to-all", qps=qps)
    for qps in (1, 4)
    for fabric in FABRICS
)
CYCLE_MS = 5_000
EVEN = 1.05
"""A fullest link above so many times its bound is counted."""
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
Goals = Callable[[Solve], tuple[Replan | Infeasible | HeddleError, float]]
"""Returns the goal of a convergence, and the processor seconds that it took."""


class Interval(NamedTuple):
    """The time from one arrival to the next: mean job speeds, what goals took, and the flows that moved for them.

    `speed` is the mean over the time, `before` that on the paths of the arrival. `gain` is how much higher the speed is
    for the convergences, added up over seconds; `cost` is what the jobs lose while hosts follow, in the same unit.
    """

    before: float
    speed: float
    after: float
    again: float
    goals_s: tuple[float, ...]
    moved: int
    gain: float
    cost: float
    verdict: str


class Convergence(NamedTuple):
    """A convergence: when it began, the job speeds before and after, how long hosts follow, and the flows moved."""

    at_ms: int
    before: float
    after: float
    follow_s: float
    moved: int


def in_a_process(fabric: Fabric, stack: ExitStack) -> Goals:
    """Start the planner's process of goals."""
    worker = Worker(fabric)
    stack.callback(worker.close)
    worker.begin()

    def processor_s() -> float:
        with open(f"/proc/{worker.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_S  # proc(5): utime and stime

    def goal(problem: Solve) -> tuple[Replan | Infeasible | HeddleError, float]:
        began = processor_s()
        return worker.solve(problem)[0], processor_s() - began

    return goal


@dataclass
class Converging(Loop):
    """A loop whose clock passes while a goal is sought.

    `goals_s` are the processor seconds of the goals, `ratios` the fullest link over its bound after each other plan.
    """

    goals: Goals = field(kw_only=True)
    goals_s: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    taken: list[Convergence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._running = Running(topology_of(self.fabric))
        self._newest: Replan | None = None
        super().__post_init__()

    def _solved(self, problem: Solve) -> Solved:
        if not problem.converge:
            solved = super()._solved(problem)
            assert isinstance(solved.outcome, Replan)
            self.ratios.append(ratio(solved.outcome.certificate))
            return solved
        plan, seconds = self.goals(problem)
        self.goals_s.append(seconds)
        self.now_ms += round(seconds * 1e3)
        self._newest = None
        if isinstance(plan, Replan):
            self._newest = plan = steering_of(self.fabric).completed(self.fabric, problem, plan)
        return Solved(token=problem.token, outcome=plan, solve_ns=round(seconds * 1e9))

    def _decided(self, happened: tuple[Happened, ...]) -> list[Effect]:
        """Decide, and record whether the jobs converge."""
        count, plan = self.state.convergence.count, self._newest
        effects = super()._decided(happened)
        if self.state.convergence.count > count and plan is not None and plan.speeds is not None:
            before = sum(plan.speeds.before.values()) / len(plan.speeds.before)
            follow_s = self.settings.follow_ms / 1e3 * (2 if plan.slowed else 1)
            moved = sum(each.flows for each in plan.moved.values())
            self.taken.append(Convergence(self.now_ms, before, self.speed(), follow_s, moved))
        return effects

    def wait(self, until_ms: int, used: float) -> None:
        """Let time pass, and wake the brain when it wants to seek a goal."""
        while (due := self.state.convergence.due_unix_ms) is not None and due < until_ms:
            self.now_ms = max(due, self.now_ms)
            self.decide("wake", used, Tick())
        self.now_ms = max(until_ms, self.now_ms)

    def speed(self) -> float:
        """Return the mean speed of the jobs on their paths now."""
        return speed(self._running, ((job_id, job.flows) for job_id, job in self.state.jobs.items()))


def ratio(found: Certificate) -> float:
    """Return the fullest link of a plan over its bound."""
    return found.max_link_utilisation / found.lower_bound if found.lower_bound else 1.0


def settled(loop: Converging, drawn: Iterable[Event], report: Callable[[int], object] = str) -> Iterator[float]:
    """Yield the fullest link over its bound at the end of each interval, when the jobs have converged."""
    for number, event in filled(loop, drawn):
        began_ms = loop.now_ms
        loop.decide("arrival", event.used, *happenings(event))
        loop.wait(began_ms + EVERY_MS, event.used)
        yield ratio(loop.state.certificate)
        report(number + 1)


def speed(running: Running, jobs: Iterable[tuple[str, JobFlows]]) -> float:
    """Return the mean speed of jobs on their paths."""
    running.jobs = {}
    for job_id, job in jobs:
        assert isinstance(job.flows, FlowTable)
        running.jobs[job_id] = job.flows.flows, job.flows.hops
    return running.figures()[1]


class Again:
    """Every flow planned anew at each arrival."""

    def __init__(self, fabric: Fabric) -> None:
        self._running = Running(topology_of(fabric))

    def followed(self, drawn: Iterable[Event]) -> Iterator[Event]:
        """Yield events, and follow each without a plan."""
        for event in drawn:
            for job_id in event.leave:
                self._running.jobs.pop(job_id, None)
            flows = expand(self._running.topology, (event.arrive,))
            self._running.jobs[event.arrive.job_id] = flows, np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
            yield event

    def speed(self) -> float:
        """Plan, and return the mean speed of the jobs."""
        self._running.plan_again()
        return self._running.figures()[1]


def measured(
    scene: Scene, arrivals: int, seed: int, report: Callable[[str], object] = str, settings: Settings = BY_DEFAULT
) -> Iterator[Interval]:  # fmt: skip
    """Yield the intervals after the fabric has filled, which its jobs do at once."""
    fabric = FABRICS[scene.fabric]()
    again = Again(fabric)
    with converging(fabric, settings) as loop:
        for number, event in filled(loop, again.followed(events(fabric, scene, arrivals, seed))):
            yield interval(loop, event, again.speed())
            report(f"{number + 1} of {arrivals} arrivals")


@contextmanager
def converging(fabric: Fabric, settings: Settings = BY_DEFAULT) -> Iterator[Converging]:
    """Yield a loop with the two planner processes of a controller."""
    with ExitStack() as stack:
        planner = stack.enter_context(in_its_process(fabric))
        yield Converging(fabric, settings, planner, goals=in_a_process(fabric, stack))


def filled(loop: Converging, drawn: Iterable[Event]) -> Iterator[tuple[int, Event]]:
    """Yield the events from the first departure on, with their numbers; the jobs before it arrive at once."""
    filling = list[Event]()
    for number, event in enumerate(drawn):
        if event.leave and filling:
            loop.decide("filling", event.used, *(happened for each in filling for happened in happenings(each)))
            loop.now_ms, filling = loop.now_ms + EVERY_MS, []
            loop.ratios.clear()
        if event.leave or loop.state.jobs:
            yield number, event
        else:
            filling.append(event)


def happenings(event: Event) -> Iterator[Happened]:
    """Yield what the brain sees of an event: departures, then the arrival of a job whose senders drain."""
    for job_id in event.leave:
        yield Release(reply=0, job_id=job_id)
    wanted = replace(event.arrive, lease_ms=BY_DEFAULT.max_lease_ms, drains_before_moves=True)
    yield Submit(reply=0, request=wanted, checked=True)


def interval(loop: Converging, event: Event, again: float) -> Interval:
    """Let an event happen and time pass until the next; `again` is the speed where all is planned again."""
    began_ms, sought, taken = loop.now_ms, len(loop.goals_s), len(loop.taken)
    loop.decide("arrival", event.used, *happenings(event))
    first = None if len(loop.taken) > taken else loop.speed()
    loop.wait(began_ms + EVERY_MS, event.used)
    found, since_ms, whole, gain = loop.taken[taken:], began_ms, 0.0, 0.0
    before = now = found[0].before if first is None else first
    for each in found:
        whole += now * (each.at_ms - since_ms) / 1e3
        since_ms, now = each.at_ms + round(each.follow_s * 1e3), each.after
        gain += (each.after - each.before) * (began_ms + EVERY_MS - since_ms) / 1e3
    whole += now * (began_ms + EVERY_MS - since_ms) / 1e3
    return Interval(
        before=before, speed=whole / (EVERY_MS / 1e3), after=now, again=again, goals_s=tuple(loop.goals_s[sought:]),
        moved=sum(each.moved for each in found), gain=gain,
        cost=sum(each.before * each.follow_s for each in found), verdict=loop.state.convergence.verdict,
    )  # fmt: skip


def comes_and_goes(loop: Converging, drawn: Iterable[Event], cycles: int) -> Iterator[int]:
    """Yield how many flows move after each departure and each arrival of one job, every `CYCLE_MS`, on a full fabric.

    The job is the last before the first departure; it has the same NICs each time, and another id.
    """
    filling = list(takewhile(lambda event: not event.leave, drawn))
    used, job = filling[-1].used, filling[-1].arrive
    loop.decide("filling", used, *(happened for each in filling for happened in happenings(each)))
    loop.wait(loop.now_ms + EVERY_MS, used)
    for number in range(cycles):
        again = replace(job, job_id=f"{filling[-1].arrive.job_id}-{number}")
        for happened in (Release(reply=0, job_id=job.job_id), *happenings(Event((), again, used))):
            began_ms, decisions, taken = loop.now_ms, len(loop.rows), len(loop.taken)
            loop.decide("cycle", used, happened)
            loop.wait(began_ms + CYCLE_MS, used)
            yield sum(row.moved for row in loop.rows[decisions:]) + sum(each.moved for each in loop.taken[taken:])
        job = again


def run(
    out: TextIO, arrivals: int = 40, seeds: Sequence[int] = (1, 2, 3), scenes: Sequence[Scene] = SCENES
) -> dict[str, Any]:  # fmt: skip
    """Compare the time-weighted mean job speed with planning all again at each arrival, on 1,024 GPUs."""
    found: dict[str, Any] = {"goal_ratio": 0.95, "goal_cost_of_gain": 0.01, "every_ms": EVERY_MS}
    print(f"  {'':46}" + "".join(f"{name:>10}" for name in CONVERGED), file=out)
    for scene in scenes:
        rows = list[Interval]()
        for seed in seeds:
            of_seed = list(measured(scene, arrivals, seed, progress(f"{scene.name}, seed {seed}")))
            found[f"{scene.name}, seed {seed}"] = _converged(out, f"{scene.name}, seed {seed}", of_seed)
            rows += of_seed
        if len(seeds) > 1:
            found[scene.name] = _converged(out, scene.name, rows)
    return found


def _converged(out: TextIO, name: str, rows: Sequence[Interval]) -> dict[str, Any]:
    """Print and return the means over some intervals."""
    before, speed, again = (float(np.mean([getattr(row, step) for row in rows])) for step in CONVERGED[1:4])
    gain, cost = (sum(getattr(row, step) for row in rows) for step in ("gain", "cost"))
    goals_s, moved = [taken_s for row in rows for taken_s in row.goals_s], [row.moved for row in rows if row.moved]
    found = {
        "intervals": len(rows), "before": before, "speed": speed, "again": again, "ratio": speed / again,
        "cost_of_gain": cost / gain if gain else 0.0, "goal_s": float(np.mean(goals_s or 0)),
        "moves": float(np.mean(moved)) if moved else 0.0,
    }  # fmt: skip
    cells = f"{len(rows):10}{before:10.3f}{speed:10.3f}{again:10.3f}{found['ratio']:10.3f}{found['cost_of_gain']:10.2%}"
    print(f"  {name:46}{cells}{found['goal_s']:10.2f}{found['moves']:10,.0f}", file=out, flush=True)
    return found | {"verdicts": [row.verdict for row in rows]}


CONVERGED = ("intervals", "before", "speed", "again", "ratio", "cost/gain", "goal, s", "moves")
"""The speed before a convergence, its mean over time, that of all planned again, and the second over the third."""


def rings_converge(out: TextIO, arrivals: int = 1_000, seed: int = 1) -> dict[str, Any]:
    """Measure how often the fullest link is above `EVEN` times its bound, after decisions and when jobs have converged.

    Rings at random places in three tiers, nine tenths of 1,024 GPUs in use.
    """
    fabric, scene = FABRICS["3 tiers"](), Scene(fabric="3 tiers", placement="random", sends="rings", qps=1)
    report = progress(scene.name)
    with converging(fabric) as loop:
        drawn = events(fabric, scene, arrivals, seed, FULL)
        ends = list(settled(loop, drawn, lambda count: report(f"{count:,} of {arrivals:,}") if count % 20 == 0 else 0))
    found: dict[str, Any] = {"convergences": len(loop.taken), "arrivals": len(ends)}
    for name, ratios in (("after decisions", loop.ratios), ("before the next arrival", ends)):
        above, mean = float(np.mean(np.array(ratios) > EVEN)), float(np.mean(ratios))
        found[name] = {"above": above, "mean": mean, **spread(ratios)}
        print(f"  {name}: above {EVEN} in {above:.1%} of {len(ratios):,}, mean {mean:.3f}", file=out, flush=True)
    print(f"  {len(loop.taken):,} convergences in {len(ends):,} intervals", file=out, flush=True)
    return found


def job_recurs(out: TextIO, cycles: int = 6, seed: int = 1) -> dict[str, Any]:
    """Measure how many flows move each time a job comes or goes, every 5 s, between others in three tiers."""
    scene = next(scene for scene in SCENES if scene.fabric == "3 tiers" and scene.qps == 1)
    fabric, report, moves = FABRICS[scene.fabric](), progress(scene.name), list[int]()
    with converging(fabric) as loop:
        for moved in comes_and_goes(loop, events(fabric, scene, 1_000, seed), cycles):
            moves.append(moved)
            report(f"{moved:,} flows moved")
    later = max(moves[4:], default=0)
    print(f"  flows moved by the first two cycles {moves[:4]}, later at most {later} (goal 64)", file=out, flush=True)
    return {"goal_later": 64, "later": later, "moves": moves}

"""Jobs of rings with all-to-alls arrive and leave, and the others converge in the background: how fast jobs run.

The brain decides, with a planner's process for its transactions and one for goals, as in a controller; switches and
callers are left out. The clock of the brain passes `EVERY_MS` between arrivals. *All again* plans every flow anew at
each arrival. Between two arrivals jobs run at their speed before the convergence while the goal is sought, counted by
its processor time, stand still while hosts follow, and then run at their speed after it.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from heddle.benchmarks.loop.churn import BY_DEFAULT, Loop, Planner, in_its_process
from heddle.benchmarks.planning.events.arrivals import FABRICS, Scene, events
from heddle.benchmarks.planning.events.running import Running
from heddle.controller.model.effect import Solve
from heddle.controller.model.event import Release, Submit
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import JobFlows, Replan
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.runtime.planning.worker import Worker

EVERY_MS = 10_000
SCENES = tuple(
    Scene(fabric=fabric, placement="random", sends="rings + all-to-all", qps=qps)
    for fabric in FABRICS
    for qps in (1, 4)
)
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Interval(NamedTuple):
    """The time from one arrival to the next: mean job speeds, what the goal took, and the flows that moved for it."""

    before: float
    after: float
    again: float
    goal_s: float
    moved: int
    lost_s: float

    @property
    def speed(self) -> float:
        """Return the mean job speed over the time."""
        whole_s = EVERY_MS / 1e3
        later_s = whole_s - self.goal_s - self.lost_s
        return (self.before * self.goal_s + self.after * later_s) / whole_s if self.moved else self.after


@dataclass
class Goals:
    """A planner of goals in a process of its own: the jobs of the newest one, its processor time, and its moves."""

    worker: Worker
    jobs: tuple[tuple[JobRequest, JobFlows], ...] = ()
    seconds: float = 0.0
    moved: int = 0

    def solve(self, problem: Solve) -> Replan:
        """Return the goal; raises RuntimeError where there is none."""
        began, self.jobs = self._processor_s(), problem.kept
        plan, _ = self.worker.solve(problem)
        if not isinstance(plan, Replan):
            raise RuntimeError(f"no goal: {plan}")
        self.seconds = self._processor_s() - began
        self.moved = sum(each.flows for each in plan.moved.values())
        return plan

    def _processor_s(self) -> float:
        with open(f"/proc/{self.worker.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_S  # proc(5): utime and stime


def speed(running: Running, jobs: Iterator[tuple[str, JobFlows]]) -> float:
    """Return the mean speed of jobs on their paths."""
    running.jobs = {}
    for job_id, job in jobs:
        assert isinstance(job.flows, FlowTable)
        running.jobs[job_id] = job.flows.flows, job.flows.hops
    return running.figures()[1]


def measured(
    scene: Scene, arrivals: int, seed: int, progress: Callable[[str], object] = str
) -> Iterator[Interval]:  # fmt: skip
    """Yield the intervals after the fabric has filled."""
    fabric = FABRICS[scene.fabric]()
    own, again, full = Running(topology_of(fabric)), Running(topology_of(fabric)), False
    with ExitStack() as stack:
        goals = Goals(Worker(fabric))
        stack.callback(goals.worker.close)
        goals.worker.begin()
        loop = Loop(fabric, BY_DEFAULT, _either(stack.enter_context(in_its_process(fabric)), goals))
        for number, event in enumerate(events(fabric, scene, arrivals, seed)):
            full = full or bool(event.leave)
            loop.now_ms += EVERY_MS
            for job_id in event.leave:
                loop.decide("departure", event.used, Release(reply=number, job_id=job_id))
                again.jobs.pop(job_id, None)
            count, goals.jobs = loop.state.convergence.count, ()
            wanted = replace(event.arrive, lease_ms=loop.settings.max_lease_ms, drains_before_moves=True)
            loop.decide("arrival", event.used, Submit(reply=number, request=wanted, checked=True))
            flows = expand(again.topology, (event.arrive,))
            again.jobs[event.arrive.job_id] = flows, np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
            if full:
                again.plan_again()
                after = speed(own, ((job_id, job.flows) for job_id, job in loop.state.jobs.items()))
                before = speed(own, ((request.job_id, job) for request, job in goals.jobs)) if goals.jobs else after
                took = loop.state.convergence.count > count
                yield Interval(
                    before=before, after=after, again=again.figures()[1], goal_s=goals.seconds,
                    moved=goals.moved if took else 0, lost_s=loop.settings.follow_ms / 1e3 if took else 0.0,
                )  # fmt: skip
            progress(f"{number + 1} of {arrivals} arrivals")


def _either(planner: Planner, goals: Goals) -> Planner:
    return lambda problem: goals.solve(problem) if problem.converge else planner(problem)

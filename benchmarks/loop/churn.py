"""Jobs arrive and leave, and cables fail, on a full fabric: what moves gain, and how long a decision takes.

The brain decides and a planner plans, as in a controller; switches and callers are left out: every switch acknowledges
at once. A decision takes from the event until the effects of its plan are known: rules to install, plans to publish.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from heddle.benchmarks.planning.events.arrivals import Scene, events
from heddle.controller.brain.begin import begin
from heddle.controller.brain.decide import decide_all
from heddle.controller.brain.settings import Settings
from heddle.controller.brain.state import State, wanted
from heddle.controller.brain.steering.openflow.compiling import compile_beside
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.effect import Compile, Effect, Install, Solve
from heddle.controller.model.event import (
    Compiled,
    Event,
    Installed,
    PortStatus,
    Release,
    Solved,
    Submit,
    SwitchUp,
    Tick,
)
from heddle.controller.model.fabric import Cable, Fabric
from heddle.controller.model.moves import NO_MOVES, Cause
from heddle.controller.model.plan import Replan
from heddle.controller.planner.online import OnlinePlanner
from heddle.controller.runtime.planning.worker import Worker

FULL = 0.97
"""Jobs leave until the next one fits into this share of the GPUs: nine tenths are in use on average."""
PROGRESS = 100
HOLD_MS = 1_000
NEVER_MOVE = Settings(hold_ms=HOLD_MS, moves=dict.fromkeys(Cause, NO_MOVES))
BY_DEFAULT = Settings(hold_ms=HOLD_MS)
Planner = Callable[[Solve], Replan]


class Decision(NamedTuple):
    """One event: milliseconds until its effects, those of the planner, the fullest link over its bound, and moves.

    `rules_ms` is the time until the rules of an underlay without a failed cable, beside the plan.
    """

    event: str
    ms: float
    planner_ms: float
    rules_ms: float
    ratio: float
    moved: int
    used: float


def in_this_process(fabric: Fabric) -> Planner:
    """Return the planner of the planner's process, without the process."""
    planner = OnlinePlanner(fabric)

    def solve(problem: Solve) -> Replan:
        plan = planner.solve(
            problem.requests, health=problem.health, kept=problem.kept, limit=problem.limit, subject=problem.subject,
            background=problem.background, degraded=problem.degraded, has_happened=problem.has_happened,
        )  # fmt: skip
        if not isinstance(plan, Replan):
            raise RuntimeError(f"no plan: {plan.why}")
        return plan

    return solve


@contextmanager
def in_its_process(fabric: Fabric) -> Iterator[Planner]:
    """Start a planner's process, as a controller does, and yield what sends problems to it and waits for plans."""
    worker = Worker(fabric)

    def solve(problem: Solve) -> Replan:
        plan, _ = worker.solve(problem)
        if not isinstance(plan, Replan):
            raise RuntimeError(f"no plan: {plan}")
        return plan

    try:
        worker.begin()
        yield solve
    finally:
        worker.close()


@dataclass
class Loop:
    """The brain with a planner, and the time that each takes."""

    fabric: Fabric
    settings: Settings
    planner: Planner
    now_ms: int = 1
    planner_s: float = 0.0
    rules_s: float = 0.0
    moved: int = 0
    rows: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state: State = begin(self.fabric, self.settings)
        ups = [
            SwitchUp(switch=switch.id, ports={}, installed=wanted(self.state, switch.id))
            for switch in self.fabric.switches
        ]
        self.state, _ = decide_all(self.state, ups, self.now_ms)

    def decide(self, name: str, used: float, *happened: Event) -> None:
        """Decide what has happened, record the time until the plan's effects, then let all of it be acknowledged."""
        self.now_ms += 1
        self.planner_s = self.rules_s = 0.0
        self.moved = 0
        began = time.perf_counter()
        left = self._decided(happened)
        while (solve := next((effect for effect in left if isinstance(effect, Solve)), None)) is not None:
            left.remove(solve)
            left += self._decided((self._solved(solve),))
        seconds = time.perf_counter() - began
        self._acknowledge(left)
        found = self.state.certificate
        ratio = found.max_link_utilisation / found.lower_bound if found.lower_bound else 1.0
        row = Decision(name, seconds * 1e3, self.planner_s * 1e3, self.rules_s * 1e3, ratio, self.moved, used)
        self.rows.append(row)

    def _decided(self, happened: tuple[Event, ...]) -> list[Effect]:
        self.state, effects = decide_all(self.state, happened, self.now_ms)
        return list(effects)

    def _solved(self, problem: Solve) -> Solved:
        began = time.perf_counter()
        plan = steering_of(self.fabric).completed(self.fabric, problem, self.planner(problem))
        self.planner_s += time.perf_counter() - began
        self.moved += sum(moved.flows for moved in plan.moved.values())
        return Solved(token=problem.token, outcome=plan, solve_ns=0)

    def _acknowledge(self, left: list[Effect]) -> None:
        """Perform the effects that do not decide the figures, until none is left."""
        while left:
            effect = left.pop(0)
            if isinstance(effect, Compile):
                began = time.perf_counter()
                compiled: Compiled = compile_beside(self.fabric, effect)
                left += self._decided((compiled,))
                self.rules_s += time.perf_counter() - began
            elif isinstance(effect, Install):
                left += self._decided((Installed(token=effect.token, install_ns=0),))
            elif isinstance(effect, Solve):
                left += self._decided((self._solved(effect),))
        assert self.state.active is None

    def cable(self, cable: Cable, used: float) -> None:
        """Let a cable fail, and return after its hold time."""
        self.now_ms += HOLD_MS << 6  # no compilation waits for one before
        ends = (cable.lower, cable.upper)
        self.decide("failure", used, *(PortStatus(switch=end.switch, port=end.number, up=False) for end in ends))
        self._decided(tuple(PortStatus(switch=end.switch, port=end.number, up=True) for end in ends))
        self.now_ms += HOLD_MS << 6
        self.decide("recovery", used, Tick())


def churn(
    loop: Loop, scene: Scene, arrivals: int, seed: int, failures: int = 0, progress: Callable[[str], object] = str
) -> list[Decision]:
    """Let jobs arrive and leave, then cables fail; return the decisions after the fabric has filled."""
    used, full = 0.0, False
    for number, event in enumerate(events(loop.fabric, scene, arrivals, seed, FULL)):
        if number % PROGRESS == 0:
            progress(f"{number:,} of {arrivals:,} arrivals, {len(loop.state.jobs)} jobs run")
        if event.leave and not full:
            full, loop.rows = True, []
        for job_id in event.leave:
            loop.decide("departure", used, Release(reply=number, job_id=job_id))
        used = event.used
        lasting = replace(event.arrive, lease_ms=loop.settings.max_lease_ms)
        loop.decide("arrival", used, Submit(reply=number, request=lasting, checked=True))
    order = np.random.default_rng([seed, 1]).permutation(len(loop.fabric.cables))[:failures]
    for number in order.tolist():
        loop.cable(loop.fabric.cables[number], used)
    return loop.rows

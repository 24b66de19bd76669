"""The interface between the brain and a steering: what makes flows take the paths of a plan.

The base class is a steering that needs no help: switches hold no rules of the controller, a plan takes effect at once,
and nothing is acknowledged or measured. A steering overrides what it does otherwise. It decides like the rest of the
brain, from state, event and time; it returns the replan that it needs, as the queue of work consults the steering.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.port_search import Seeking
from heddle.controller.brain.state import Job, ReplanWork, State
from heddle.controller.model.effect import Effect, Solve
from heddle.controller.model.event import Solved
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.moves import Cause
from heddle.controller.model.plan import Confirmed, Effort, FlowPlan, Replan
from heddle.controller.model.port_layout import SteeringLayout
from heddle.controller.model.rule import SwitchRules
from heddle.controller.planner.ground.jit import Flags
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.placed import paths_of
from heddle.controller.planner.ports.reading import PortReader, strayed


class Step(NamedTuple):
    """A step of a steering: `solved` is a plan that takes effect now, `replan` one to be queued; None for none."""

    state: State
    effects: tuple[Effect, ...] = ()
    solved: Solved | None = None
    replan: ReplanWork | None = None


class Explanation(NamedTuple):
    """Where a flow goes: a sentence, a text for each hop, and what selects its path."""

    verdict: str
    hops: tuple[str, ...]
    selector: str = "its source port picks the path"


class Steering:
    """What the brain leaves to the steering of its fabric; `controller/model/steering_traits.py` has the rest."""

    def underlay(self, fabric: Fabric, layout: SteeringLayout, health: Health) -> dict[str, SwitchRules]:
        """Return the rules that each switch holds without any job."""
        return {switch.id: SwitchRules() for switch in fabric.switches}

    def start_compile(self, state: State, now: int) -> Outcome:
        """Begin to compile the underlay where it is not for what is out of use now."""
        return replace(state, compiled_for=state.out_of_use), ()

    def completed(self, fabric: Fabric, problem: Solve, plan: Replan) -> Replan:
        """Return a plan as the planner made it, with what it needs to take effect. Called in a worker thread."""
        return plan

    def search(self, solve: Solve) -> Seeking | None:
        """Return what a transaction has to find before its plan takes effect, None for nothing."""
        return None

    def solved(self, state: State, event: Solved, now: int) -> Step:
        """Handle a plan of the active transaction: it takes effect now, or after events of the steering."""
        return Step(state, solved=event)

    def on_event(self, state: State, event: Any, now: int) -> Step:
        """Handle an event of a steering; those of another steering change nothing."""
        return Step(state)

    def awaited(self, links: Iterable[str]) -> frozenset[str]:
        """Return the switches that acknowledge new paths over these links before their job runs."""
        return frozenset()

    def queued(self, fabric: Fabric, work: ReplanWork) -> ReplanWork:
        """Return a replan that is to be queued, with what the steering does on such an occasion."""
        return work

    def after_change(self, state: State, now: int) -> Outcome:
        """Return what follows where links or NICs have gone out of use, or returned; a replan is queued already."""
        return state, ()

    def after_unused_failure(self) -> ReplanWork | None:
        """Return the replan after a link has failed again before it was back in use."""
        return None

    def tick(self, state: State, now: int) -> Step:
        """Do what is due."""
        return Step(state)

    def evidence(self, effort: Effort, flows: int, stranded: int, seen: Confirmed | None) -> Effort:
        """Return what is certified of a job's paths: `stranded` of its `flows` have none; probes found `seen`."""
        return effort

    def strayed(self, reader: PortReader, job: Job) -> Flags:
        """Return which flows of a job that continues would leave their planned path in the fabric of a reader.

        By default a path only has to join the flow's NICs: where a port leads does not follow from the fabric.
        """
        return strayed(reader, paths_in(reader, job), by_port=False, stranded=job.stranded)

    def continued(self, state: State, now: int) -> Step:
        """Begin with another fabric file, in which no flow strays: rates and certificates follow from its cables."""
        return Step(state, replan=ReplanWork(cause=Cause.RECOVERY, reason="the fabric file has changed", moves=False))

    def explained(self, state: State, job: Job, flow: FlowPlan) -> Explanation:
        """Return where the network takes a flow."""
        return Explanation(f"It is planned over {' '.join(flow.links)}.", flow.links)


def paths_in(reader: PortReader, job: Job) -> Paths:
    """Return the paths of a job in the fabric of a reader."""
    return paths_of(reader.topology, 0, (job.request, job.flows))

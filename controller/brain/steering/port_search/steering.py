"""Steer by the hashes of switches that have routes only: probes find the source ports that lead over planned paths."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.port_search import Seeking
from heddle.controller.brain.state import Job, ReplanWork, State
from heddle.controller.brain.steering.interface import Explanation, Steering, Step
from heddle.controller.brain.steering.port_search import seeking, settling
from heddle.controller.brain.steering.port_search.suspect import ports_astray
from heddle.controller.brain.steering.port_search.wanted import with_wanted
from heddle.controller.model.effect import Solve
from heddle.controller.model.event import PortsAstray, PortsFound, Solved
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.moves import Cause
from heddle.controller.model.plan import Confirmed, Effort, FlowPlan, Replan


class PortSearchSteering(Steering):
    """No rules and no sessions; a plan takes effect once every flow has a port that leads over its path."""

    def completed(self, fabric: Fabric, problem: Solve, plan: Replan) -> Replan:
        """Add the flows that need a source port."""
        return with_wanted(fabric, problem, plan)

    def search(self, solve: Solve) -> Seeking | None:
        """Return a search that has not begun."""
        return Seeking(solve=solve)

    def solved(self, state: State, event: Solved, now: int) -> Step:
        """Seek ports for the flows of a plan that have none yet."""
        return seeking.begin(state, event, now)

    def on_event(self, state: State, event: Any, now: int) -> Step:
        """Continue with ports that probes have found, or confirm those of leaves that are suspect."""
        handler = _HANDLERS.get(type(event))
        return handler(state, event, now) if handler is not None else Step(state)

    def queued(self, fabric: Fabric, work: ReplanWork) -> ReplanWork:
        """Make all ports suspect where a link fails or returns, unless the work names leaves."""
        if work.cause in (Cause.FAILURE, Cause.RECOVERY) and not work.suspects:
            return replace(work, suspects=frozenset(fabric.leaves))
        return work

    def after_change(self, state: State, now: int) -> Outcome:
        """Confirm the ports again once routes have settled."""
        return settling.begin(state, now)

    def continued(self, state: State, now: int) -> Step:
        """Confirm the ports again: switches hash over other next hops than those over which the ports were found."""
        return Step(settling.begin(state, now)[0])

    def after_unused_failure(self) -> ReplanWork | None:
        """Confirm the ports: such a link changes no plan, but it changes what switches hash over."""
        return ReplanWork(cause=Cause.RECOVERY, reason="a link is down again that was not in use yet", moves=False)

    def tick(self, state: State, now: int) -> Step:
        """Confirm the ports where routes have settled."""
        return settling.settled(state, now)

    def evidence(self, effort: Effort, flows: int, stranded: int, seen: Confirmed | None) -> Effort:
        """Count the flows whose paths probes have seen."""
        if seen is None:
            confirmed = min(effort.paths_confirmed, flows - stranded)
            return replace(effort, probed=True, paths_confirmed=confirmed, probes=0)
        return replace(
            effort,
            probed=True,
            paths_confirmed=flows - stranded - seen.unseen,
            oldest_confirmation_unix_ms=seen.unix_ms if seen.is_whole else effort.oldest_confirmation_unix_ms,
            probes=seen.probes,
        )

    def explained(self, state: State, job: Job, flow: FlowPlan) -> Explanation:
        """Return the planned path, and how many paths of the job probes have confirmed."""
        verdict = (
            f"The switches hash; it is planned over {' '.join(flow.links)}. Probes have confirmed the paths of "
            f"{job.effort.paths_confirmed} of {len(job.flows.flows)} flows of the job."
        )
        return Explanation(verdict, flow.links)


_HANDLERS: Mapping[type, Callable[[State, Any, int], Step]] = {
    PortsFound: seeking.ports_found,
    PortsAstray: ports_astray,
}

"""The planner that the service's process calls, driven as the brain drives it: one request for each event.

A limit of moves counts for each event. What the service adds around it (rules, acknowledgements, callers) is left out.
"""

from collections.abc import Sequence

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import MoveLimit, Whose
from heddle.controller.model.plan import Replan
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.placed import Placed
from heddle.controller.planner.online import OnlinePlanner


def any_flows(budget: int) -> MoveLimit:
    """Return the limit that lets so many flows of any jobs move."""
    return MoveLimit(whose=Whose.ANY, max_flows=budget)


class Service:
    """An `OnlinePlanner`, the jobs that run in `kept`, and what is out of use in `health`."""

    def __init__(self, fabric: Fabric) -> None:
        self._planner = OnlinePlanner(fabric)
        self.kept: tuple[Placed, ...] = ()
        self.health = Health()

    def arrive(self, request: JobRequest, limit: MoveLimit) -> Replan:
        """Plan a job that is submitted."""
        return self._planned((request,), limit)

    def leave(self, job_id: str, limit: MoveLimit) -> Replan:
        """Plan the jobs that are left when one is released."""
        self.kept = tuple(placed for placed in self.kept if placed[0].job_id != job_id)
        return self._planned((), limit)

    def become(self, health: Health, limit: MoveLimit) -> Replan:
        """Plan after cables or switches have failed or returned."""
        self.health = health
        return self._planned((), limit)

    def severed(self, links: frozenset[str]) -> int:
        """Return how many running flows cross any of these links."""
        return sum(not links.isdisjoint(flow.links) for _, job in self.kept for flow in job.flows)

    def tables(self) -> dict[str, FlowTable]:
        """Return the flows of each running job."""
        found = {}
        for request, job in self.kept:
            assert isinstance(job.flows, FlowTable)
            found[request.job_id] = job.flows
        return found

    def _planned(self, requests: Sequence[JobRequest], limit: MoveLimit) -> Replan:
        subject = requests[0].job_id if requests else ""
        plan = self._planner.solve(
            requests, health=self.health, kept=self.kept, limit=limit, subject=subject, has_happened=not requests
        )
        if not isinstance(plan, Replan):
            raise RuntimeError(f"no plan: {plan.why}")
        known = [request for request, _ in self.kept] + list(requests)
        self.kept = tuple(zip(known, plan.jobs, strict=True))
        return plan


def moved_by(plan: Replan) -> int:
    """Return how many flows of running jobs a plan has put on other paths, severed ones included."""
    return sum(moved.flows for moved in plan.moved.values())

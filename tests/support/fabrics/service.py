"""The planner of the service with the jobs that run: what tests of arrivals, departures and failures drive.

Paths are read as link ids and loads are added up here, so that checks share no code with the planner.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import MAX_MOVES, NO_MOVES, MoveLimit, Whose
from heddle.controller.model.plan import Infeasible, JobFlows, Replan
from heddle.controller.planner.online import OnlinePlanner

UNLIMITED = MoveLimit(whose=Whose.ANY, max_flows=MAX_MOVES)


def any_flows(count: int) -> MoveLimit:
    """Return the limit that lets so many flows of any jobs move."""
    return MoveLimit(whose=Whose.ANY, max_flows=count)


class Service:
    """A planner, the jobs that run with their paths in `kept`, and what is out of use in `health`."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric, self.planner = fabric, OnlinePlanner(fabric)
        self.kept: tuple[tuple[JobRequest, JobFlows], ...] = ()
        self.health = Health()

    def answer(
        self, requests: Iterable[JobRequest], limit: MoveLimit = NO_MOVES, planner: OnlinePlanner | None = None
    ) -> Replan | Infeasible:
        """Plan requests, or what has happened where there are none, without an effect."""
        new = tuple(requests)
        subject = new[0].job_id if new else ""
        return (planner or self.planner).solve(
            new, health=self.health, kept=self.kept, limit=limit, subject=subject, has_happened=not new
        )

    def plan(
        self, requests: Iterable[JobRequest], limit: MoveLimit = NO_MOVES, planner: OnlinePlanner | None = None
    ) -> Replan:
        """Plan as `answer` does; the test fails where there is no plan."""
        found = self.answer(requests, limit, planner)
        assert isinstance(found, Replan), found.why
        return found

    def take(self, requests: Iterable[JobRequest], plan: Replan) -> Replan:
        """Let a plan take effect."""
        known = [request for request, _ in self.kept] + list(requests)
        self.kept = tuple(zip(known, plan.jobs, strict=True))
        return plan

    def arrive(self, request: JobRequest, limit: MoveLimit = NO_MOVES) -> Replan:
        return self.take((request,), self.plan((request,), limit))

    def leave(self, job_id: str, limit: MoveLimit = NO_MOVES) -> Replan:
        self.kept = tuple(placed for placed in self.kept if placed[0].job_id != job_id)
        return self.take((), self.plan((), limit))

    def become(self, health: Health, limit: MoveLimit = NO_MOVES) -> Replan:
        self.health = health
        return self.take((), self.plan((), limit))

    def links(self, job_id: str) -> list[tuple[str, ...]]:
        """Return the links between switches of each flow of a job."""
        job = next(flows for request, flows in self.kept if request.job_id == job_id)
        return [flow.links[1:-1] for flow in job.flows]

    def fullest(self) -> Fraction:
        """Return the largest load over capacity of a link between switches."""
        return fullest(self.fabric, (job for _, job in self.kept))


def moved(plan: Replan) -> int:
    """Return how many flows of running jobs a plan has put on other paths."""
    return sum(each.flows for each in plan.moved.values())


def paths(jobs: Iterable[JobFlows]) -> dict[str, tuple[str, ...]]:
    """Return the links of each flow."""
    return {flow.flow_id: flow.links for job in jobs for flow in job.flows}


def loads(fabric: Fabric, jobs: Iterable[JobFlows]) -> dict[str, Fraction]:
    """Return the load over the capacity of each link between switches that has flows, for jobs of one phase."""
    capacity = {link: one.capacity_bps for one in fabric.cables for link in (one.up_link, one.down_link)}
    load: Counter[str] = Counter()
    for job in jobs:
        for flow in job.flows:
            load.update(dict.fromkeys(capacity.keys() & set(flow.links), flow.demand_bps))
    return {link: Fraction(bps, capacity[link]) for link, bps in load.items()}


def fullest(fabric: Fabric, jobs: Iterable[JobFlows]) -> Fraction:
    """Return the largest load over capacity of a link between switches, for jobs of one phase."""
    return max(loads(fabric, jobs).values(), default=Fraction(0))

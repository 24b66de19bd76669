"""Plan jobs offline, beside kept jobs or not: what `heddle plan` and the library share."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from heddle.controller.brain.begin import begin
from heddle.controller.model.error import HeddleError, NoAdmissiblePlanError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import Infeasible, JobFlows
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.placed import Placed
from heddle.controller.planner.solve import Draft, certified, draft
from heddle.controller.views.beside import Changes, changes
from heddle.controller.views.offline import Offline, Origin, offline
from heddle.kernels.cache import kernels_ready, on_compile

if TYPE_CHECKING:
    from heddle.library.by_planner import Foreign

LONG_NS = 1_000_000_000
"""A search that takes longer is not repeated only because kernels were loaded, which takes a tenth of that."""
_compiled: list[str] = []
"""The kernels that this process has compiled since the list was cleared."""
on_compile(_compiled.append)


class KeptJob(Protocol):
    """A job that keeps its paths: its request, its flows, and the generation of its plan."""

    @property
    def request(self) -> JobRequest:
        """Return what was asked for."""

    @property
    def flows(self) -> JobFlows:
        """Return the flows with their paths and ports."""

    @property
    def generation(self) -> int:
        """Return the number of its plan."""


class Kept(NamedTuple):
    """Jobs that keep their live paths, and by name what has failed since they were planned."""

    jobs: Sequence[KeptJob]
    failures: dict[str, Health]

    @property
    def placed(self) -> list[tuple[JobRequest, JobFlows]]:
        """Return the jobs as the planner takes them."""
        return [(job.request, job.flows) for job in self.jobs]


class Solved(NamedTuple):
    """All jobs' plans, kept ones first, and what changes for kept jobs; None where that was not compared."""

    plan: Offline
    changes: Changes | None


def solved(
    fabric: Fabric, requests: Sequence[JobRequest], kept: Kept, *, compare: bool, planner: "Foreign | None" = None
) -> Solved:
    """Plan the requests beside the kept jobs; raises PlanError where there is no plan.

    With `compare`, flows of kept jobs on failed links are planned again, and the changes are returned. A `planner` of
    another distribution chooses the paths where it is given; ports, rates and the certificate follow as for ours.
    """
    placed = _split_again(fabric, kept.placed) if compare else kept.placed
    search = partial(draft, fabric, requests, health=fabric.failed, kept=placed, replan_dead=compare)
    drafted, solve_ns = _drafted(search)
    if planner is not None and isinstance(drafted, Draft):  # there are paths, so it is for the planner to find some
        from heddle.library.by_planner import chosen_by

        found = chosen_by(planner, fabric, requests, placed, drafted, replan_dead=compare)
        solve_ns = round(found.processor_s * 1e9)
        drafted = draft(fabric, requests, health=fabric.failed, kept=placed, replan_dead=compare, chosen=found.chosen)
    if isinstance(drafted, Infeasible):
        raise NoAdmissiblePlanError(drafted.why)
    plan = certified(drafted)
    if isinstance(plan, Infeasible):
        raise NoAdmissiblePlanError(plan.why)
    changed = changes(fabric, placed, kept.failures, drafted) if compare else None
    origins = _origins(kept.jobs, changed) if changed is not None else {}
    if planner is not None:
        origins |= {request.job_id: Origin(reason=f"planned offline by {planner.name}") for request in requests}
    planned = offline(begin(fabric), drafted.jobs, plan, solve_ns, origins)
    if isinstance(planned, HeddleError):
        raise planned
    return Solved(planned, changed)


def _split_again(fabric: Fabric, placed: list[Placed]) -> list[Placed]:
    """Return kept jobs whose flows are split among planes by what these have left with the failures of the fabric."""
    topology = topology_of(fabric)
    if topology.ports_of_rank is None:
        return placed
    live, found = Live.of(topology, fabric.failed), list[Placed]()
    for request, job in placed:
        demands = expand(topology, (request,), live=live).demand_bps.tolist()
        flows = [replace(flow, demand_bps=bps) for flow, bps in zip(job.flows, demands, strict=True)]
        found.append((request, replace(job, flows=flows)))
    return found


def _drafted(search: Callable[[], Draft | Infeasible]) -> tuple[Draft | Infeasible, int]:
    """Find paths, ports and rates; return them and the time in ns, which holds no loading of kernels.

    Where the search loaded kernels, it is done again: the result is the same.
    """
    while True:
        _compiled.clear()
        ready, began = kernels_ready(), time.perf_counter_ns()
        drafted = search()
        solve_ns = time.perf_counter_ns() - began
        if kernels_ready() == ready or (solve_ns > LONG_NS and not _compiled):
            return drafted, solve_ns


def _origins(kept: Sequence[KeptJob], changed: Changes) -> dict[str, Origin]:
    """Return the generation of each kept job, one more where flows moved, and its reason."""
    found = {}
    for job, change in zip(kept, changed.jobs, strict=True):
        moved = len(change.moved)
        reason = f"{moved} of {change.flows} flows moved off failed links" if moved else "kept"
        found[change.job_id] = Origin(job.generation + (moved > 0), reason, moved)
    return found

"""Bound what any plan can reach, predict what hashing reaches, and when flows complete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heddle.controller.config.load import check_requests
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.planner.ground.clos import Live, Topology, topology_of
from heddle.controller.planner.ground.expand import Flows, expand
from heddle.controller.planner.ground.placed import placed_paths
from heddle.controller.planner.ground.segments import segments_of
from heddle.controller.planner.proof.bound import Bound, lower_bound
from heddle.controller.planner.proof.ecmp import ecmp_figures, name_of
from heddle.controller.planner.spread.lists import may_spray
from heddle.library.fluid.completion import path_outcome
from heddle.library.plan import Plan, with_failed


def bound(fabric: Fabric, jobs: Sequence[JobRequest], *, failed: Sequence[str] = ()) -> Bound:
    """Return a utilisation of the fullest link that no plan of these jobs can beat, and the kind of its proof.

    1.0 is a full link between switches. `failed` is as for `plan`. Raises InputError ("Lower bound" in
    docs/contract.md).
    """
    topology, live, flows = _expanded(fabric, jobs, failed)
    return lower_bound(topology, live, flows)


class Hashed(NamedTuple):
    """The utilisation of the fullest link under ECMP and E-ECMP, each the median over 16 seeds; 1.0 is a full link."""

    ecmp_max_link_utilisation: float
    e_ecmp_max_link_utilisation: float


def ecmp(fabric: Fabric, jobs: Sequence[JobRequest], *, failed: Sequence[str] = ()) -> Hashed:
    """Return what hashing makes of these jobs: CRC32 over the 5-tuple, with random source ports.

    ECMP has one queue pair per flow, E-ECMP at least 4. `failed` is as for `plan`. Raises InputError ("ECMP figures" in
    docs/contract.md).
    """
    topology, live, flows = _expanded(fabric, jobs, failed)
    names = [name_of(job.job_id) for job in jobs]
    return Hashed(*ecmp_figures(topology, segments_of(topology, live), flows, names))


def _expanded(
    fabric: Fabric, jobs: Sequence[JobRequest], failed: Sequence[str]
) -> tuple[Topology, Live, Flows]:  # fmt: skip
    fabric = with_failed(fabric, failed)
    check_requests("heddle", "jobs", jobs, fabric)
    topology = topology_of(fabric)
    live = Live.of(topology, fabric.failed)
    return topology, live, expand(topology, jobs, live=live)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """When the flows of a plan complete, by flow id, if all start together.

    `times_ns` are in nanoseconds from the common start, infinite for a flow without bandwidth; `rates_bps` are the
    max-min fair rates in bit/s while all flows are active; a `slowdown` is the time over that at the flow's demand.
    """

    times_ns: Mapping[str, float]
    rates_bps: Mapping[str, float]
    slowdown: Mapping[str, float]

    @property
    def last_ns(self) -> float:
        """Return when the last flow completes, 0 without flows."""
        return max(self.times_ns.values(), default=0.0)


def completion(plan: Plan) -> Completion:
    """Return the fluid completion times of one iteration: rates are max-min fair and change at once when a flow ends.

    Flows send their collective's bytes at up to their demand; without any bytes, for one second. Of a job with several
    phases the heaviest takes part. Queues, headers, pauses and propagation are not modelled. Raises InputError for
    flows over several paths (`paths_per_flow`): `predicted_completion_ns` of `plan.job_plans` has their time.
    """
    topology = topology_of(plan.fabric)
    if may_spray(topology, plan.jobs):
        raise InputError(
            "completion: paths_per_flow: the model knows one path a flow; read predicted_completion_ns of each job plan"
        )
    paths = placed_paths(topology, [(job, one.flows) for job, one in zip(plan.jobs, plan.job_plans, strict=True)])
    found = path_outcome(topology, paths.flows, paths.hops)
    ids = [plan.flows[row].flow_id for row in found.rows.tolist()]
    return Completion(
        times_ns=dict(zip(ids, found.completion_ns.tolist(), strict=True)),
        rates_bps=dict(zip(ids, found.rates_bps.tolist(), strict=True)),
        slowdown=dict(zip(ids, found.slowdown.tolist(), strict=True)),
    )

"""Plan jobs, and ask a plan for its paths, ports, loads and rates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from heddle.controller.config import failed_of
from heddle.controller.config.load import check_requests
from heddle.controller.config.text.complaint import refusal
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import Certificate, FlowPlan, JobPlan
from heddle.controller.views.beside import Changes
from heddle.controller.views.offline import Offline
from heddle.library.by_planner import Foreign
from heddle.library.document import plan_pieces
from heddle.library.first_use import report
from heddle.library.solving import Kept, solved
from heddle.planners.installed import LIMIT_S

if TYPE_CHECKING:
    import pandas as pd

report()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plan:
    """A plan of all jobs on a fabric: a path, a source port and a rate for every queue pair.

    `fabric` has the failures that the plan respects, `jobs` the requests in the order of `offline.jobs`. `certificate`
    is that of the whole plan: `max_link_utilisation` beside the proven `lower_bound`, and ECMP's figures. `offline` has
    each job's own plan, and the rules of every switch.
    """

    fabric: Fabric
    jobs: tuple[JobRequest, ...]
    offline: Offline
    certificate: Certificate

    def __repr__(self) -> str:
        """Return one line: a plan may have a million flows."""
        flows, found = sum(len(job.flows.flows) for job in self.job_plans), self.certificate
        return (
            f"<Plan: {len(self.jobs)} jobs, {flows:,} flows, fullest link {found.max_link_utilisation:.4g}, "
            f"lower bound {found.lower_bound:.4g}>"
        )

    @property
    def job_plans(self) -> tuple[JobPlan, ...]:
        """Return each job's own plan, in the order of `jobs`."""
        return self.offline.jobs

    @cached_property
    def flows(self) -> tuple[FlowPlan, ...]:
        """Return the plan of every queue pair, job by job; rates and demands are in bit/s."""
        return tuple(chain.from_iterable(job.flows.flows for job in self.job_plans))

    @cached_property
    def paths(self) -> Mapping[str, tuple[str, ...]]:
        """Return the directed links of every flow by flow id, the links of both NICs included."""
        return {flow.flow_id: flow.links for flow in self.flows}

    @cached_property
    def ports(self) -> Mapping[str, int]:
        """Return the UDP source port of every flow by flow id; the port selects the path."""
        return {flow.flow_id: flow.udp_source_port for flow in self.flows}

    @cached_property
    def loads_bps(self) -> Mapping[str, int]:
        """Return the load of every directed link that has any, in bit/s by link id.

        It is the sum over jobs of each job's heaviest phase there ("Load of a directed link" in docs/contract.md).
        """
        total: Counter[str] = Counter()
        for job in self.job_plans:
            total.update(job.flows.link_loads_bps)
        return dict(total)

    @cached_property
    def utilisation(self) -> Mapping[str, float]:
        """Return load over capacity of every directed link that has load, by link id; 1.0 is a full link."""
        capacity = {link.id: link.capacity_bps for link in self.fabric.directed_links}
        return {
            link: load / capacity[link] if capacity[link] else float("inf") for link, load in self.loads_bps.items()
        }

    def to_json(self, *, rules: bool = False) -> str:
        """Return the JSON document of `heddle plan --json` (docs/plan.md), with the rules of all switches if wanted."""
        return "".join(plan_pieces(self.fabric, self.jobs, self.offline, rules=rules))

    def to_frame(self) -> "pd.DataFrame":
        """Return a pandas DataFrame with a row per flow; its columns are the fields of `FlowPlan`, and `job_id`.

        Raises PrerequisiteError where pandas is not installed.
        """
        pandas = _pandas()
        rows = [(job.job_id, flow) for job in self.job_plans for flow in job.flows.flows]
        columns = [name for name in FlowPlan.__dataclass_fields__ if name != "window"]
        found: pd.DataFrame = pandas.DataFrame(
            [(job_id, *(getattr(flow, name) for name in columns)) for job_id, flow in rows],
            columns=["job_id", *columns],
        )
        return found


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError:
        raise PrerequisiteError("to_frame needs pandas, which is not installed: pip install pandas") from None
    return pandas


def plan(
    fabric: Fabric,
    jobs: Sequence[JobRequest],
    *,
    failed: Sequence[str] = (),
    beside: Plan | None = None,
    planner: str | None = None,
    planner_limit_s: float = LIMIT_S,
) -> Plan:
    """Plan jobs on a fabric, offline: the same input gives the same plan as `heddle plan`.

    `failed` names links, switches and NIC links that are out of use, besides `fabric.failed`; a link is
    `leaf1:1>spine1:1`. The jobs of `beside`, an earlier plan of this fabric, keep their live paths and come first.
    `planner` names an installed planner (docs/planners.md), which chooses the paths within `planner_limit_s` seconds.
    Raises InputError for an invalid job or an unknown name, with a line per problem; NoAdmissiblePlanError where a flow
    has no path or a job's `require_utilisation` cannot be met; BudgetExceededError for a switch with too many rules;
    AlreadyExistsError where a source port of one pair of NICs is asked for twice; PlannerError where `planner` fails.
    """
    foreign = Foreign(planner, planner_limit_s) if planner is not None else None
    return planned(with_failed(fabric, failed), jobs, beside, {}, foreign)[0]


def planned(
    fabric: Fabric, jobs: Sequence[JobRequest], beside: Plan | None, failures: Mapping[str, Health],
    planner: Foreign | None = None,
) -> tuple[Plan, Changes | None]:  # fmt: skip
    """Return the plan of checked jobs beside kept ones, and what changes for those."""
    requests, earlier = tuple(jobs), beside.jobs if beside else ()
    if beside is not None and beside.fabric.digest != fabric.digest:
        raise InputError("beside: the plan is for another fabric; plan its jobs on this one")
    check_requests("heddle", "jobs", (*earlier, *requests), fabric)
    kept = Kept([_Kept(*each) for each in zip(earlier, beside.job_plans, strict=True)] if beside else [], {**failures})
    found = solved(fabric, requests, kept, compare=beside is not None, planner=planner)
    certificate = found.plan.jobs[0].certificate if found.plan.jobs else Certificate()
    every = (*earlier, *requests)
    return Plan(fabric=fabric, jobs=every, offline=found.plan, certificate=certificate), found.changes


class _Kept:
    """A job of an earlier plan, as the planner keeps it."""

    def __init__(self, request: JobRequest, before: JobPlan) -> None:
        self.request, self.flows, self.generation = request, before.flows, before.generation


def with_failed(fabric: Fabric, names: Sequence[str]) -> Fabric:
    """Return the fabric where these links and switches are out of use too; raises InputError for an unknown name."""
    return replace(fabric, failed=fabric.failed.union(health_of(fabric, names))) if names else fabric


def health_of(fabric: Fabric, names: Sequence[str]) -> Health:
    """Return the failures of these names; raises InputError with a line for each unknown one."""
    if isinstance(names, str):
        raise InputError(f"failed: must be a list of names, is one text; write [{names!r}]")
    health, found = failed_of(names, fabric)
    if found:
        raise refusal("heddle", found)
    return health

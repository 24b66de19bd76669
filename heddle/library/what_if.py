"""Compare a plan with the one that failures or another placement make of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from heddle.controller.model.error import InputError
from heddle.controller.model.suggest import did_you_mean
from heddle.library.plan import Plan, health_of, planned, with_failed


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WhatIf:
    """Two plans of the same jobs, and what differs.

    `moved` are the ids of flows that both plans have on different links. `lost` is, for each name that failed, the
    number of flows of `before` whose path it takes.
    """

    before: Plan
    after: Plan
    moved: tuple[str, ...]
    lost: Mapping[str, int]

    def __repr__(self) -> str:
        """Return one line."""
        return f"<WhatIf: {len(self.moved):,} flows moved, before {self.before!r}, after {self.after!r}>"


def what_if(
    plan: Plan, *, failed: Sequence[str] = (), placement: Mapping[str, Sequence[str]] | None = None
) -> WhatIf:  # fmt: skip
    """Return what becomes of a plan if links or switches fail, or if jobs have other NICs.

    `failed` names them as `plan` does; flows on live paths keep them. `placement` has NIC ids, one per rank, by the id
    of each job that moves; such a job is planned anew, after the others. Raises InputError for an unknown name, and
    PlanError where there is no plan.
    """
    moves = placement or {}
    known = {job.job_id: job for job in plan.jobs}
    for job_id in moves:
        if job_id not in known:
            raise InputError(f"placement: no job {job_id!r} in the plan{did_you_mean(job_id, known)}")
    failures = {name: health_of(plan.fabric, [name]) for name in failed}
    stay = [number for number, job in enumerate(plan.jobs) if job.job_id not in moves]
    kept = replace(
        plan,
        jobs=tuple(plan.jobs[number] for number in stay),
        offline=replace(plan.offline, jobs=tuple(plan.job_plans[number] for number in stay)),
    )
    placed = [replace(known[job_id], ranks=tuple(ranks)) for job_id, ranks in moves.items()]
    after, changes = planned(with_failed(plan.fabric, failed), placed, kept, failures)
    moved = (flow for flow, links in after.paths.items() if plan.paths.get(flow, links) != links)
    return WhatIf(before=plan, after=after, moved=tuple(moved), lost=changes.lost if changes is not None else {})

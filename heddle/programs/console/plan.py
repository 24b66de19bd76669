"""`heddle plan`: plan jobs offline and print the plan as tables or as JSON.

Modules that only one form of output needs are imported there: imports are most of the time of a small plan.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from heddle.controller.config import load_fabric, load_jobs
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.srv6 import sids_of
from heddle.controller.planner.warm import prepare
from heddle.controller.views.hint import queue_pair_hint
from heddle.foundation.kept_memory import PLAN_BYTES_OF_A_NIC, keep_memory
from heddle.library.solving import Kept, KeptJob, Solved, solved
from heddle.programs.console import show
from heddle.programs.console.compiling import compiling
from heddle.programs.console.kept_plan import failures_of, kept_jobs, with_failures

if TYPE_CHECKING:
    from heddle.library.by_planner import Foreign


def run_plan(
    fabric_path: Path, jobs_path: Path, *, as_json: bool, rules: bool, beside: Path | None = None,
    failed: Sequence[str] = (), planner: "Foreign | None" = None,
) -> None:  # fmt: skip
    """Plan the jobs of a file and print the result; raises HeddleError.

    `beside` is a plan file whose jobs keep their paths, `failed` names links and switches that fail besides those of
    the fabric file. `planner` is an installed planner, which chooses the paths.
    """
    fabric = load_fabric(fabric_path)
    failures = failures_of(failed, fabric)
    if failures:  # a fabric of its own computes its groups of cables and port bits again
        fabric = replace(fabric, failed=with_failures(fabric, failures))
    requests = load_jobs(jobs_path, fabric)
    kept = Kept(kept_jobs(beside, fabric) if beside else [], failures)
    if beside:
        _refuse_taken(beside, kept.jobs, jobs_path, requests)
    planning = f"planning {len(requests)} jobs on {len(fabric.switches)} switches"
    with show.progress(planning) as shown, compiling(shown):
        keep_memory(PLAN_BYTES_OF_A_NIC * len(fabric.nics))
        prepare(fabric)
        result = solved(fabric, requests, kept, compare=beside is not None, planner=planner)
        hint = _hint(fabric, requests, result, kept) if planner is None else None
    if as_json:
        from heddle.library.document import plan_pieces

        every = [*(job.request for job in kept.jobs), *requests]
        for piece in plan_pieces(fabric, every, result.plan, hint=hint, changes=result.changes, rules=rules):
            sys.stdout.write(piece)
        print()
        return
    show.plans(result.plan.jobs, hint, result.changes, sids_of(fabric))
    if rules:
        from heddle.controller.rules.listing import group_rows, rows
        from heddle.library.document import imbalance_rows

        show.rules(rows(fabric, result.plan.rules), group_rows(fabric, result.plan.rules))
        show.imbalance(imbalance_rows(fabric))


def _hint(fabric: Fabric, requests: Sequence[JobRequest], result: Solved, kept: Kept) -> str | None:
    """Return what a change of the jobs would improve, None where that is nothing."""
    return queue_pair_hint(fabric, requests, result.plan.jobs[0].certificate, kept.placed) if result.plan.jobs else None


def _refuse_taken(beside: Path, kept: Sequence[KeptJob], jobs_path: Path, requests: Sequence[JobRequest]) -> None:
    """Raise InputError for a new job whose id a kept one has."""
    taken = {job.request.job_id for job in kept}
    for index, request in enumerate(requests):
        if request.job_id in taken:
            where = f"{jobs_path}: jobs[{index}].job_id"
            raise InputError(f"{where}: {request.job_id} is a job of {beside}; choose another id")

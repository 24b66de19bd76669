"""`heddle plan`: plan jobs offline and print the plan as tables or as JSON.

Modules that only one form of output needs are imported there: imports are most of the time of a small plan.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from heddle.controller.brain.begin import begin
from heddle.controller.config import load_fabric, load_jobs
from heddle.controller.model.error import HeddleError, InputError, NoAdmissiblePlanError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import Infeasible, JobFlows
from heddle.controller.model.srv6 import sids_of
from heddle.controller.model.steering import layout_of
from heddle.controller.planner.solve import Draft, certified, draft
from heddle.controller.planner.warm import prepare
from heddle.controller.views.beside import Changes, changes
from heddle.controller.views.hint import queue_pair_hint
from heddle.controller.views.offline import Offline, Origin, offline
from heddle.kernels.cache import kernels_ready, on_compile
from heddle.programs.console import show
from heddle.programs.console.compiling import compiling
from heddle.programs.console.kept_plan import failures_of, kept_jobs, with_failures

if TYPE_CHECKING:
    from heddle.controller.config.plan_file import KeptJob

LONG_NS = 1_000_000_000
"""A search that takes longer is not repeated only because kernels were loaded, which takes a tenth of that."""


class _Kept(NamedTuple):
    """The jobs of the plan file that `--beside` names, and the failures that `--failed` names."""

    jobs: "list[KeptJob]"
    failures: dict[str, Health]

    @property
    def placed(self) -> list[tuple[JobRequest, JobFlows]]:
        return [(job.request, job.flows) for job in self.jobs]


class _Result(NamedTuple):
    """All that is printed."""

    plan: Offline
    changes: Changes | None
    hint: str | None


def run_plan(
    fabric_path: Path, jobs_path: Path, *, as_json: bool, rules: bool, beside: Path | None = None,
    failed: Sequence[str] = (),
) -> None:  # fmt: skip
    """Plan the jobs of a file and print the result; raises HeddleError.

    `beside` is a plan file whose jobs keep their paths, `failed` names links and switches that fail besides those of
    the fabric file.
    """
    fabric = load_fabric(fabric_path)
    failures = failures_of(failed, fabric)
    fabric = replace(fabric, failed=with_failures(fabric, failures))
    requests = load_jobs(jobs_path, fabric)
    kept = _Kept(kept_jobs(beside, fabric) if beside else [], failures)
    if beside:
        _refuse_taken(beside, kept.jobs, jobs_path, requests)
    planning = f"planning {len(requests)} jobs on {len(fabric.switches)} switches"
    with show.progress(planning) as shown, compiling(shown):
        prepare(fabric)
        result = _planned(fabric, requests, kept, compare=beside is not None)
    every = [*(job.request for job in kept.jobs), *requests]
    if as_json:
        for piece in _json_pieces(fabric, every, result, rules):
            sys.stdout.write(piece)
        print()
        return
    show.plans(result.plan.jobs, result.hint, result.changes, sids_of(fabric))
    if rules:
        from heddle.controller.rules.listing import group_rows, rows

        show.rules(rows(fabric, result.plan.rules), group_rows(fabric, result.plan.rules))
        show.imbalance(_imbalance(fabric))


def _refuse_taken(beside: Path, kept: "Sequence[KeptJob]", jobs_path: Path, requests: Sequence[JobRequest]) -> None:
    """Raise InputError for a new job whose id a kept one has."""
    taken = {job.request.job_id for job in kept}
    for index, request in enumerate(requests):
        if request.job_id in taken:
            where = f"{jobs_path}: jobs[{index}].job_id"
            raise InputError(f"{where}: {request.job_id} is a job of {beside}; choose another id")


def _planned(fabric: Fabric, requests: Sequence[JobRequest], kept: _Kept, *, compare: bool) -> _Result:
    """Plan the requests beside the kept jobs; raises HeddleError where there is no plan."""
    placed = kept.placed
    search = partial(draft, fabric, requests, health=fabric.failed, kept=placed, replan_dead=compare)
    drafted, solve_ns = _drafted(search)
    if isinstance(drafted, Infeasible):
        raise NoAdmissiblePlanError(drafted.why)
    plan = certified(drafted)
    if isinstance(plan, Infeasible):
        raise NoAdmissiblePlanError(plan.why)
    changed = changes(fabric, placed, kept.failures, drafted) if compare else None
    found = offline(
        begin(fabric), drafted.jobs, plan, solve_ns, _origins(kept.jobs, changed) if changed is not None else None
    )
    if isinstance(found, HeddleError):
        raise found
    return _Result(found, changed, queue_pair_hint(fabric, requests, plan.certificate, placed))


def _drafted(search: Callable[[], Draft | Infeasible]) -> tuple[Draft | Infeasible, int]:
    """Find paths, ports and rates; return them and the time in ns, which holds no loading of kernels.

    `prepare` has loaded those of the usual cases. Where the search took others, it is done again: the result is the
    same.
    """
    compiled: list[str] = []
    on_compile(compiled.append)
    while True:
        compiled.clear()
        ready, began = kernels_ready(), time.perf_counter_ns()
        drafted = search()
        solve_ns = time.perf_counter_ns() - began
        if kernels_ready() == ready or (solve_ns > LONG_NS and not compiled):
            return drafted, solve_ns


def _origins(kept: "Sequence[KeptJob]", changed: Changes) -> dict[str, Origin]:
    """Return the generation of each kept job, one more where flows moved, and its reason."""
    found = {}
    for job, change in zip(kept, changed.jobs, strict=True):
        moved = len(change.moved)
        reason = f"{moved} of {change.flows} flows moved off failed links" if moved else "kept"
        found[change.job_id] = Origin(job.generation + (moved > 0), reason, moved)
    return found


def _json_pieces(fabric: Fabric, requests: Sequence[JobRequest], result: _Result, rules: bool) -> Iterator[str]:
    """Yield the JSON text in pieces, so that the whole is never in memory; `requests` are those of all jobs."""
    from heddle.controller.api.path_sets import every_path
    from heddle.controller.api.plan_json import job_pieces
    from heddle.controller.config.write import request_document
    from heddle.controller.rules.listing import group_rows, rows

    found = result.plan
    yield '{"jobs": ['
    for number, job in enumerate(found.jobs):
        yield ", " if number else ""
        yield from job_pieces(job, sids_of(fabric), every_path(fabric))
    yield f'], "fabric": {json.dumps({"name": fabric.name, "digest": fabric.digest})}'
    yield f', "requests": {json.dumps([request_document(request) for request in requests])}'
    yield f', "hints": {json.dumps([result.hint] if result.hint else [])}'
    if result.changes is not None:
        yield f', "changes": {json.dumps(result.changes.as_json())}'
    if rules:
        yield f', "rules": {json.dumps(rows(fabric, found.rules))}'
        yield f', "groups": {json.dumps(group_rows(fabric, found.rules))}'
        yield f', "imbalance": {json.dumps(_imbalance(fabric))}'
    yield "}"


def _imbalance(fabric: Fabric) -> list[dict[str, object]]:
    """Return how evenly unplanned traffic spreads, a row per kind of path choice in the fabric."""
    from heddle.controller.rules.underlay.imbalance import imbalances

    return [{**line._asdict(), "stage": line.stage.name} for line in imbalances(fabric, layout_of(fabric))]

"""`heddle plan`: plan jobs offline and print the plan as tables or as JSON.

Modules that only one form of output needs are imported there: imports are most of the time of a small plan.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from controller.brain.state import begin
from controller.cli import show
from controller.cli.compiling import compiling
from controller.config import load_fabric, load_jobs
from controller.model.error import HeddleError, NoAdmissiblePlanError
from controller.model.fabric import Fabric
from controller.model.plan import Infeasible
from controller.model.steering import layout_of
from controller.planner.solve import certified, draft
from controller.planner.warm import prepare
from controller.views.offline import Offline, offline


def run_plan(fabric_path: Path, jobs_path: Path, *, as_json: bool, rules: bool) -> None:
    """Plan the jobs of a file and print the result; raises HeddleError."""
    fabric = load_fabric(fabric_path)
    requests = load_jobs(jobs_path, fabric)
    planning = f"planning {len(requests)} jobs on {len(fabric.switches)} switches"
    with show.progress(planning) as shown, compiling(shown):
        prepare(fabric)
        started = time.perf_counter_ns()
        drafted = draft(fabric, requests, health=fabric.failed)
        solve_ns = time.perf_counter_ns() - started
        plan = drafted if isinstance(drafted, Infeasible) else certified(drafted)
        if isinstance(plan, Infeasible):
            raise NoAdmissiblePlanError(plan.why)
        found = offline(begin(fabric), requests, plan, solve_ns)
        if isinstance(found, HeddleError):
            raise found
    if as_json:
        for piece in _json_pieces(fabric, found, rules):
            sys.stdout.write(piece)
        print()
    else:
        show.plans(found.jobs)
        if rules:
            from controller.rules.listing import group_rows, rows

            show.rules(rows(fabric, found.rules), group_rows(fabric, found.rules))
            show.imbalance(_imbalance(fabric))


def _json_pieces(fabric: Fabric, found: Offline, rules: bool) -> Iterator[str]:
    """Yield the JSON text in pieces, so that the whole is never in memory."""
    from controller.api.plan_json import job_pieces
    from controller.rules.listing import group_rows, rows

    yield '{"jobs": ['
    for number, job in enumerate(found.jobs):
        yield ", " if number else ""
        yield from job_pieces(job)
    yield "]"
    if rules:
        yield f', "rules": {json.dumps(rows(fabric, found.rules))}'
        yield f', "groups": {json.dumps(group_rows(fabric, found.rules))}'
        yield f', "imbalance": {json.dumps(_imbalance(fabric))}'
    yield "}"


def _imbalance(fabric: Fabric) -> list[dict[str, object]]:
    """Return how evenly unplanned traffic spreads, a row per kind of path choice in the fabric."""
    from controller.rules.underlay.imbalance import imbalances

    return [{**line._asdict(), "stage": line.stage.name} for line in imbalances(fabric, layout_of(fabric))]

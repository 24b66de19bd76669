"""`heddle plan`: a plan offline, as a table for people or JSON for machines."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from controller.api.plan_json import job_pieces
from controller.brain.state import begin
from controller.cli import show
from controller.config import load_fabric, load_jobs
from controller.model.error import HeddleError, NoAdmissiblePlanError
from controller.model.fabric import Fabric
from controller.model.plan import Infeasible
from controller.model.steering import layout_of
from controller.planner.solve import certified, draft
from controller.planner.warm import prepare
from controller.rules.listing import group_rows, rows
from controller.rules.underlay.imbalance import imbalances
from controller.views.offline import Offline, offline


def run_plan(fabric_path: Path, jobs_path: Path, *, as_json: bool, rules: bool) -> None:
    """Plan and print; raises HeddleError."""
    fabric = load_fabric(fabric_path)
    requests = load_jobs(jobs_path, fabric)
    with show.progress(f"planning {len(requests)} jobs on {len(fabric.switches)} switches"):
        prepare(fabric)
        started = time.perf_counter_ns()
        drafted = draft(fabric, requests, health=fabric.failed)
        solve_ns = time.perf_counter_ns() - started
        plan = drafted if isinstance(drafted, Infeasible) else certified(drafted)
        if isinstance(plan, Infeasible):
            raise NoAdmissiblePlanError(plan.why)
        answer = offline(begin(fabric), requests, plan, solve_ns)
        if isinstance(answer, HeddleError):
            raise answer
    if as_json:
        for piece in _json_pieces(fabric, answer, rules):
            sys.stdout.write(piece)
        print()
    else:
        show.plans(answer.jobs)
        if rules:
            show.rules(rows(fabric, answer.rules), group_rows(fabric, answer.rules))
            show.imbalance(_imbalance(fabric))


def _json_pieces(fabric: Fabric, answer: Offline, rules: bool) -> Iterator[str]:
    """Yield the JSON text of an answer without ever holding the whole of it."""
    yield '{"jobs": ['
    for number, job in enumerate(answer.jobs):
        yield ", " if number else ""
        yield from job_pieces(job)
    yield "]"
    if rules:
        yield f', "rules": {json.dumps(rows(fabric, answer.rules))}'
        yield f', "groups": {json.dumps(group_rows(fabric, answer.rules))}'
        yield f', "imbalance": {json.dumps(_imbalance(fabric))}'
    yield "}"


def _imbalance(fabric: Fabric) -> list[dict[str, object]]:
    """How even unplanned traffic is spread, for every way of choosing in the fabric."""
    return [{**line._asdict(), "stage": line.stage.name} for line in imbalances(fabric, layout_of(fabric))]

"""`heddle plan`: a plan offline, as a table for people or JSON for machines."""

import json
import sys
import time
from pathlib import Path

from google.protobuf.json_format import MessageToDict

from controller.api.translate import plan_to
from controller.brain.offline import Offline, offline
from controller.brain.state import begin
from controller.cli import show
from controller.config import load_fabric, load_jobs
from controller.model.error import HeddleError, NoAdmissiblePlan
from controller.model.fabric import Fabric
from controller.model.plan import Infeasible
from controller.model.steering import layout_of
from controller.planner.solve import solve
from controller.rules.imbalance import imbalances
from controller.rules.listing import group_rows, rows


def run_plan(fabric_path: Path, jobs_path: Path, *, as_json: bool, rules: bool) -> None:
    """Plan and print; raises HeddleError."""
    fabric = load_fabric(fabric_path)
    requests = load_jobs(jobs_path, fabric)
    with show.progress(f"planning {len(requests)} jobs on {len(fabric.switches)} switches"):
        started = time.perf_counter_ns()
        plan = solve(fabric, requests, health=fabric.failed)
        solve_ns = time.perf_counter_ns() - started
        if isinstance(plan, Infeasible):
            raise NoAdmissiblePlan(plan.why)
        answer = offline(begin(fabric), requests, plan, solve_ns)
        if isinstance(answer, HeddleError):
            raise answer
    if as_json:
        json.dump(_as_json(fabric, answer, rules), sys.stdout)
        print()
    else:
        show.plans(answer.jobs)
        if rules:
            show.rules(rows(fabric, answer.rules), group_rows(fabric, answer.rules))
            show.imbalance(_imbalance(fabric))


def _as_json(fabric: Fabric, answer: Offline, rules: bool) -> dict[str, object]:
    found: dict[str, object] = {
        "jobs": [
            MessageToDict(
                plan_to(job, room=None),
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for job in answer.jobs
        ]
    }
    if rules:
        found["rules"] = rows(fabric, answer.rules)
        found["groups"] = group_rows(fabric, answer.rules)
        found["imbalance"] = _imbalance(fabric)
    return found


def _imbalance(fabric: Fabric) -> list[dict[str, object]]:
    """How even unplanned traffic is spread, for every way of choosing in the fabric."""
    return [{**line._asdict(), "stage": line.stage.name} for line in imbalances(fabric, layout_of(fabric))]

"""Write a plan as the JSON document of `heddle plan --json`; docs/plan.md describes it."""

import json
from collections.abc import Iterator, Sequence

from heddle.controller.api.path_sets import every_path
from heddle.controller.api.plan_json import job_pieces
from heddle.controller.config.write import request_document
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.srv6 import sids_of
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.listing import group_rows, rows
from heddle.controller.rules.underlay.imbalance import imbalances
from heddle.controller.views.beside import Changes
from heddle.controller.views.offline import Offline


def plan_pieces(
    fabric: Fabric, requests: Sequence[JobRequest], plan: Offline, *, hint: str | None = None,
    changes: Changes | None = None, rules: bool = False,
) -> Iterator[str]:  # fmt: skip
    """Yield the JSON text in pieces, so that the whole is never in memory; `requests` are those of all jobs."""
    yield '{"jobs": ['
    for number, job in enumerate(plan.jobs):
        yield ", " if number else ""
        yield from job_pieces(job, sids_of(fabric), every_path(fabric))
    yield f'], "fabric": {json.dumps({"name": fabric.name, "digest": fabric.digest})}'
    yield f', "requests": {json.dumps([request_document(request) for request in requests])}'
    yield f', "hints": {json.dumps([hint] if hint else [])}'
    if changes is not None:
        yield f', "changes": {json.dumps(changes.as_json())}'
    if rules:
        yield f', "rules": {json.dumps(rows(fabric, plan.rules))}'
        yield f', "groups": {json.dumps(group_rows(fabric, plan.rules))}'
        yield f', "imbalance": {json.dumps(imbalance_rows(fabric))}'
    yield "}"


def imbalance_rows(fabric: Fabric) -> list[dict[str, object]]:
    """Return how evenly unplanned traffic spreads, a row per kind of path choice in the fabric."""
    return [{**line._asdict(), "stage": line.stage.name} for line in imbalances(fabric, layout_of(fabric))]

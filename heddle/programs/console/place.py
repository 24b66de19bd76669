"""`heddle suggest`: placements for a job on the fabric of a file, as a running controller would suggest them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from heddle.controller.api.translate import placements_to
from heddle.controller.config import load_fabric
from heddle.controller.model.error import InputError, NoAdmissiblePlanError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.placement import Shape, placement_problems
from heddle.controller.model.plan import Infeasible
from heddle.controller.planner.ground.placed import Placed
from heddle.controller.planner.placement.suggest import suggest
from heddle.controller.planner.solve import certified, draft
from heddle.controller.planner.warm import prepare
from heddle.programs.console import show
from heddle.programs.console.compiling import compiling
from heddle.programs.console.kept_plan import failures_of, kept_jobs, with_failures
from heddle.programs.console.suggest import print_reply


def run_place(
    fabric_path: Path, shape: Shape, *, as_json: bool, beside: Path | None = None, failed: Sequence[str] = ()
) -> None:
    """Print placements, best first; raises HeddleError. `beside` and `failed` are those of `heddle plan`."""
    if problems := placement_problems(shape):
        raise InputError(*(f"{problem.path}: {problem.text}" for problem in problems))
    fabric = load_fabric(fabric_path)
    fabric = replace(fabric, failed=with_failures(fabric, failures_of(failed, fabric)))
    kept = [(job.request, job.flows) for job in kept_jobs(beside, fabric)] if beside else []
    with show.progress(f"{shape.ranks} ranks: searching a placement") as shown, compiling(shown):
        prepare(fabric)
        found = suggest(fabric, shape, health=fabric.failed, kept=_live(fabric, kept))
    if isinstance(found, Infeasible):
        raise NoAdmissiblePlanError(found.why)
    print_reply(placements_to(found), as_json=as_json)


def _live(fabric: Fabric, kept: Sequence[Placed]) -> Sequence[Placed]:
    """Return the kept jobs with other paths for the flows whose links have failed; raises NoAdmissiblePlanError."""
    if not kept:
        return kept
    drafted = draft(fabric, (), health=fabric.failed, kept=kept, replan_dead=True)
    plan = drafted if isinstance(drafted, Infeasible) else certified(drafted)
    if isinstance(plan, Infeasible):
        raise NoAdmissiblePlanError(plan.why)
    return list(zip([request for request, _ in kept], plan.jobs, strict=True))

"""Read what `--beside` and `--failed` name: the jobs of a plan that stay, and what has failed since."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from heddle.controller.config import failed_of
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.views.beside import kept_problem

if TYPE_CHECKING:
    from heddle.controller.config.plan_file import KeptJob


def failures_of(names: Sequence[str], fabric: Fabric) -> dict[str, Health]:
    """Return the links and switches that `--failed` names; raises InputError."""
    return {name: _failure(name, fabric) for name in names}


def with_failures(fabric: Fabric, failures: dict[str, Health]) -> Health:
    """Return the health of a fabric where these have failed besides those of its file."""
    return reduce(Health.union, failures.values(), fabric.failed)


def kept_jobs(path: Path, fabric: Fabric) -> "list[KeptJob]":
    """Read the jobs of a plan file and check them against the fabric; raises InputError."""
    from heddle.controller.config.plan_file import REWRITE, load_plan  # not needed by most runs

    kept = load_plan(path, fabric)
    if (wrong := kept_problem(fabric, [(job.request, job.flows) for job in kept])) is not None:
        raise InputError(f"{path}: {wrong}; {REWRITE}")
    return kept


def _failure(name: str, fabric: Fabric) -> Health:
    health, found = failed_of((name,), fabric)
    if found:
        raise InputError(f"--failed: {found[0].text}; a link is named as in the plan, such as leaf1:1>spine1:1")
    return health

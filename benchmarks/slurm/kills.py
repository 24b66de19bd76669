"""A real Slurm's jobs while the agent and the controller are killed and stopped at random: none may fail or be left."""

import tempfile
from pathlib import Path
from typing import Any, TextIO

from heddle.benchmarks.slurm.placement import FAST
from tests.support.schedulers.disturbed_jobs import run_disturbed
from tests.support.schedulers.slurm_site import slurm_site

JOBS, SEED = 200, 7
PERIOD_S = 5.0
"""Of the agent's passes, as it is by default."""


def run(out: TextIO, jobs: int = JOBS) -> dict[str, Any]:
    """Run the jobs; print and return what became of them."""
    with (
        tempfile.TemporaryDirectory(prefix="hdkill") as name,
        slurm_site(Path(name), period_s=PERIOD_S, extra=[FAST]) as site,
    ):
        found = run_disturbed(site, jobs, SEED)
    met = not found.failed and not found.requeued and found.left_s <= 2 * PERIOD_S
    acts = ", ".join(f"{what} {count}" for what, count in found.disturbances.items())
    print(f"{found.jobs} jobs of 2 to 6 nodes beside {acts}", file=out)
    print(
        f"  {found.failed} failed, {found.requeued} requeued, {found.planned} planned; none left in Heddle after "
        f"{found.left_s:.1f} s; goal: 0, 0 and {2 * PERIOD_S:g} s: {'met' if met else 'MISSED'}",
        file=out,
        flush=True,
    )
    return {**found._asdict(), "disturbances": dict(found.disturbances)}

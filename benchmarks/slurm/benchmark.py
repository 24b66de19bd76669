"""A real Slurm (Debian's slurmctld, slurmd and munged on loopback), by parts: `placement`, `hooks` and `kills`."""

import os
from collections.abc import Sequence
from typing import Any, TextIO

from heddle.benchmarks.slurm import hooks, kills, placement
from tests.support.schedulers.slurm_cluster import MISSING

PARTS = {"placement": placement.run, "hooks": hooks.run, "kills": kills.run}


def run(out: TextIO, parts: Sequence[str] = (), *, jobs: int | None = None) -> dict[str, Any]:
    """Measure the named parts (default: all) and print a table for each; `jobs` are those of a mix, or of a case."""
    if os.geteuid() != 0 or MISSING is not None:
        print("not root: nothing is measured" if MISSING is None else f"{MISSING} is not installed", file=out)
        return {}
    found: dict[str, Any] = {}
    for name in parts or PARTS:
        before = os.getloadavg()[0]
        found[name] = PARTS[name](out) if jobs is None else PARTS[name](out, jobs)
        found[f"{name}_load_average"] = before, os.getloadavg()[0]
        print(f"  load average before and after: {before:.1f} {os.getloadavg()[0]:.1f}\n", file=out, flush=True)
    return found

"""Measure `heddle plan` as a process: at full scale, at its start, and with an unusable cache of compiled kernels."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heddle.benchmarks.planning.cases import NIC_BPS
from heddle.controller.model.limit import MAX_FLOW_PLANS

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = "from heddle.programs.console.start import main; main()"
QUEUE_PAIRS = 8


class Ran(NamedTuple):
    """Exit status and costs of a child process; `peak_mb` is its peak resident memory."""

    status: int
    wall_s: float
    cpu_s: float
    peak_mb: float


def full_scale(flows: int, seed: int, *, runs: int) -> dict[str, Any]:
    """Plan a permutation over 8 queue pairs per flow from files, and write the plan as JSON."""
    assert flows <= MAX_FLOW_PLANS
    hosts = max(64, flows // QUEUE_PAIRS)
    uplinks = 64 if hosts >= 2048 else 8
    with tempfile.TemporaryDirectory() as folder:
        paths = _files(Path(folder), hosts // uplinks, uplinks, seed)
        out = Path(folder) / "plan.json"
        ran = [_child(["plan", *paths, "--json"], out) for _ in range(runs)]
        size_mb = out.stat().st_size / 1e6
        found = _certificate(out)
    best = min(ran, key=lambda one: one.wall_s)
    return {
        "flows": (hosts // uplinks * uplinks) * QUEUE_PAIRS,
        "solve_ms": float(found["solve_ns"]) / 1e6,
        "process_s": best.wall_s,
        "process_cpu_s": best.cpu_s,
        "output_mb": size_mb,
        "peak_rss_mb": max(one.peak_mb for one in ran),
        "max_link_utilisation": float(found["max_link_utilisation"]),
        "lower_bound": float(found["lower_bound"]),
    }


def starts(*, runs: int, broken_caches: bool) -> dict[str, Any]:
    """Start `heddle plan` on 8 hosts; with `broken_caches` also with missing, torn or unwritable caches of kernels."""
    with tempfile.TemporaryDirectory() as folder:
        paths = _files(Path(folder), 4, 2, 1)
        command = ["plan", *paths, "--json"]
        first = _child(command, None)
        again = [_child(command, None) for _ in range(runs)]
        found = {"first_process_s": first.wall_s, "next_process_s": min(ran.wall_s for ran in again)}
        found["next_process_cpu_s"] = min(ran.cpu_s for ran in again)
        if not broken_caches:
            return found
        for name in ("no cache yet", "half of it torn", "not writable"):
            ran = _child(command, None, tree=_tree_with(Path(folder) / name.replace(" ", "-"), name))
            found[name] = ran.wall_s
            if ran.status:
                raise RuntimeError(f"heddle plan failed with status {ran.status} with its cache: {name}")
    return found


def _files(folder: Path, leaves: int, uplinks: int, seed: int) -> list[str]:
    """Write a fabric of as many hosts per leaf as spines, and a permutation of its hosts; return the two paths."""
    fabric, jobs = folder / "fabric.yaml", folder / "jobs.yaml"
    shape = f"spines: {uplinks}, leaves: {leaves}, hosts_per_leaf: {uplinks}, gbps: {NIC_BPS // 10**9}"
    fabric.write_text(f"version: 1\nname: bench\ngenerate: {{kind: spine_leaf, {shape}}}\n")
    order = np.random.default_rng(seed).permutation(leaves * uplinks)
    pairs = zip(order.tolist(), np.roll(order, -1).tolist(), strict=True)
    lines = [f"          - {{src_rank: {a}, dst_rank: {b}}}\n" for a, b in sorted(pairs)]
    head = f"      - kind: SEND_RECV\n        bytes: 1000000000\n        qps_per_flow: {QUEUE_PAIRS}\n        pairs:\n"
    job = "  - job_id: permutation\n    ranks: {all: true}\n    collectives:\n"
    jobs.write_text("version: 1\njobs:\n" + job + head + "".join(lines))
    return [str(fabric), str(jobs)]


def _child(arguments: Sequence[str], out: Path | None, tree: Path = ROOT) -> Ran:
    """Run `heddle` of a source tree; its output goes to a file or is discarded."""
    environ = {**os.environ, "PYTHONPATH": str(tree)}
    if tree is not ROOT:
        environ["HOME"] = str(tree)  # numba's fallback for its cache
    with open(out or os.devnull, "wb") as target:
        started = time.perf_counter()
        child = subprocess.Popen([sys.executable, "-c", HEDDLE, *arguments], stdout=target, env=environ, cwd=tree)
        try:
            _, status, used = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            raise
        wall = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode and tree is ROOT:
        raise RuntimeError(f"heddle {' '.join(arguments)} ended with status {child.returncode}")
    return Ran(child.returncode, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def _certificate(path: Path) -> dict[str, str]:
    """Parse a plan's certificate without its flows."""
    text = path.read_bytes()
    at = text.rindex(b'"certificate"')
    pairs = re.findall(rb'"(\w+)": "?(-?[\d.e+-]+)', text[at:])
    return {key.decode(): value.decode() for key, value in pairs}


def _tree_with(folder: Path, cache: str) -> Path:
    """Copy the program with a cache of compiled kernels that is missing, torn or not writable."""
    torn = cache == "half of it torn"
    skipped = shutil.ignore_patterns("__pycache__")

    def ignored(place: str, names: list[str]) -> set[str]:
        return set() if torn and "/planner" in place else skipped(place, names)

    shutil.copytree(ROOT / "heddle", folder / "heddle", ignore=ignored)  # follows the links: real files
    kernels = folder / "heddle" / "controller" / "planner" / "ground" / "__pycache__"
    if torn:
        for number, path in enumerate(sorted(kernels.glob("*.nb?"))):
            if number % 4 == 0:
                path.unlink()
            elif number % 4 == 1:
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    if cache == "not writable":
        kernels.write_text("a file in place of the folder")
        (folder / ".cache").write_text("nor here")
    return folder

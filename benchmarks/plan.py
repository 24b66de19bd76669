"""`heddle plan` as a whole process: 64 spines, 128 leaves, 8,192 hosts, one permutation."""

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

HOSTS, LEAVES, SPINES = 8192, 128, 64
RUNS = 3


def inputs(folder: Path, hosts: int = HOSTS, leaves: int = LEAVES, spines: int = SPINES, seed: int = 1) -> list[str]:
    """Write a fabric and a permutation of its hosts; returns the two paths."""
    fabric, jobs = folder / "fabric.yaml", folder / "jobs.yaml"
    fabric.write_text(
        "version: 1\nname: bench\ngenerate: {kind: spine_leaf, "
        f"spines: {spines}, leaves: {leaves}, hosts_per_leaf: {hosts // leaves}, gbps: 100}}\n"
    )
    receivers = list(range(hosts))
    random.Random(seed).shuffle(receivers)
    pairs = [{"src_rank": i, "dst_rank": receivers[i]} for i in range(hosts) if receivers[i] != i]
    collectives = [{"kind": "SEND_RECV", "bytes": 1_000_000_000, "pairs": pairs}]
    job = {"job_id": "permutation", "ranks": {"all": True}, "collectives": collectives}
    jobs.write_text(json.dumps({"version": 1, "jobs": [job]}))  # JSON is YAML
    return [str(fabric), str(jobs)]


def run(out: TextIO) -> dict[str, object]:
    walls, certificate = [], {}
    with tempfile.TemporaryDirectory() as folder:
        paths = inputs(Path(folder))
        for _ in range(RUNS + 1):
            started = time.perf_counter()
            command = [sys.executable, "-m", "controller.cli.main", "plan", *paths, "--json"]
            text = subprocess.run(command, check=True, capture_output=True).stdout
            walls.append(time.perf_counter() - started)
            certificate = json.loads(text)["jobs"][0]["certificate"]
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    found = {
        "first_process_s": walls[0],
        "process_median_s": statistics.median(walls[1:]),
        "solve_ms": int(certificate["solve_ns"]) / 1e6,
        "peak_rss_mb": peak_mb,
        **{key: certificate[key] for key in ("max_link_utilisation", "lower_bound", "ecmp_max_link_utilisation")},
    }
    print(f"{SPINES} spines, {LEAVES} leaves, {HOSTS} hosts, one permutation, JSON written", file=out)
    for key, value in found.items():
        print(f"  {key:28} {value:.3f}", file=out)
    return found

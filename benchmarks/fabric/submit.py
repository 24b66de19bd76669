"""Latency of SubmitJob in the lab: 2 spines, 4 leaves, 8 hosts, real switches, gRPC on loopback. Needs root."""

import statistics
import tempfile
import time
from pathlib import Path
from typing import TextIO

from heddle.controller.config import load_fabric
from heddle.mininet_topos.lab import Lab
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import controller

SUBMISSIONS = 300
HOSTS = 8


def run(out: TextIO) -> dict[str, object]:
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fabric.yaml"
        path.write_text(
            "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2, gbps: 0.02}\n"
        )
        with controller(path) as running, Lab(load_fabric(path)) as lab:
            lab.connect_controller(running.openflow_port)
            running.wait_for_rules()
            for steering in ("SOURCE_PORT", "PIN"):
                found[steering] = _measured(running, steering)
    print(
        f"{SUBMISSIONS} permutations of {HOSTS} flows, each submitted, acknowledged by every switch, released", file=out
    )
    print(f"{'steering':14} {'median ms':>10} {'p99 ms':>10} {'solve ms':>10} {'install ms':>11}", file=out)
    for steering, row in found.items():
        print("{:14} {:10.2f} {:10.2f} {:10.2f} {:11.2f}".format(steering, *row.values()), file=out)
    return {**found}


def _measured(running, steering: str) -> dict[str, float]:
    """Submit and release `SUBMISSIONS` jobs and return the client's times."""
    walls, solves, installs = [], [], []
    for i in range(SUBMISSIONS):
        request = _shift(f"bench-{steering.lower()}-{i}", 2 + i % 5, steering)
        started = time.perf_counter()
        plan = running.jobs.SubmitJob(request)
        walls.append((time.perf_counter() - started) * 1e3)
        solves.append(plan.certificate.solve_ns / 1e6)
        installs.append(plan.certificate.install_ns / 1e6)
        running.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=request.job_id))
    p99 = statistics.quantiles(walls, n=100)[98]
    median = statistics.median
    return {
        "median_ms": median(walls),
        "p99_ms": p99,
        "solve_median_ms": median(solves),
        "install_median_ms": median(installs),
    }


def _shift(job_id: str, by: int, steering: str) -> pb.SubmitJobRequest:
    pairs = [pb.RankPair(src_rank=i, dst_rank=(i + by) % HOSTS) for i in range(HOSTS)]
    collective = pb.Collective(kind="SEND_RECV", bytes=1_000_000, pairs=pairs)
    ranks = [f"h{i + 1}-n0" for i in range(HOSTS)]
    return pb.SubmitJobRequest(job_id=job_id, ranks=ranks, collectives=[collective], steering=steering)

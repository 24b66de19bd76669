"""Paths that packets name beside the other steerings: a hop's cost, a job's start, new paths after a cut. Needs root.

The labs are those of `heddle lab fabric`, each with its controller, broker and agents.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO

from heddle.benchmarks.fabric.srv6_hops import hop_costs
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.mininet_topos.playground.fabric import LabFabric, lab_fabric
from heddle.mininet_topos.playground.lab import Playground
from heddle.mininet_topos.playground.routed import RoutedPlayground
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

SUBMISSIONS, CUTS = 30, 10
TIMEOUT_S = 60.0
POLL_S = 0.005
LABS: dict[str, Callable[[LabFabric], Playground]] = {
    "openflow": Playground,
    "hash": RoutedPlayground,
    "srv6": lambda wanted: RoutedPlayground(wanted, srv6=True),
}


def run(out: TextIO) -> dict[str, Any]:
    """Measure the parts, print their tables and return the figures."""
    hops = hop_costs()
    print(f"{'forwarding':15} {'us a hop':>9} {'beside IPv6':>12}", file=out)
    for kind, cost in hops.items():
        print(f"{kind:15} {cost:9.2f} {cost / hops['IPv6 route']:12.2f}", file=out)
    starts, resteers = dict[str, dict[str, float]](), list[dict[str, float]]()
    for steering, lab in LABS.items():
        print(f"a lab with steering {steering}", file=sys.stderr)
        with lab(lab_fabric(None)) as playground:
            starts[steering] = _started(playground)
            if steering == "srv6":
                resteers = _resteered(playground)
    nics = len(lab_fabric(None).fabric.nics)
    print(f"\n{SUBMISSIONS} permutations of {nics} flows, each from submit to running, released", file=out)
    print(f"{'steering':10} {'median ms':>10} {'p90 ms':>8} {'planning ms':>12} {'probes':>7}", file=out)
    for steering, row in starts.items():
        print("{:10} {:10.1f} {:8.1f} {:12.2f} {:7.0f}".format(steering, *row.values()), file=out)
    print(f"\n{len(resteers)} cuts: from the controller's knowledge to new paths at a host, srv6", file=out)
    after_ms = [row["paths_after_known_ms"] for row in resteers]
    known_ms = [row["known_after_cut_ms"] for row in resteers]
    print(f"median {statistics.median(after_ms):.1f} ms, longest {max(after_ms):.1f} ms", file=out)
    print(f"known after the cut: median {statistics.median(known_ms):.0f} ms; load {os.getloadavg()[0]:.1f}", file=out)
    return {"us_per_hop": hops, "start": starts, "resteer": resteers, "load": os.getloadavg()[0]}


def _started(playground: Playground) -> dict[str, float]:
    """Submit and release permutations, and return the times until they run."""
    jobs = rpc.JobServiceStub(playground.client.channel)
    walls, plans = list[float](), list[pb.JobPlan]()
    for number in range(SUBMISSIONS):
        request = _permutation(playground, f"bench-{number}", 1 + number % 3)
        began_s = time.perf_counter()
        plan = jobs.SubmitJob(request, timeout=TIMEOUT_S)
        while plan.state != "running":
            if time.perf_counter() - began_s > TIMEOUT_S:
                raise RuntimeError(f"a job is {plan.state} after {TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)
            plan = jobs.GetJob(pb.GetJobRequest(job_id=request.job_id), timeout=TIMEOUT_S)
        walls.append((time.perf_counter() - began_s) * 1e3)
        plans.append(plan)
        jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=request.job_id), timeout=TIMEOUT_S)
    return {
        "median_ms": statistics.median(walls),
        "p90_ms": statistics.quantiles(walls, n=10)[-1],
        "planning_median_ms": statistics.median(plan.certificate.solve_ns / 1e6 for plan in plans),
        "probes_median": statistics.median(plan.certificate.probes for plan in plans),
    }


def _resteered(playground: Playground) -> list[dict[str, float]]:
    """Cut cables that flows cross, one after the other, and return when it was known, and new paths had arrived."""
    found = []
    request = _permutation(playground, "resteered", 2)
    jobs, cables = rpc.JobServiceStub(playground.client.channel), playground.lab.fabric.cable_by_link
    plan = jobs.SubmitJob(request, timeout=TIMEOUT_S)
    with JobFollower(playground.client.channel, plan) as follower:
        for _ in range(CUTS):
            plan = jobs.GetJob(pb.GetJobRequest(job_id=request.job_id), timeout=TIMEOUT_S)
            cable = cables[next(link for flow in plan.flows for link in flow.links if link in cables)]
            began_ns, offset_ns = time.time_ns(), time.time_ns() - time.monotonic_ns()
            playground.cut(cable.id)
            crossed = {cable.up_link, cable.down_link}
            arrived_ns = _until(partial(_clear, follower, crossed, began_ns - offset_ns))
            known_ns = next(
                note.timestamp_unix_ns
                for note in playground.client.notes(began_ns)
                if note.subject == "fabric" and cable.id in note.text
            )
            found.append({
                "known_after_cut_ms": (known_ns - began_ns) / 1e6,
                "paths_after_known_ms": (arrived_ns + offset_ns - known_ns) / 1e6,
            })  # fmt: skip
            playground.heal(cable.id)
    jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=request.job_id), timeout=TIMEOUT_S)
    return found


def _clear(follower: JobFollower, links: set[str], since_ns: int) -> int:
    """Return when a generation arrived whose data and ACKs cross none of these links; 0 where none has."""
    for each in follower.generations:
        crossed = {link for flow in each.flows.values() for link in (*flow.links, *flow.reverse_links)}
        if each.monotonic_ns > since_ns and not links & crossed:
            return each.monotonic_ns
    return 0


def _until(value: Callable[[], int]) -> int:
    """Wait until a value is there, and return it."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not (found := value()):
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"no new paths within {TIMEOUT_S:.0f} s of a cut")
        time.sleep(POLL_S)
    return found


def _permutation(playground: Playground, job_id: str, by: int) -> pb.SubmitJobRequest:
    ranks = [nic.id for nic in playground.lab.fabric.nics]
    pairs = [pb.RankPair(src_rank=rank, dst_rank=(rank + 2 * by) % len(ranks)) for rank in range(len(ranks))]
    collective = pb.Collective(kind="SEND_RECV", bytes=1_000_000, pairs=pairs)
    return pb.SubmitJobRequest(job_id=job_id, ranks=ranks, collectives=[collective])

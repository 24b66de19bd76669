"""Jobs arrive at a running controller and leave it, over gRPC: how full their paths leave the fullest link.

A client submits and releases jobs one after the other, with the controller's default limits of moves. After each
arrival it reads the flows of all jobs back, and adds up what they send over each link itself.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from heddle.benchmarks.loop.world import World
from heddle.benchmarks.planning.events.arrivals import Scene, events
from heddle.controller.model.job import JobRequest
from heddle.v1 import heddle_pb2 as pb

SHAPE = "kind: clos3, spines: 64, pods: 16, leaves: 8, aggs_per_pod: 8, hosts_per_leaf: 8"
SCENE = Scene(fabric="3 tiers", placement="random", sends="rings", qps=1)
SIZES = (8, 16, 32, 64, 128)
FULL = 0.88
LEASE_MS = 86_400_000
RULES_WITHIN_S = 600.0
"""The rules of 320 switches, all of them fakes in this process, on a busy machine."""


class Arrival(NamedTuple):
    """What a client sees after an arrival."""

    fullest: float
    """The largest load over capacity of a link between switches, by the flows of all jobs."""
    certified: float
    """The same by the certificate of the new job."""
    submit_ms: float
    releases_ms: float
    used: float


def submission(request: JobRequest) -> pb.SubmitJobRequest:
    """Return the message that submits a job of rings."""
    (ring,) = request.collectives
    sent = pb.Collective(kind=ring.kind.name, bytes=ring.size_bytes, qps_per_flow=ring.qps_per_flow)
    return pb.SubmitJobRequest(job_id=request.job_id, ranks=request.ranks, collectives=[sent], lease_ms=LEASE_MS)


def measured(
    world: World, seed: int, arrivals: int, progress: Callable[[str], object] = str, full: float = FULL
) -> Iterator[Arrival]:
    """Fill the fabric, then yield so many arrivals, each after the departures that make room for it."""
    jobs, count, running = world.controller.jobs, 0, set[str]()
    for event in events(world.fabric, SCENE, 1_000_000, seed, full, SIZES):
        count += 1 if count or event.leave else 0
        began = time.monotonic()
        for job_id in event.leave:
            jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=job_id))
            running.remove(job_id)
        released = time.monotonic()
        plan = jobs.SubmitJob(submission(event.arrive))
        submitted = time.monotonic()
        running.add(event.arrive.job_id)
        if count:
            yield Arrival(
                fullest=fullest(world, running), certified=plan.certificate.max_link_utilisation,
                submit_ms=(submitted - released) * 1e3, releases_ms=(released - began) * 1e3, used=event.used,
            )  # fmt: skip
            progress(f"{count} of {arrivals} arrivals")
        if count == arrivals:
            return


def fullest(world: World, running: set[str]) -> float:
    """Return the largest load over capacity of a link between switches, by the flows that the controller publishes."""
    capacity = {link: each.capacity_bps for each in world.fabric.cables for link in (each.up_link, each.down_link)}
    load: Counter[str] = Counter()
    for job_id in running:
        for page in world.controller.jobs.StreamFlows(pb.GetJobRequest(job_id=job_id)):
            for flow in page.flows:
                load.update(dict.fromkeys(capacity.keys() & set(flow.links), flow.demand_bps))
    return max((bps / capacity[link] for link, bps in load.items()), default=0.0)

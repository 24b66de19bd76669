"""A cable fails under planned flows: when exceptions arrive, when all affected flows have acknowledged paths."""

import gc
import random
import time
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from heddle.benchmarks.loop.world import Watch, World, pairs_job, wait_for_links
from heddle.controller.model.fabric import Cable
from heddle.v1 import heddle_pb2 as pb


class Failure(NamedTuple):
    """Milliseconds from the port status to each step. Without pins `pins_ms` is None."""

    exceptions_ms: float
    pins_ms: float | None
    published_ms: float
    affected: int
    changed: int


def crosses(flow: pb.FlowPlan, cable: Cable) -> bool:
    """Return whether a flow or its ACKs use a cable."""
    return any(link in (cable.up_link, cable.down_link) for link in (*flow.links, *flow.reverse_links))


def failed(world: World, watch: Watch, cable: Cable) -> Failure:
    """Fail a cable, wait for the new paths of all its flows, and let it return."""
    affected = [flow_id for flow_id, flow in watch.flows.items() if crosses(flow, cable)]
    if not affected:
        raise RuntimeError(f"no flow uses {cable.id}")
    gc.collect()  # a full pass in this process, which plays the switches, would delay their replies by up to 70 ms
    gc.disable()
    began = world.switches.set_cable(cable, up=False)
    changed = 0
    while True:
        generation = watch.next()
        changed += len(generation.plan.flows)
        if not any(crosses(flow, cable) for flow in watch.flows.values()):
            break
    time.sleep(0.1)  # exceptions may arrive after a plan without pins
    gc.enable()
    exceptions, pins = (world.switches.last_rule(pins=which) for which in (False, True))
    if exceptions is None:
        raise RuntimeError(f"{cable.id} is down, and no switch got an exception")
    world.switches.set_cable(cable, up=True)
    wait_for_links(world.controller, frozenset())
    watch.settle()
    return Failure(
        exceptions_ms=(exceptions - began) * 1e3,
        pins_ms=None if pins is None else (pins - began) * 1e3,
        published_ms=(generation.at - began) * 1e3,
        affected=len(affected),
        changed=changed,
    )


def measured(
    world: World, seed: int, steering: str, pairs: int, queue_pairs: int, rounds: int, priority: int = 0,
    beside: AbstractContextManager[object] | None = None,
) -> list[Failure]:  # fmt: skip
    """Submit a job of random pairs and let one cable after the other fail under it, all that `beside` something."""
    request = pairs_job(world.fabric, seed, f"{steering.lower()}-{pairs * queue_pairs}", pairs, queue_pairs, steering)
    request.priority = priority
    running = world.controller
    running.jobs.SubmitJob(request)
    watch = Watch(running, request.job_id)
    cables = list(world.fabric.cables)
    random.Random(seed).shuffle(cables)
    try:
        watch.settle()
        used = [cable for cable in cables if any(crosses(flow, cable) for flow in watch.flows.values())]
        with beside or nullcontext():
            return [failed(world, watch, used[number % len(used)]) for number in range(rounds)]
    finally:
        running.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=request.job_id))
        watch.close()

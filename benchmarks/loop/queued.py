"""A cable fails behind 10,000 SubmitJobs: the time to exceptions and to new paths, and the brain's part of it alone."""

import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import grpc

from heddle.benchmarks.loop import churn
from heddle.benchmarks.loop.failures import Failure, measured
from heddle.benchmarks.loop.world import TIMEOUT_S, World
from heddle.controller.brain.decide import decide_all
from heddle.controller.brain.settings import Settings
from heddle.controller.model.effect import Compile
from heddle.controller.model.event import PortStatus, Submit
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.runtime.inbox import Inbox, coalesced
from heddle.controller.runtime.loop import MAX_BATCH
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc


class InTheInbox(NamedTuple):
    """Processor milliseconds until the brain has compiled rules without the cable, and until all have been handled."""

    failure_ms: float
    all_ms: float


CALLERS, CALLS = 10, 1_000
LIMITS = f"{{calls_in_progress: {CALLS}, calls_waiting: {CALLS}, calls_burst: 100000, calls_per_second: 100000}}"
"""With its own limits the controller would hold all calls but eight of a caller back."""
MAX_WAITING = 2 * CALLERS * CALLS
UNREACHABLE = 0.01
"""The utilisation that each job requires: it is planned and refused, so that no crowd of running jobs is measured."""
PRIORITY = 1
"""The job whose cables fail is not slowed by the jobs that are submitted, which have priority 0."""


@contextmanager
def submitting(world: World) -> Iterator[None]:
    """Send CALLS SubmitJobs over each of CALLERS connections, and cancel those that wait at the end."""
    nics, ring = [nic.id for nic in world.fabric.nics], pb.Collective(kind="RING_ALL_REDUCE", bytes=1_000)
    with ExitStack() as opened:
        own = [("grpc.use_local_subchannel_pool", 1)]  # a connection each, and so a caller on loopback
        channels = [opened.enter_context(grpc.insecure_channel(world.controller.grpc, own)) for _ in range(CALLERS)]
        stubs, sent = [rpc.JobServiceStub(channel) for channel in channels], []
        for number in range(CALLS):
            ranks = [nics[number % len(nics)], nics[(number + len(nics) // 2) % len(nics)]]
            for caller, stub in enumerate(stubs):
                job_id = f"queued-{caller}-{number}"
                request = pb.SubmitJobRequest(job_id=job_id, ranks=ranks, collectives=[ring])
                request.require_utilisation = UNREACHABLE
                sent.append(stub.SubmitJob.future(request))
        _wait_until_they_wait(world)
        yield
        for call in sent:
            call.cancel()


def _wait_until_they_wait(world: World) -> None:
    """Return once the brain has most of the calls: this process, which plays the switches too, is idle then."""
    end = time.monotonic() + TIMEOUT_S
    while requests_waiting(world) < CALLERS * CALLS / 2:
        if time.monotonic() > end:
            raise TimeoutError(f"{requests_waiting(world)} submissions wait")
        time.sleep(0.2)


def requests_waiting(world: World) -> int:
    """Return how many requests wait for the planner."""
    with urllib.request.urlopen(f"http://{world.controller.http}/metrics", timeout=TIMEOUT_S) as reply:
        text = reply.read().decode()
    return int(next(line for line in text.splitlines() if line.startswith("heddle_requests_waiting ")).split()[1])


def behind_submissions(world: World, seed: int, pairs: int, queue_pairs: int, rounds: int) -> list[Failure]:
    """Measure failures under a job while the submissions wait."""
    return measured(
        world, seed, "SOURCE_PORT", pairs, queue_pairs, rounds, priority=PRIORITY, beside=submitting(world)
    )  # fmt: skip


async def in_the_inbox(fabric: Fabric) -> InTheInbox:
    """Measure the brain's turns from a failure that finds CALLERS * CALLS submissions in the inbox."""
    loop = churn.Loop(fabric, Settings(max_waiting=MAX_WAITING), churn.in_this_process(fabric))
    state, inbox, nics = loop.state, Inbox(Counter()), fabric.nics
    ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1_000)
    for number in range(CALLERS * CALLS):
        ranks = (nics[number % len(nics)].id, nics[(number + len(nics) // 2) % len(nics)].id)
        request = JobRequest(job_id=f"queued-{number}", ranks=ranks, collectives=(ring,))
        inbox.put(Submit(reply=number, request=request, checked=True))
    end = fabric.cables[0].lower
    inbox.put(PortStatus(switch=end.switch, port=end.number, up=False), end.switch)
    began, failure_ms = time.process_time(), 0.0
    while any(inbox.waiting):
        state, effects = decide_all(state, coalesced(await inbox.take(MAX_BATCH)), loop.now_ms)
        if any(isinstance(effect, Compile) for effect in effects):
            failure_ms = failure_ms or (time.process_time() - began) * 1e3
    return InTheInbox(failure_ms, (time.process_time() - began) * 1e3)

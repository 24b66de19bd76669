"""Cables fail while processes of their own send what once stopped the controller; each kind is sent again and again.

`python -m heddle.benchmarks.loop.hostile ADDRESS KIND`, with the NICs as JSON on standard input, sends one kind until
its input ends, and prints the status codes that it got and the milliseconds of its calls. `health` is the probe.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
from grpc_health.v1 import health_pb2

from heddle.benchmarks.loop.failures import Failure, measured
from heddle.benchmarks.loop.world import TIMEOUT_S, World
from heddle.v1 import heddle_pb2 as pb

PAUSE_S = 0.25
"""A sender rests so long between calls: it is to load the controller, not the machine."""
PROBE = "health"
NICENESS = 19
"""Senders stand for other machines, so they take no processor that the controller wants; the probe does."""
HEALTH_PAUSE_S = 0.02
SETTLE_S = 2.0
CALL_TIMEOUT_S = 60.0
LEASE_MS = 1_000
PRIORITY = 1
"""The job whose cables fail is not slowed by jobs of hostile callers, which have priority 0."""
JOBS = "/heddle.v1.JobService/"
HEALTH = "/grpc.health.v1.Health/Check"
_RING = pb.Collective(kind="RING_ALL_REDUCE", bytes=1_000)


class Call(NamedTuple):
    """A method, its message, after how many seconds the caller leaves, and the pause until the next call."""

    method: str
    message: Callable[[int], bytes]
    leaves_s: float = CALL_TIMEOUT_S
    pause_s: float = PAUSE_S


def _job(nics: Sequence[str], collectives: Sequence[pb.Collective], job_id: str = "hostile") -> bytes:
    ranks = [nics[0], nics[-1], nics[1], nics[-2]]
    request = pb.SubmitJobRequest(job_id=job_id, ranks=ranks, collectives=collectives, lease_ms=LEASE_MS)
    return request.SerializeToString()


def _phases(nics: Sequence[str], count: int) -> bytes:
    return _job(nics, [pb.Collective(kind="RING_ALL_REDUCE", bytes=1, phase=phase) for phase in range(count)])


def _custom(nics: Sequence[str], count: int) -> bytes:
    flows = [pb.FlowDemand(src_rank=each % 4, dst_rank=(each + 1 + each // 4 % 3) % 4, rate_bps=1_000 + each)
             for each in range(count)]  # fmt: skip
    return _job(nics, [pb.Collective(kind="CUSTOM", flows=flows)])


def _one(collective: pb.Collective) -> bytes:
    """Return a part of a request with one collective: messages that are joined are one with the lists of all."""
    return pb.SubmitJobRequest(collectives=[collective]).SerializeToString()


_EMPTY = _one(pb.Collective())


def _flows_by_the_thousand(nics: Sequence[str], count: int) -> bytes:
    """Return a request of `count` thousand flows, without an object for each."""
    thousand = [pb.FlowDemand(src_rank=each % 4, dst_rank=(each + 1) % 4, rate_bps=1_000) for each in range(1_000)]
    flows = pb.Collective(kind="CUSTOM").SerializeToString() + pb.Collective(flows=thousand).SerializeToString() * count
    tag, length, left = _EMPTY[:1], bytearray(), len(flows)
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    return _job(nics, []) + tag + bytes((*length, left)) + flows


def _always(method: str, message: bytes, leaves_s: float = CALL_TIMEOUT_S) -> Call:
    return Call(JOBS + method, lambda _: message, leaves_s)


KINDS: dict[str, Callable[[Sequence[str]], Call]] = {
    "preview of 5,000 phases": lambda nics: _always("PreviewJob", _phases(nics, 5_000)),
    "preview of 54,000 phases": lambda nics: _always("PreviewJob", _phases(nics, 54_000)),
    "preview of 50,000 flows": lambda nics: _always("PreviewJob", _custom(nics, 50_000)),
    "preview, caller leaves": lambda nics: _always("PreviewJob", _custom(nics, 50_000), 0.05),
    "1.9 million flows": lambda nics: _always("SubmitJob", _flows_by_the_thousand(nics, 1_900)),
    "200,000 collectives": lambda nics: _always("SubmitJob", _job(nics, []) + _one(_RING) * 200_000),
    "8 MB of empty collectives": lambda nics: _always("SubmitJob", _job(nics, []) + _EMPTY * 4_000_000),
    "20 MB of empty collectives": lambda nics: _always("SubmitJob", _job(nics, []) + _EMPTY * 10_000_000),
    "submission, caller leaves": lambda nics: Call(
        JOBS + "SubmitJob", lambda turn: _job(nics, [_RING], f"left-{turn}"), 0.02
    ),
    "2^64 - 1 bytes": lambda nics: Call(
        JOBS + "SubmitJob",
        lambda turn: _job(nics, [pb.Collective(kind="RING_ALL_REDUCE", bytes=2**64 - 1)], f"endless-{turn}"),
    ),
    "list of all jobs": lambda _: _always("ListJobs", pb.ListJobsRequest().SerializeToString()),
    PROBE: lambda _: Call(HEALTH, lambda turn: health_pb2.HealthCheckRequest().SerializeToString(),
                             pause_s=HEALTH_PAUSE_S),
}  # fmt: skip


class Replies(NamedTuple):
    """What the senders of one kind got: how many replies by status code, and the milliseconds of each call."""

    codes: dict[str, int]
    times_ms: list[float]


class Hostile(NamedTuple):
    """The failures, and the replies by kind; those to health calls are among them."""

    failures: list[Failure]
    replies: dict[str, Replies]


def send(address: str, call: Call, ended: threading.Event) -> Replies:
    """Call until `ended`; messages are bytes already, so that a sender takes little time."""
    codes, times_ms = Counter[str](), list[float]()
    with grpc.insecure_channel(address, options=[("grpc.max_send_message_length", -1)]) as channel:
        method = channel.unary_unary(call.method, None, None)
        turn = 0
        while not ended.is_set():
            message, began, turn = call.message(turn), time.monotonic(), turn + 1
            try:
                method(message, timeout=call.leaves_s)
                codes["OK"] += 1
            except grpc.RpcError as error:
                codes[error.code().name] += 1
            times_ms.append((time.monotonic() - began) * 1e3)
            ended.wait(call.pause_s)
    return Replies(dict(codes), times_ms)


@contextmanager
def senders(world: World) -> Iterator[Callable[[], dict[str, Replies]]]:
    """Run a process per kind; the function that is yielded ends them and returns what they got."""
    nics = json.dumps([nic.id for nic in world.fabric.nics])
    running: dict[str, subprocess.Popen[str]] = {}

    def ended() -> dict[str, Replies]:
        outputs = {kind: process.communicate(timeout=2 * CALL_TIMEOUT_S)[0] for kind, process in running.items()}
        return {kind: Replies(**json.loads(output)) for kind, output in outputs.items()}

    try:
        for kind in KINDS:
            command = [sys.executable, "-m", "heddle.benchmarks.loop.hostile", world.controller.grpc, kind]
            running[kind] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            pipe: Any = running[kind].stdin
            pipe.write(f"{nics}\n")
            pipe.flush()
        for process in running.values():
            assert process.stdout is not None
            process.stdout.readline()  # its messages are made
        yield ended
    finally:
        for process in running.values():
            process.kill()
            process.wait(TIMEOUT_S)


def beside_hostile_requests(world: World, seed: int, pairs: int, queue_pairs: int, rounds: int) -> Hostile:
    """Measure failures under a pinned job while all kinds of requests are under way all the time."""
    with senders(world) as ended:
        time.sleep(SETTLE_S)
        found = measured(world, seed, "PIN", pairs, queue_pairs, rounds, priority=PRIORITY)
        return Hostile(found, ended())


def main(address: str, kind: str) -> None:
    """Send one kind until standard input ends, and print the replies."""
    if kind != PROBE:
        os.nice(NICENESS)
    call = KINDS[kind](json.loads(sys.stdin.readline()))
    call.message(0)
    print("ready", flush=True)
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    print(json.dumps(send(address, call, ended)._asdict()))


if __name__ == "__main__":
    main(*sys.argv[1:])

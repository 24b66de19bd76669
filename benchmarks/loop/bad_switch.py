"""Jobs that avoid one leaf, while that leaf is silent, refuses rules, lies or reboots, and other jobs need it."""

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import grpc

from heddle.benchmarks.loop.world import World
from heddle.testing.switches.openflow_switch import BARRIER_REQUEST, FLOW_MOD
from heddle.v1 import heddle_pb2 as pb
from tests.support.processes.running_switches import Switches, TimedSwitch

LEAF = "leaf1"
JOBS = 100
"""Jobs that avoid the leaf, for each fault."""
PAUSE_S = 0.05
OVER_IT_TIMEOUT_S = 30.0
SETTLE_S = 1.0
REBOOT_S = 1.5
BAD_FIELD = (4, 6)


class Beside(NamedTuple):
    """Milliseconds of each job that avoids the leaf, and the replies to jobs over it by their status."""

    elsewhere_ms: tuple[float, ...]
    over_it: Counter[str]


@contextmanager
def well(switches: Switches) -> Iterator[None]:
    """No fault."""
    yield


@contextmanager
def silent(switches: Switches) -> Iterator[None]:
    """The leaf replies to echoes and to no barrier."""
    leaf = switches.by_id[LEAF]
    switches.run(lambda: leaf.withheld.add(BARRIER_REQUEST))
    yield
    switches.run(lambda: leaf.withheld.clear())


@contextmanager
def refuses(switches: Switches) -> Iterator[None]:
    """The leaf has lost its rules and refuses every one."""
    leaf = switches.by_id[LEAF]
    switches.run(lambda: leaf.refused.update({FLOW_MOD: BAD_FIELD}))
    switches.run(lambda: _reboot(leaf))
    yield
    switches.run(lambda: leaf.refused.clear())


@contextmanager
def lies(switches: Switches) -> Iterator[None]:
    """The leaf acknowledges every rule, holds none, and says so when it is read."""
    leaf = switches.by_id[LEAF]
    switches.run(lambda: setattr(leaf.tables, "flow_mod", lambda message: None))
    switches.run(leaf.tables.entries.clear)
    yield
    switches.run(lambda: delattr(leaf.tables, "flow_mod"))


@contextmanager
def reboots(switches: Switches) -> Iterator[None]:
    """The leaf loses session and rules again and again."""
    leaf, over = switches.by_id[LEAF], threading.Event()

    def again() -> None:
        while not over.wait(REBOOT_S):
            switches.run(lambda: _reboot(leaf))

    thread = threading.Thread(target=again, name="reboots")
    thread.start()
    yield
    over.set()
    thread.join()


def _reboot(leaf: TimedSwitch) -> None:
    leaf.tables.entries.clear()
    leaf.tables.groups.clear()
    _cut(leaf)


def _cut(leaf: TimedSwitch) -> None:
    leaf._writer.close()


FAULTS: dict[str, Callable[[Switches], contextlib.AbstractContextManager[None]]] = {
    "none": well, "silent": silent, "refuses": refuses, "lies": lies, "reboots": reboots,
}  # fmt: skip


def measured(world: World, fault: str) -> Beside:
    """Submit and release jobs that avoid the leaf, one after the other, beside a caller of jobs over it."""
    over_it, over = Counter[str](), threading.Event()
    caller = threading.Thread(target=_submit_over_it, args=(world, fault, over_it, over), name="jobs over the leaf")
    with FAULTS[fault](world.switches):
        caller.start()
        times_ms = [_submitted(world, fault, number) for number in range(JOBS)]
        over.set()
    caller.join()
    _recover(world)
    return Beside(tuple(times_ms), over_it)


def _submitted(world: World, fault: str, number: int) -> float:
    away = [nic.id for nic in world.fabric.nics if nic.port.switch != LEAF]
    ranks = [away[number % len(away)], away[(number + len(away) // 2) % len(away)]]
    request = _job(f"elsewhere-{fault}-{number}", ranks)
    began = time.monotonic()
    world.controller.jobs.SubmitJob(request, timeout=OVER_IT_TIMEOUT_S)
    took_ms = (time.monotonic() - began) * 1e3
    world.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=request.job_id))
    time.sleep(PAUSE_S)
    return took_ms


def _submit_over_it(world: World, fault: str, replies: Counter[str], over: threading.Event) -> None:
    at = [nic.id for nic in world.fabric.nics if nic.port.switch == LEAF]
    away = [nic.id for nic in world.fabric.nics if nic.port.switch != LEAF]
    for number in itertools.count():
        if over.wait(PAUSE_S):
            return
        request = _job(f"over-{fault}-{number}", [at[number % len(at)], away[number % len(away)]])
        try:
            world.controller.jobs.SubmitJob(request, timeout=OVER_IT_TIMEOUT_S)
            world.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=request.job_id))
            replies["OK"] += 1
        except grpc.RpcError as error:
            replies[error.code().name] += 1


def _job(job_id: str, ranks: list[str]) -> pb.SubmitJobRequest:
    sends = pb.Collective(
        kind="SEND_RECV", bytes=1_000_000, pairs=[pb.RankPair(src_rank=0, dst_rank=1), pb.RankPair(src_rank=1)]
    )
    return pb.SubmitJobRequest(job_id=job_id, ranks=ranks, collectives=[sends], steering="PIN")


def _recover(world: World) -> None:
    """Let the leaf connect anew, and wait until it has its rules."""
    world.switches.run(lambda: _cut(world.switches.by_id[LEAF]))
    time.sleep(SETTLE_S)
    world.controller.wait_for_rules()

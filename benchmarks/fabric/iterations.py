"""Iteration times of two rings that compute and send in turns, on links that both together overload.

    caps    planned paths; each flow keeps to the rate of its plan, its max-min share, also where the link is idle
    floors  planned paths; each flow that is `work_conserving` may send as fast as its NIC; congestion control (DCQCN)
            cuts it no further than to the rate of its plan
    ECMP    random source ports, as fast as the NIC, DCQCN

In the first scene the fabric has half as many uplinks as hosts (2:1). In the second one of leaf1's two uplinks is cut.
The jobs have different periods, so that their phases of sending meet in every way. Repetitions take the modes in turn,
with the same computations and the same first phases. A repetition is disturbed where this machine was late: its
switches waited for a processor, or the process that starts each sending was late. Needs root.

    python -m heddle.benchmarks iterations      HEDDLE_ITERATIONS=5x20: five repetitions of 20 s a mode
"""

import os
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TextIO

from heddle.controller.config import parse_fabric
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.mininet_topos.host.priorities import set_niceness
from heddle.mininet_topos.host.registry import entry_of
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest, RunResult
from heddle.mininet_topos.measure.iterations import IteratedJob, Iterations
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.services.controller_client import ControllerClient, connected
from heddle.mininet_topos.services.controller_process import running_controller
from heddle.mininet_topos.traffic.cast import PACE, floor_of, paced
from heddle.mininet_topos.wire.shaping import FULL_FRAME_BYTES
from heddle.v1 import heddle_pb2 as pb

REPETITIONS, SECONDS = 3, 12.0
PLAN = "HEDDLE_ITERATIONS"
LINE_BPS = 20_000_000
MTU_BYTES = 4_096
JITTER = 0.01
"""The standard deviation of a computation's time, as a part of it."""
PORTS = range(0xC000, 0x10000)
LATE_MS, WAITING = 10.0, 0.05
"""A repetition is disturbed above this lateness (95th percentile), or where the switches waited so much of the time."""


class Ring(NamedTuple):
    """A ring of hosts that sends for `sending_s` of each `period_s` when it is alone."""

    name: str
    hosts: tuple[int, ...]
    period_s: float
    sending_s: float

    @property
    def size_bytes(self) -> int:
        """Return the payload of each flow in an iteration, whole packets."""
        return MTU_BYTES * round(self.sending_s * PACE * LINE_BPS / (8 * FULL_FRAME_BYTES))


@dataclass(frozen=True)
class Scene:
    """A fabric, the cable that is cut, and the jobs on it."""

    name: str
    generate: str
    rings: tuple[Ring, ...]
    cut: str = ""


SCENES = (
    Scene(
        "2:1", "spines: 2, leaves: 2, hosts_per_leaf: 4",
        (Ring("a", (1, 5, 2, 6), 0.5, 0.15), Ring("b", (3, 7, 4, 8), 0.4, 0.16)),
    ),
    Scene(
        "after a cut", "spines: 2, leaves: 4, hosts_per_leaf: 2",
        (Ring("a", (1, 3, 5, 7), 0.5, 0.15), Ring("b", (2, 4, 6, 8), 0.4, 0.16)),
        cut="leaf1:1>spine1:1",
    ),
)  # fmt: skip
MODES = ("caps", "floors", "ECMP")


@dataclass(frozen=True)
class Row:
    """One run: each job's mean iteration in ms, what the switches did, and how late this machine was."""

    iteration_ms: Mapping[str, float]
    pfc_frames: int
    marked: int
    dropped: int
    late_ms: float
    waiting: float
    valid: bool

    @property
    def disturbed(self) -> bool:
        """Return whether the machine was late."""
        return self.late_ms > LATE_MS or self.waiting > WAITING or not self.valid


def run(out: TextIO) -> dict[str, object]:
    """Print a table for each scene."""
    repetitions, seconds = _plan()
    set_niceness(os.getpid())  # as the NICs, since it starts each of their sendings
    found: dict[str, object] = {}
    for scene in SCENES:
        rows: dict[str, list[Row]] = {mode: [] for mode in MODES}
        with _lab(scene) as (lab, client):
            for ring in scene.rings:
                client.submit(_job(ring))
            plans = {ring.name: client.plan_of(ring.name) for ring in scene.rings}
            for repetition in range(repetitions):
                for mode in MODES:
                    rows[mode].append(_measured(lab, scene, plans, mode, repetition, seconds))
        _print(out, scene, rows, repetitions, seconds)
        found[scene.name] = {mode: [vars(row) for row in of] for mode, of in rows.items()}
    return found


def _plan() -> tuple[int, float]:
    """Return repetitions and seconds: those of the environment, or the defaults. Raises ValueError."""
    text = os.environ.get(PLAN, "")
    if not text:
        return REPETITIONS, SECONDS
    repetitions, _, seconds = text.partition("x")
    if not (repetitions.isdecimal() and int(repetitions) and seconds.replace(".", "", 1).isdecimal()):
        raise ValueError(f"{PLAN}={text}: must be repetitions and seconds, such as 5x20")
    return int(repetitions), float(seconds)


@contextmanager
def _lab(scene: Scene) -> Iterator[tuple[Lab, ControllerClient]]:
    """Run a lab with its controller, without telemetry: no plan changes by what is measured."""
    text = f"version: 1\nname: rings\ngenerate: {{kind: spine_leaf, {scene.generate}, gbps: {LINE_BPS / 1e9}}}\n"
    fabric = parse_fabric(text, scene.name)
    settings = replace(NicSettings.for_fabric(fabric), dcqcn=True)
    with Lab(fabric, settings=settings, queues=QueueSettings()) as lab:
        entry = entry_of(lab.id)
        with (
            running_controller(text, entry.directory, entry.environment) as addresses,
            connected(addresses["grpc"]) as client,
        ):
            lab.connect_controller(int(addresses["openflow"].rpartition(":")[2]))
            client.await_switches(len(fabric.switches))
            if scene.cut:
                lab.net.set_cable(scene.cut, up=False)
                client.await_link(scene.cut, up=False)
            yield lab, client


def _job(ring: Ring) -> JobRequest:
    collective = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=ring.size_bytes)
    return JobRequest(job_id=ring.name, ranks=tuple(f"h{host}-n0" for host in ring.hosts), collectives=(collective,))


def _measured(
    lab: Lab, scene: Scene, plans: Mapping[str, pb.JobPlan], mode: str, repetition: int, seconds: float
) -> Row:
    """Run all jobs of a scene at once in one mode."""
    jobs = [_iterated(ring, plans[ring.name], mode, repetition) for ring in scene.rings]
    paused, waited = lab.pfc_frames(), lab.waited()
    begun = time.monotonic()
    result, iterations = lab.run_iterations(jobs, seconds)
    waiting = lab.waited().since(waited).switches_s / (time.monotonic() - begun)
    return _row(result, iterations, lab.pfc_frames() - paused, waiting)


def _row(result: RunResult, iterations: Iterations, pfc_frames: int, waiting: float) -> Row:
    late = sorted(iterations.lateness_ns) or [0]
    nics = result.nics.values()
    return Row(
        iteration_ms={name: _mean_ms(ends) for name, ends in iterations.ended_ns.items()},
        pfc_frames=pfc_frames,
        marked=sum(nic.counters.get("np_ecn_marked_roce_packets", 0) for nic in nics),
        dropped=sum(result.queue_drops.values()),
        late_ms=late[int(0.95 * (len(late) - 1))] / 1e6,
        waiting=waiting,
        valid=result.integrity.valid,
    )


def _mean_ms(ends_ns: Sequence[int]) -> float:
    """Return the mean time from one end of an iteration to the next; nan with fewer than two."""
    gaps = [later - earlier for earlier, later in pairwise(ends_ns)]
    return statistics.fmean(gaps) / 1e6 if gaps else float("nan")


def _iterated(ring: Ring, plan: pb.JobPlan, mode: str, repetition: int) -> IteratedJob:
    """Return a job with its flows in a mode; times and ports depend on the repetition alone."""
    draw = random.Random(f"{ring.name}/{repetition}")
    phase_ns = int(draw.random() * ring.period_s * 1e9)
    computing_s = ring.period_s - ring.sending_s
    compute_ns = tuple(int(max(0.0, draw.gauss(computing_s, JITTER * computing_s)) * 1e9) for _ in range(64))
    requests = tuple(_request(flow, ring, mode, phase_ns, draw) for flow in plan.flows)
    return IteratedJob(name=ring.name, requests=requests, compute_ns=compute_ns)


def _request(flow: pb.FlowPlan, ring: Ring, mode: str, phase_ns: int, draw: random.Random) -> FlowRequest:
    ports = (flow.udp_source_port, flow.reverse_udp_source_port)
    if mode == "ECMP":
        ports = (draw.choice(PORTS), draw.choice(PORTS))
    exceeds = mode == "ECMP" or (mode == "floors" and flow.work_conserving)
    return FlowRequest(
        flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, udp_source_port=ports[0],
        reverse_udp_source_port=ports[1], size_bytes=ring.size_bytes, start_offset_ns=phase_ns,
        rate_bps=int(LINE_BPS * PACE) if exceeds else paced(flow), floor_bps=floor_of(flow) if mode == "floors" else 0,
    )  # fmt: skip


def _print(out: TextIO, scene: Scene, rows: Mapping[str, Sequence[Row]], repetitions: int, seconds: float) -> None:
    names = [ring.name for ring in scene.rings]
    alone = ", ".join(f"{ring.name} {ring.period_s * 1e3:.0f} ms" for ring in scene.rings)
    print(f"{scene.name}: {repetitions} repetitions of {seconds:g} s a mode; alone and undisturbed: {alone}", file=out)
    heads = [f"{name} ms (of all)" for name in names]
    print(
        f"{'mode':8}" + "".join(f"{head:>26}" for head in heads)
        + f"{'mean of alone':>15}{'PFC':>7}{'marked':>8}{'dropped':>8}{'late ms':>9}{'waiting':>9}{'disturbed':>11}",
        file=out,
    )  # fmt: skip
    for mode, of in rows.items():
        cells = "".join(f"{_spread([row.iteration_ms[name] for row in of]):>26}" for name in names)
        ratio = statistics.median(
            statistics.fmean(row.iteration_ms[ring.name] / (1e3 * ring.period_s) for ring in scene.rings) for row in of
        )
        print(
            f"{mode:8}{cells}{ratio:15.3f}"
            f"{statistics.median(row.pfc_frames for row in of):7.0f}{statistics.median(row.marked for row in of):8.0f}"
            f"{statistics.median(row.dropped for row in of):8.0f}{max(row.late_ms for row in of):9.1f}"
            f"{max(row.waiting for row in of):9.0%}{sum(row.disturbed for row in of):>6} of {len(of)}",
            file=out, flush=True,
        )  # fmt: skip


def _spread(values: Sequence[float]) -> str:
    """Return the median with the smallest and largest value."""
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"

"""A rack more is put in force at a controller with many jobs, by the commands that an operator runs.

Meanwhile a process reads jobs all the time, and a task in the controller's loop records how late it wakes.
"""

import contextlib
import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import grpc

from heddle.benchmarks.loop.admission import ring
from heddle.benchmarks.loop.figures import line, progress, spread
from heddle.benchmarks.loop.restarts import fill
from heddle.benchmarks.loop.toggles import Wakes, wakes
from heddle.benchmarks.loop.world import World, world
from heddle.controller.config.load import parse_fabric
from heddle.controller.config.write import fabric_text
from heddle.controller.model.fabric import Fabric
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.processes.running_switches import Switches

SHAPE = "kind: spine_leaf, spines: 64, leaves: 128, hosts_per_leaf: 8"
SEED = 1
READ_PAUSE_S = 0.01
POLL_S = 0.05
SETTLE_S, IDLE_S = 3.0, 3.0
PATIENCE_S = 120.0
CALL_TIMEOUT_S = 60.0
ADDED = {"added_switches", "added_cables", "added_hosts", "added_nics"}
Paths = Mapping[tuple[str, str], tuple[object, ...]]


class Read(NamedTuple):
    """One read: when it began and ended, monotonic seconds, and the code of its status."""

    began: float
    ended: float
    code: str


class Phase(NamedTuple):
    """What was seen while something was done: its seconds, and what the loop's task found."""

    began: float
    seconds: float
    wakes: Wakes

    def of(self, reads: Sequence[Read]) -> list[Read]:
        """Return the reads that began meanwhile."""
        return [read for read in reads if self.began <= read.began < self.began + self.seconds]


class Growth(NamedTuple):
    """The phases with their reads, seconds of `apply` and until rules and a plan, and what became of running flows."""

    phases: dict[str, tuple[Phase, list[Read]]]
    dry_run_s: float
    reply_s: float
    rules_s: float
    """From the start of `apply` until every switch has its rules."""
    planned_s: float
    """From the end of `apply` until a job over a new host has its plan."""
    flows: int
    changed: int


def rack_more(shape: str) -> str:
    """Return the fabric file of a shape with one leaf and its hosts more, every part listed."""
    larger = re.sub(r"(?<=leaves: )\d+", lambda found: str(int(found[0]) + 1), shape)
    fabric = parse_fabric(f"version: 1\nname: bench\ngenerate: {{{larger}, gbps: 100}}\n", "larger")
    return "".join(f"{text}\n" for text in fabric_text(fabric, numbered=True))


def changed_flows(before: Paths, after: Paths) -> int:
    """Return how many flows are gone, or have another path or port."""
    return sum(after.get(flow) != how for flow, how in before.items())


def longest_gap_ms(reads: Sequence[Read]) -> float:
    """Return the longest time between the ends of reads that follow each other and succeeded."""
    ends = [read.ended for read in reads if read.code == "OK"]
    return max((after - before for before, after in itertools.pairwise(ends)), default=0.0) * 1e3


def measured(world: World, file: Path, seed: int, jobs: int, report: Callable[[str], object] = str) -> Growth:
    """Submit jobs, then try a file with a rack more and put it in force."""
    fill(world, seed, jobs)
    before, grown = paths_of(world), parse_fabric(file.read_text(), str(file))
    report(f"{jobs:,} jobs, {len(before):,} flows")
    with racked(world, grown), reading(world) as end_reading:
        time.sleep(SETTLE_S)
        idle, _ = _phase(world, lambda: time.sleep(IDLE_S))
        dry_run, said = _phase(world, lambda: command(world, file, "--dry-run"))
        if kinds := {one["kind"] for one in said["differences"]} - ADDED:
            raise RuntimeError(f"a rack more is to add parts only; the dry run names {', '.join(sorted(kinds))}")
        report("the dry run has ended")
        apply, (replied, ruled, planned) = _phase(world, lambda: _applied(world, file, grown, seed))
        reads = end_reading()
    after = paths_of(world)
    phases = {"before": idle, "dry run": dry_run, "apply": apply}
    return Growth(
        {name: (phase, phase.of(reads)) for name, phase in phases.items()}, dry_run_s=dry_run.seconds,
        reply_s=replied - apply.began, rules_s=ruled - apply.began, planned_s=planned - replied,
        flows=len(before), changed=changed_flows(before, after),
    )  # fmt: skip


def _phase(world: World, act: Callable[[], Any]) -> tuple[Phase, Any]:
    wakes(world)
    began = time.monotonic()
    result = act()
    return Phase(began, time.monotonic() - began, wakes(world)), result


def command(world: World, file: Path, *more: str) -> dict[str, Any]:
    """Run `heddle fabric apply` and return what it prints as JSON; raises CalledProcessError."""
    words = [sys.executable, "-m", "heddle.programs.console.main", "fabric", "apply", str(file), "--json"]
    done = subprocess.run([*words, "--server", world.controller.grpc, *more], stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _applied(world: World, file: Path, grown: Fabric, seed: int) -> tuple[float, float, float]:
    """Apply a file; return when it replied, when all switches had rules, and when a new host was planned."""
    command(world, file)
    replied = time.monotonic()
    with ThreadPoolExecutor(1) as callers:
        planning = callers.submit(_planned, world, grown, seed)
        ruled = _wait_for_rules(world, len(grown.switches))
        return replied, ruled, planning.result()


def _planned(world: World, grown: Fabric, seed: int) -> float:
    """Submit a job over an old host and a new one until it has its plan; return when."""
    old = random.Random(seed).choice(world.fabric.nics).id
    new = next(nic.id for nic in grown.nics if nic.id not in world.fabric.nic_by_id)
    end = time.monotonic() + PATIENCE_S
    with grpc.insecure_channel(world.controller.grpc, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        while True:
            try:
                rpc.JobServiceStub(channel).SubmitJob(ring([new, old], "new"), timeout=CALL_TIMEOUT_S)
                return time.monotonic()
            except grpc.RpcError as error:  # its leaf has not connected, or lacks rules
                if time.monotonic() > end:
                    raise TimeoutError(f"no plan of a new host: {error.details()}") from error
                time.sleep(POLL_S)


def _wait_for_rules(world: World, switches: int) -> float:
    """Return when so many switches are connected and have all rules; raises TimeoutError."""
    end = time.monotonic() + PATIENCE_S
    wanted = (f"_connected {switches}\n", "_lacking_rules 0\n", "_lagging 0\n")
    while time.monotonic() < end:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://{world.controller.http}/metrics", timeout=CALL_TIMEOUT_S) as reply,
        ):
            text = reply.read().decode()
            if all(f"heddle_switches{line}" in text for line in wanted):
                return time.monotonic()
        time.sleep(POLL_S)
    raise TimeoutError(f"not all of {switches} switches have their rules")


def paths_of(world: World) -> Paths:
    """Return path and ports of every flow of every job, by job and flow."""
    jobs, page = world.controller.jobs, pb.ListJobsReply()
    found: dict[tuple[str, str], tuple[object, ...]] = {}
    while True:
        page = jobs.ListJobs(pb.ListJobsRequest(page_token=page.next_page_token), timeout=CALL_TIMEOUT_S)
        for job in page.jobs:
            for flow in jobs.GetJob(pb.GetJobRequest(job_id=job.job_id), timeout=CALL_TIMEOUT_S).flows:
                how = (*flow.links, flow.udp_source_port, *flow.reverse_links, flow.reverse_udp_source_port)
                found[job.job_id, flow.flow_id] = how
        if not page.next_page_token:
            return found


@contextmanager
def racked(world: World, grown: Fabric) -> Iterator[None]:
    """Let the switches that only the larger fabric has connect again and again, as such switches do."""
    rack = Switches(grown)
    for name in world.fabric.switch_by_id:
        del rack.by_id[name]
    rack.connect(world.controller.openflow)
    try:
        yield
    finally:
        rack.close()


@contextmanager
def reading(world: World) -> Iterator[Callable[[], list[Read]]]:
    """Read jobs from another process; the function that is yielded ends it and returns the reads."""
    words = [sys.executable, "-m", "heddle.benchmarks.loop.growth", world.controller.grpc]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield lambda: [Read(*row) for row in json.loads(process.communicate(timeout=CALL_TIMEOUT_S)[0])]
        finally:
            process.kill()


def read(address: str, ended: threading.Event) -> list[Read]:
    """Get a job and list jobs in turn until `ended`."""
    found: list[Read] = []
    with grpc.insecure_channel(address) as channel:
        jobs = rpc.JobServiceStub(channel)
        calls: tuple[Callable[[], object], ...] = (
            lambda: jobs.GetJob(pb.GetJobRequest(job_id="job-0"), timeout=CALL_TIMEOUT_S),
            lambda: jobs.ListJobs(pb.ListJobsRequest(), timeout=CALL_TIMEOUT_S),
        )
        for call in itertools.cycle(calls):
            if ended.wait(READ_PAUSE_S):
                break
            began, code = time.monotonic(), "OK"
            try:
                call()
            except grpc.RpcError as error:
                code = error.code().name
            found.append(Read(began, time.monotonic(), code))
    return found


def run(out: TextIO, shape: str = SHAPE, jobs: int = 1_000) -> dict[str, Any]:
    """Measure `heddle fabric apply` of a rack more, and what callers and the controller's loop notice."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "larger.yaml"
        file.write_text(rack_more(shape))
        with world(shape, "heddle.benchmarks.loop.probed", is_journaled=True, rules_within_s=PATIENCE_S) as one:
            growth = measured(one, file, SEED, jobs, progress("apply"))
    found: dict[str, Any] = {"goal_reply_s": 5, "goal_planned_s": 5, "goal_late_max_ms": 50, "jobs": jobs}
    found |= {name: getattr(growth, name) for name in (*SECONDS, "flows", "changed")}
    for name, text in SECONDS.items():
        print(f"  {text:50}{found[name]:10.2f} s", file=out)
    for name, (phase, reads) in growth.phases.items():
        read_ms = [(each.ended - each.began) * 1e3 for each in reads]
        failed, gap_ms = sum(each.code != "OK" for each in reads), longest_gap_ms(reads)
        found[name] = {step: spread(getattr(phase.wakes, step)) for step in WAKES}
        found[name] |= {"read_ms": spread(read_ms), "failed": failed, "gap_ms": gap_ms}
        for step, text in WAKES.items():
            line(out, f"{name}: {text}", found[name][step])
        line(out, f"{name}: a read", found[name]["read_ms"])
        print(f"    {failed} reads failed; {gap_ms:.1f} ms at most between two that succeeded", file=out)
    print(f"  {growth.changed} of {growth.flows:,} running flows have another path or port", file=out, flush=True)
    if growth.changed:
        raise RuntimeError(f"{growth.changed} running flows have another path or port")
    return found


SECONDS = {
    "dry_run_s": "the command with --dry-run",
    "reply_s": "the command without it (goal 5)",
    "rules_s": "until all switches have their rules",
    "planned_s": "from its end to a plan of a new host (goal 5)",
}


WAKES = {"late_ms": "loop late (goal: at most 50)", "used_ms": "loop's processor time by then"}


def main(address: str) -> None:
    """Read until standard input ends, and print the reads."""
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    print(json.dumps(read(address, ended)))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A controller as a process with fake switches on loopback, a client, and jobs of random pairs."""

import queue
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import grpc

from heddle.controller.config import load_fabric
from heddle.controller.model.fabric import Fabric
from heddle.foundation.identity import Role
from heddle.foundation.tls_files import Tls
from heddle.v1 import heddle_pb2 as pb
from tests.support.certificates import authority, files_of
from tests.support.controllers.controller_process import Controller
from tests.support.processes.running_switches import Switches, switches

HOLD_MS = 20
"""A port that came up is used after so long: a benchmark does not wait half a second for each cable."""
TIMEOUT_S = 20.0
QUIET_S = 0.25


class World(NamedTuple):
    """The parts of one run."""

    controller: Controller
    switches: Switches
    fabric: Fabric
    restart: Callable[[], Controller]
    """Kills the controller and starts another on its ports and state, which it returns."""


class Certificates:
    """Certificates of a controller, of every switch of a fabric, and of an operator, for a few hours."""

    def __init__(self, folder: Path, fabric: Fabric) -> None:
        ca = authority(fabric.name)

        def of(role: Role, name: str) -> Tls:
            return Tls(files_of(ca, role, name, folder / name), print)

        files = files_of(ca, Role.CONTROLLER, "c1", folder / "c1")
        self.section = f"{{certificate: {files.certificate}, key: {files.key}, ca: {files.ca}}}"
        self.operator = of(Role.OPERATOR, "ada")
        self.switches = {each.id: of(Role.SWITCH, each.id).client_context() for each in fabric.switches}


@contextmanager
def world(
    shape: str,
    program: str = "heddle.programs.console.main",
    *,
    is_journaled: bool = False,
    has_tls: bool = False,
    rules_within_s: float = TIMEOUT_S,
    **config: str,
) -> Iterator[World]:
    """Run a controller for a generated fabric of 100 Gbit/s, and wait until every switch holds its rules.

    With `has_tls` switches and client have certificates. Hundreds of switches may need more than `rules_within_s`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fabric.yaml"
        path.write_text(f"version: 1\nname: bench\ngenerate: {{{shape}, gbps: 100}}\n")
        settings, fabric = Path(folder) / "config.yaml", load_fabric(path)
        certificates = Certificates(Path(folder), fabric) if has_tls else None
        if certificates is not None:
            config["tls"] = certificates.section
        tls = certificates.operator if certificates is not None else None
        settings.write_text("".join(f"{key}: {value}\n" for key, value in {"port_hold_ms": HOLD_MS, **config}.items()))
        state = str(Path(folder) / "state") if is_journaled else "none"
        more = ("--config", str(settings), "--state", state)
        running = Controller(path, more=more, program=program, tls=tls)
        try:
            with switches(fabric, running.openflow, certificates.switches if certificates is not None else {}) as fakes:
                running.wait_for_rules(rules_within_s)
                _warm(running, fabric)

                def restart() -> Controller:
                    nonlocal running
                    before = running
                    before.kill()
                    running = Controller(path, before.openflow, (*more, "--grpc", before.grpc), program, tls=tls)
                    return running

                yield World(running, fakes, fabric, restart)
        finally:
            running.end()


def _warm(running: Controller, fabric: Fabric) -> None:
    """Let both planner processes plan once: they load their kernels then, on cores that a measurement needs."""
    request = pairs_job(fabric, 0, "warm", 1, 1, "SOURCE_PORT")
    running.jobs.PreviewJob(request)
    running.jobs.SubmitJob(request)
    running.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=request.job_id))


def pairs_job(
    fabric: Fabric, seed: int, job_id: str, pairs: int, queue_pairs: int, steering: str
) -> pb.SubmitJobRequest:
    """Return a job of random pairs of NICs on different leaves."""
    drawn = random.Random(seed)
    nics = fabric.nics
    leaf = {nic.id: nic.port.switch for nic in nics}
    chosen: dict[tuple[int, int], None] = {}
    while len(chosen) < pairs:
        a, b = drawn.sample(range(len(nics)), 2)
        if leaf[nics[a].id] != leaf[nics[b].id]:
            chosen[a, b] = None
    collective = pb.Collective(
        kind="SEND_RECV", bytes=1_000_000, qps_per_flow=queue_pairs,
        pairs=[pb.RankPair(src_rank=a, dst_rank=b) for a, b in chosen],
    )  # fmt: skip
    return pb.SubmitJobRequest(
        job_id=job_id, ranks=[nic.id for nic in nics], collectives=[collective], steering=steering
    )


class Generation(NamedTuple):
    """A generation of a job's plan, and when the client had it, monotonic seconds."""

    at: float
    plan: pb.JobPlan


class Watch:
    """The generations of one job as WatchJob publishes them, and its flows as of the last one."""

    def __init__(self, running: Controller, job_id: str) -> None:
        self._running = running
        self._stream = running.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id, changes_only=True))
        self._found: queue.Queue[Generation] = queue.Queue()
        self._thread = threading.Thread(target=self._read, name=f"watch of {job_id}", daemon=True)
        self._thread.start()
        self.flows = {flow.flow_id: flow for flow in self._all_flows(self._found.get(timeout=TIMEOUT_S).plan)}

    def _read(self) -> None:
        try:
            for plan in self._stream:
                self._found.put(Generation(time.monotonic(), plan))
        except grpc.RpcError:
            return

    def _all_flows(self, plan: pb.JobPlan) -> list[pb.FlowPlan]:
        if not plan.flows_truncated:
            return list(plan.flows)
        pages = self._running.jobs.StreamFlows(pb.GetJobRequest(job_id=plan.job_id))
        return [flow for page in pages for flow in page.flows]

    def next(self, timeout_s: float = TIMEOUT_S) -> Generation:
        """Return the next generation; raises queue.Empty where none comes in time."""
        generation = self._found.get(timeout=timeout_s)
        for flow in self._all_flows(generation.plan):
            self.flows[flow.flow_id] = flow
        return generation

    def settle(self) -> None:
        """Take generations until none has come for a while."""
        while True:
            try:
                self.next(QUIET_S)
            except queue.Empty:
                return

    def close(self) -> None:
        """End the stream."""
        self._stream.cancel()
        self._thread.join(TIMEOUT_S)


def wait_for_links(running: Controller, down: frozenset[str]) -> None:
    """Wait until exactly these directed links are not up; raises TimeoutError."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        topology = running.fabric.GetTopology(pb.GetTopologyRequest())
        found = {link.id for link in topology.links if not link.up}
        if found == down:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"links down: {len(found)}, {len(down)} expected; {sorted(found ^ down)[:5]} differ")
        time.sleep(0.02)

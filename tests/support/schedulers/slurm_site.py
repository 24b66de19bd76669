"""A real Slurm whose nodes are the hosts of a fabric, a controller with fake switches, the agent between the two."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from heddle.controller.config.load import load_fabric
from heddle.programs.console.launch.node import task_prolog
from heddle.programs.console.launch.node.places import LIBRARY
from heddle.programs.console.slurm import hook
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.processes.running_switches import Switches
from tests.support.schedulers.slurm_cluster import SlurmCluster, slurm_cluster

FABRIC = """\
version: 1
name: slurm
generate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 4, gbps: 100}
"""
TOPOLOGY = "".join(f"SwitchName=leaf{n} Nodes=h[{4 * n - 3}-{4 * n}]\n" for n in range(1, 5))
TOPOLOGY += "SwitchName=fabric Switches=leaf[1-4]\n"
PERIOD_S = 0.5
TIMEOUT_S = 120.0
HEDDLE = (sys.executable, "-m", "heddle.programs.console.main")


class SlurmSite:
    """`slurm` has 16 nodes, `controller` a fabric of hosts of these names; `agent` is a process that tests may end.

    `hook` is the script that slurmctld runs as both hooks; it may be written anew.
    """

    def __init__(self, folder: Path, slurm: SlurmCluster, controller: Controller, period_s: float) -> None:
        self.slurm, self.controller, self._period_s, self._folder = slurm, controller, period_s, folder
        self.hook = folder / "hook"
        self.log = folder / "agent.log"
        self.socket = folder / "agent.sock"
        self.ports = folder / "ports"
        """Where the agents of nodes have their sockets, named after the node, and their library."""
        self.deadline = folder / "deadline"
        """The seconds that hooks wait."""
        self.start_agent()

    def start_agent(self) -> None:
        """Start the agent, and wait until it listens."""
        command = [*HEDDLE, "slurm", "agent", "--server", self.controller.grpc]
        command += ["--socket", str(self.socket), "--period", str(self._period_s), "--lease", "60"]
        command += ["--topology", str(self.slurm.topology)]
        with open(self.log, "a") as log:
            self.agent = subprocess.Popen(command, env=self.slurm.environment, stdout=log, stderr=log)
        before = self.text().count("listening")
        wait_until(lambda: self.text().count("listening") > before, lambda: self.text())

    def start_controller(self) -> None:
        """Start the controller that was killed anew, at its addresses and with its journal."""
        more = ("--grpc", self.controller.grpc, "--state", str(self._folder / "state"))
        self.controller = Controller(self._folder / "fabric.yaml", self.controller.openflow, more=more)

    def start_ports(self, host: str) -> subprocess.Popen[bytes]:
        """Start the agent of a node that serves its ports, and wait until it listens."""
        command = [*HEDDLE, "ports", "--server", self.controller.grpc, "--host", host, "--period", str(PERIOD_S)]
        command += ["--socket", str(self.ports / host), "--folder", str(self.ports)]
        with open(self.log.with_name(f"ports-{host}.log"), "a") as log:
            process = subprocess.Popen(command, env=self.slurm.environment, stdout=log, stderr=log)
        wait_until(lambda: "listening" in self.ports_text(host), lambda: self.ports_text(host))
        return process

    def ports_text(self, host: str) -> str:
        """Return what the agent of a node has printed."""
        return self.log.with_name(f"ports-{host}.log").read_text()

    def flows(self, job: int) -> list[pb.FlowPlan]:
        """Return the planned flows of a job of Slurm."""
        request = pb.ListJobsRequest(id_prefix=f"slurm-{job}-")
        (plan,) = self.controller.jobs.ListJobs(request, timeout=TIMEOUT_S).jobs
        return list(plan.flows)

    def text(self) -> str:
        """Return what the agent has printed."""
        return self.log.read_text()

    def hooks_of(self, job: int) -> list[str]:
        """Return the hooks of a job that have ended, in their order, with their status."""
        path = self.hook.with_name("hooks")
        lines = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
        return [f"{name} {status}" for name, found, status in lines if int(found) == job]

    def planned(self) -> dict[int, int]:
        """Return the jobs of Slurm that the controller has, with their numbers of flows."""
        jobs = self.controller.jobs.ListJobs(pb.ListJobsRequest(without_flows=True), timeout=TIMEOUT_S).jobs
        return {int(job.job_id.split("-")[1]): job.flow_count for job in jobs}

    def submit(self, *options: str, sleep_s: float = 60.0) -> int:
        """Submit a batch job that sleeps; return its id."""
        command = ("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", f"sleep {sleep_s:g}")
        return int(self.slurm.run(*command).split(";")[0])

    def wait_for(self, planned: dict[int, int]) -> None:
        """Wait until exactly these jobs are planned."""
        wait_until(lambda: self.planned() == planned, lambda: f"{self.planned()}, not {planned}: {self.text()[-2000:]}")


def wait_until(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    """Wait for a condition; `what` says what is found instead."""
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


@contextmanager
def slurm_site(folder: Path, *, period_s: float = PERIOD_S, extra: Sequence[str] = ()) -> Iterator[SlurmSite]:
    """Run all of it; the hooks of slurmctld wake the agent. `extra` are lines of slurm.conf."""
    (folder / "fabric.yaml").write_text(FABRIC)
    script = folder / "hook"
    command = f"{sys.executable} -I -S {hook.__file__} {folder}/agent.sock $(/bin/cat {folder}/deadline)"
    noted = f'echo "$SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID $?" >>{folder}/hooks'
    script.write_text(f"#!/bin/sh\n{command} >/dev/null 2>&1\n{noted}\nexit 0\n")
    script.chmod(0o755)
    (folder / "deadline").write_text("3")
    (folder / "slurm").mkdir()
    tasks = folder / "task-prolog"
    command = f"{sys.executable} -I -S {task_prolog.__file__} {folder}/ports/$SLURMD_NODENAME {folder}/ports/{LIBRARY}"
    tasks.write_text(f"#!/bin/sh\n{command} 2>/dev/null\nexit 0\n")
    tasks.chmod(0o755)
    hooks = [f"PrologSlurmctld={script}", f"EpilogSlurmctld={script}", f"TaskProlog={tasks}", *extra]
    with ExitStack() as stack:
        controller = Controller(folder / "fabric.yaml", more=("--state", str(folder / "state")))
        switches = Switches(load_fabric(folder / "fabric.yaml"))
        stack.callback(switches.close)
        switches.connect(controller.openflow)
        cluster = stack.enter_context(slurm_cluster(folder / "slurm", TOPOLOGY, slurmds=16, extra=hooks))
        controller.wait_for_rules()
        site = SlurmSite(folder, cluster, controller, period_s)
        try:
            yield site
        finally:
            site.agent.kill()
            site.agent.wait(TIMEOUT_S)
            site.controller.kill()

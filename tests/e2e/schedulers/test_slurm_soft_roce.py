"""Debian's ib_write_bw under srun, unchanged: every queue pair on its planned port, without `heddle exec`.

Two virtual machines with soft RoCE are the nodes of a real Slurm, in place of two hosts of `heddle lab fabric`.
"""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from heddle.controller.model.address import ip_text
from heddle.mininet_topos.measure.flow_run import Capture, FiveTuple
from heddle.mininet_topos.playground.fabric import lab_fabric
from heddle.mininet_topos.playground.lab import Playground
from heddle.mininet_topos.services.telemetry import why_no_broker
from heddle.mininet_topos.switches.queue_model import why_unavailable
from heddle.programs.console.launch.node.places import LIBRARY, SOCKET
from heddle.programs.console.launch.node.task_prolog_script import task_prolog_script
from heddle.programs.console.launch.port_shim import shim_library
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.guests.guest import DEVICE, GID_INDEX, MACHINE, Guest, running_guest
from tests.support.guests.image import why_no_guests
from tests.support.schedulers.slurm_cluster import MISSING, SlurmCluster, slurm_cluster
from tests.support.schedulers.slurm_site import HEDDLE, wait_until

WHY_NOT = why_no_guests() or why_no_broker() or why_unavailable() or (MISSING and f"{MISSING} is not installed")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.soak,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual machines as nodes of Slurm here: {WHY_NOT}"),
]
FABRIC = """\
version: 1
name: guests
generate: {kind: spine_leaf, spines: 4, leaves: 2, hosts_per_leaf: 1, gbps: 0.02}
"""
TOPOLOGY = "SwitchName=fabric Nodes=h[1-2]\n"
PATIENT = ("TCPTimeout=60", "DebugFlags=NO_CONF_HASH")
"""A guest takes seconds for a message, and has a slurm.conf of its own."""
IN_GUEST = "/run/slurm"
CGROUPS = """
    mount -t tmpfs cgroup /sys/fs/cgroup && mkdir /sys/fs/cgroup/systemd &&
    mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
"""
"""Without these slurmd ends at its start."""
QPS = 8
MESSAGES, MESSAGE_BYTES, MTU_BYTES = 50, 4_096, 1_024
STEP_S, START_S = 600.0, 300
CONNECT = """
    if [ $SLURM_PROCID = 1 ]; then exec {program}; fi
    for try in $(seq 60); do {program} {server} && exit; sleep 2; done; exit 1
"""
"""The second task serves; the first connects once that listens."""


class Site(NamedTuple):
    """Two guests that are the nodes of a Slurm; `job` holds both, and its plan has QPS flows each way."""

    playground: Playground
    guests: tuple[Guest, Guest]
    slurm: SlurmCluster
    job: str
    plan: pb.JobPlan

    def run(self, program: str) -> tuple[str, Capture]:
        """Run a program on both nodes as a step of the job; return what it prints, and what the lab has counted."""
        script = CONNECT.format(program=program, server=ip_text(self.guests[1].nic.ip))
        step = (
            "srun",
            f"--jobid={self.job}",
            "--overlap",
            "-K",
            "-N2",
            "-n2",
            "--export=ALL,HEDDLE_PORT_DEADLINE_MS=20000",
        )
        self.playground.lab.captured()
        return self.slurm.run(*step, "sh", "-c", script, timeout_s=STEP_S), self.playground.lab.captured()

    def streams(self) -> dict[str, FiveTuple]:
        """Return the 5-tuple of the data of each planned flow."""
        nics = self.playground.lab.fabric.nic_by_id
        return {
            flow.flow_id: FiveTuple(nics[flow.src_nic].ip, nics[flow.dst_nic].ip, flow.udp_source_port)
            for flow in self.plan.flows
        }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("guests")
    for name in ("slurm", "ports"):
        (folder / name).mkdir()
    (folder / "fabric.yaml").write_text(FABRIC)
    (folder / "ports" / LIBRARY).symlink_to(shim_library(folder / "ports").name)  # guests would compile for a minute
    tasks = folder / "task-prolog"
    tasks.write_text(task_prolog_script(SOCKET, f"{folder}/ports/{LIBRARY}"))
    tasks.chmod(0o755)
    extra = (*PATIENT, f"TaskProlog={tasks}")
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("HEDDLE_RUN_DIR", str(folder / "run"))
        playground = stack.enter_context(Playground(lab_fabric(folder / "fabric.yaml")))
        slurm = stack.enter_context(
            slurm_cluster(folder / "slurm", TOPOLOGY, nodes=2, slurmds=2, extra=extra, elsewhere=True)
        )
        guests = [
            stack.enter_context(running_guest(playground.lab, nic, folder, [port]))
            for nic, port in zip(playground.lab.fabric.nics, slurm.ports, strict=True)
        ]
        server = playground.addresses["grpc"]
        for guest in guests:
            guest.boot()
            start_node(guest, slurm, f"{MACHINE}:{server.rpartition(':')[2]}", folder / "ports")
        wait_until(lambda: slurm.idle() == 2, slurm.log)
        stack.enter_context(planning_agent(server, slurm))
        jobs = rpc.JobServiceStub(stack.enter_context(grpc.insecure_channel(server)))
        slurm.run("salloc", "--no-shell", "-N2", "--comment", f"heddle: qps={QPS}")
        job = slurm.run("squeue", "-h", "-o", "%A").strip()
        request = pb.ListJobsRequest(id_prefix=f"slurm-{job}-")
        wait_until(lambda: len(jobs.ListJobs(request).jobs) == 1, slurm.log)
        slurm.run("srun", f"--jobid={job}", "--overlap", "-N2", "-n2", "true", timeout_s=STEP_S)  # announces the job
        for guest in guests:
            guest.until("grep -q 'its plan is known' ports.log", START_S)
        yield Site(playground, (guests[0], guests[1]), slurm, job, jobs.ListJobs(request).jobs[0])


def start_node(guest: Guest, slurm: SlurmCluster, server: str, ports: Path) -> None:
    """Start munged, slurmd and the agent that serves the node's ports; a node's files are in its memory."""
    conf = slurm.conf.read_text().replace("127.0.0.1", MACHINE).replace(str(slurm.folder), IN_GUEST)
    munge = f"{IN_GUEST}/munge"
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    guest.run(f"mkdir -p {munge} {IN_GUEST}/log {IN_GUEST}/run {IN_GUEST}/spool/{guest.nic.host} {IN_GUEST}/state")
    guest.run(f"cp {slurm.folder}/munge/key {munge}/key; chmod 600 {munge}/key; chmod 755 {munge}")
    guest.run(f"cp {slurm.topology} {IN_GUEST}; cat >{IN_GUEST}/slurm.conf <<'END'\n{conf}\nEND")
    guest.start(
        "munged", "munged", "--foreground", "--force", *(f"--{key}={munge}/{name}" for key, name in files.items())
    )
    guest.until(f"[ -e {munge}/socket ]", START_S)
    guest.run(f"hostname {socket.gethostname()}\n{CGROUPS}")
    guest.start("slurmd", "slurmd", "-D", "-N", guest.nic.host, "-f", f"{IN_GUEST}/slurm.conf")
    guest.until("grep -q 'slurmd started' slurmd.log || [ -e slurmd.status ]", START_S)
    guest.run("[ ! -e slurmd.status ] || { cat slurmd.log; exit 1; }")
    guest.start("ports", *HEDDLE, "ports", "--server", server, "--host", guest.nic.host, "--folder", str(ports))
    guest.until("grep -q listening ports.log", START_S)


@contextmanager
def planning_agent(server: str, slurm: SlurmCluster) -> Iterator[None]:
    """Run `heddle slurm agent` while the context lasts."""
    command = [*HEDDLE, "slurm", "agent", "--server", server, "--socket", str(slurm.folder / "agent.sock")]
    with subprocess.Popen(command, env=slurm.environment, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def sent(capture: Capture) -> set[FiveTuple]:
    """Return all streams of data and ACKs that the lab has counted."""
    return {stream for counts in (capture.data, capture.acks) for link in counts.values() for stream in link}


def test_ib_write_bw_under_srun_has_each_queue_pair_on_its_planned_port_and_cables(site):
    options = ("-b", "-q", QPS, "-s", MESSAGE_BYTES, "-n", MESSAGES, "-t", 4, "-Q", 1, "-u", 18)
    printed, capture = site.run(" ".join(map(str, ("ib_write_bw", "-d", DEVICE, "-x", GID_INDEX, *options))))
    assert len(site.plan.flows) == 2 * QPS
    for flow in site.plan.flows:
        counted = capture.links_of(site.streams()[flow.flow_id])
        assert counted.keys() == set(flow.links), printed
        assert min(counted.values()) >= MESSAGES * MESSAGE_BYTES // MTU_BYTES
    assert sent(capture) == set(site.streams().values()), "a packet has a port that is not planned"

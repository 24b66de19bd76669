"""A real Slurm on loopback: munged, slurmctld and a slurmd for each node, with files, state and keys in one folder.

Debian's slurmd takes `-N NAME`, so that many run on one machine. Nothing of /etc/slurm is read or written.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.free_ports import free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "sinfo")
MISSING = next((name for name in PROGRAMS if shutil.which(name, path=f"{os.defpath}:/usr/sbin:/sbin") is None), None)
"""A program of Slurm that is not installed; None where all are."""
START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 10.0
POLL_S = 0.05
CONF = """\
ClusterName=heddle
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
MinJobAge=3600
MessageTimeout={timeout_s}
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0,defer
TopologyPlugin=topology/tree
{extra}
NodeName={name}[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 {ports} CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class SlurmCluster:
    """One slurmctld and its nodes h1, h2, …; `topology` is its topology.conf, `environment` that of its commands.

    `ports` are the TCP ports of the nodes' slurmd.
    """

    def __init__(
        self, folder: Path, nodes: int, slurmds: int, topology: str, extra: str, *, elsewhere: bool = False
    ) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self.topology = folder / "topology.conf"
        self.nodes = [f"h{number}" for number in range(1, nodes + 1)]
        path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
        self.environment = {**os.environ, "SLURM_CONF": str(self.conf), "PATH": path}
        self._slurmds = 0 if elsewhere else slurmds
        self._processes: list[subprocess.Popen[bytes]] = []
        for name in ("munge", "state", "spool", "run", "log", *(f"spool/{node}" for node in self.nodes)):
            (folder / name).mkdir()
        (folder / "munge/key").write_bytes(secrets.token_bytes(128))
        (folder / "munge/key").chmod(0o600)
        port, *ports = free_ports(1 + (slurmds or 1))  # where no slurmd runs, all nodes have a port without a listener
        self.ports = ports
        listed = f"Port=[{','.join(map(str, ports))}]" if slurmds else f"Port={ports[0]}"
        values = {"folder": folder, "host": socket.gethostname(), "port": port, "ports": listed, "nodes": nodes}
        timeout_s = 60 if nodes > 16 or elsewhere else 3
        self.conf.write_text(CONF.format(**values, timeout_s=timeout_s, name="h", extra=extra))
        self.topology.write_text(topology)

    def start(self) -> None:
        """Start the daemons and wait until slurmctld replies, and every slurmd is idle."""
        munge = self.folder / "munge"
        names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        self._spawn("munged", "--foreground", "--force", *(f"--{key}={munge / name}" for key, name in names.items()))
        self._wait(lambda: (munge / "socket").exists(), "munged has no socket")
        self.start_controller()
        for node in self.nodes[: self._slurmds]:
            self._spawn("slurmd", "-D", "-N", node, "-f", self.conf)
        self._wait(lambda: self.idle() >= self._slurmds, "nodes are not idle")

    def start_controller(self, *options: str) -> None:
        """Start slurmctld, and wait until it replies."""
        self.controller = self._spawn("slurmctld", "-D", "-i", "-f", self.conf, *options)
        self._wait(lambda: self.controller.poll() is not None or self.replies(), "slurmctld does not reply")
        assert self.controller.poll() is None, self.log()

    def stop_controller(self) -> None:
        """End slurmctld as systemd does."""
        self.controller.terminate()
        self.controller.wait(END_TIMEOUT_S)

    def run(self, *command: str, check: bool = True, timeout_s: float = 120.0) -> str:
        """Run a command of Slurm; return its output, errors last."""
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.environment, timeout=timeout_s, stdin=subprocess.DEVNULL
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout + done.stderr

    def replies(self) -> bool:
        """Return whether slurmctld replies."""
        return "is UP" in self.run("scontrol", "ping", check=False)

    def idle(self) -> int:
        """Return how many nodes are idle."""
        return self.run("sinfo", "-h", "-N", "-o", "%t", check=False).split().count("idle")

    def log(self) -> str:
        """Return the last lines of slurmctld's log."""
        path = self.folder / "log/slurmctld.log"
        return "\n".join(path.read_text().splitlines()[-20:]) if path.exists() else "no log"

    def end(self) -> None:
        """End all daemons, the last started first."""
        for sent in (signal.SIGTERM, signal.SIGKILL):
            living = [process for process in reversed(self._processes) if process.poll() is None]
            for process in living:
                process.send_signal(sent)
            for process in living:
                try:
                    process.wait(END_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    continue

    def _spawn(self, program: str, *arguments: object) -> subprocess.Popen[bytes]:
        found = shutil.which(program, path=self.environment["PATH"])
        assert found is not None, program
        with open(self.folder / "log/output", "ab") as log:
            process = subprocess.Popen(
                [found, *map(str, arguments)],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + START_TIMEOUT_S
        while not holds():
            assert time.monotonic() < end, f"{what}: {self.log()}"
            time.sleep(POLL_S)


@contextmanager
def slurm_cluster(
    folder: Path,
    topology: str,
    *,
    nodes: int = 16,
    slurmds: int = 0,
    extra: Sequence[str] = (),
    elsewhere: bool = False,
) -> Iterator[SlurmCluster]:
    """Run a cluster whose first `slurmds` nodes are up (all or none); with `elsewhere` the caller starts them."""
    cluster = SlurmCluster(folder, nodes, slurmds, topology, "\n".join(extra), elsewhere=elsewhere)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()

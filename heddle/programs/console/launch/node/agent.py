"""`heddle ports`: one socket of a node, at which the shim in any process gets the planned ports of its job."""

import os
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from heddle.controller.model.error import PrerequisiteError
from heddle.foundation.unix_socket import is_listening
from heddle.programs.console.launch.node.jobs import NodeJobs
from heddle.programs.console.launch.node.places import LIBRARY
from heddle.programs.console.launch.port_shim import shim_library
from heddle.programs.console.launch.responder import PortServer
from heddle.programs.console.slurm.planned_jobs import PlannedJobs

Log = Callable[[str], None]


def run_ports(
    server: str, path: Path, folder: Path, hosts: Sequence[str], period_s: float, log: Log, metrics: str = ""
) -> None:
    """Serve until SIGTERM or SIGINT, with `/metrics` at an address where one is given.

    Raises PrerequisiteError where another agent has the socket, or another program the address.
    """
    _library(folder, log)
    _free(path)
    ended = Event()
    with closing(PlannedJobs(server, 0)) as calls:
        jobs = NodeJobs(calls, hosts, log)
        passes = Thread(target=jobs.run_passes, args=(ended, period_s), daemon=True)
        mask = os.umask(0o111)  # every user's processes may connect: mode 0666
        try:
            serving = PortServer(str(path), jobs.ports)
        finally:
            os.umask(mask)
        with serving, _counted(metrics, jobs, serving, log), suppress(KeyboardInterrupt):
            passes.start()
            log(f"listening at {path}")
            ended.wait()
        ended.set()
        jobs.wake()
        passes.join(1)
    counts = jobs.counts
    log(
        f"{counts.planned:,} queue pairs with a planned port, {counts.unplanned:,} of pairs without a plan, "
        f"{counts.unknown:,} of no planned job, {serving.late:,} before its plan was known; "
        f"{serving.refused:,} requests refused, {serving.closed:,} closed; {counts.forgotten:,} jobs forgotten"
    )


@contextmanager
def _counted(address: str, jobs: NodeJobs, serving: PortServer, log: Log) -> Iterator[None]:
    """Serve the counters at an address, if there is one."""
    if not address:
        yield
        return
    from heddle.programs.console.launch.node.metrics import metrics_served, ports_text  # a web server: 0.1 s

    with metrics_served(address, lambda: ports_text(jobs, serving)) as bound:
        log(f"metrics at http://{bound}/metrics")
        yield


def _library(folder: Path, log: Log) -> None:
    """Compile the library, and name it LIBRARY; one that is there is used where none can be compiled."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    named = folder / LIBRARY
    try:
        library = shim_library(folder)
    except PrerequisiteError as error:
        if not named.exists():
            raise
        log(f"{error}: {named} is used as it is")
        return
    beside = folder / f".{LIBRARY}.{os.getpid()}"
    beside.unlink(missing_ok=True)
    beside.symlink_to(library.name)  # relative: the folder may be mounted elsewhere, in a container
    beside.replace(named)


def _free(path: Path) -> None:
    """Remove the socket file of an agent that has ended."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise PrerequisiteError(f"{path}: exists and is no socket")
    if is_listening(path, socket.SOCK_SEQPACKET):
        raise PrerequisiteError(f"{path}: another agent listens there")
    path.unlink(missing_ok=True)

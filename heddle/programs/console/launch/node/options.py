"""`heddle ports` as a command: its options."""

import platform
from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.launch.node.places import FOLDER, SOCKET
from heddle.programs.console.option import DEFAULT_SERVER, Server


def ports_command(
    server: Server = DEFAULT_SERVER,
    host: Annotated[str, typer.Option(help="This host's name in the fabric, if not the machine's.")] = "",
    socket: Annotated[Path, typer.Option(metavar="FILE", help="HEDDLE_PORT_SOCKET of the programs.")] = Path(SOCKET),
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the library for LD_AUDIT is put, as port-shim.so.")
    ] = Path(FOLDER),
    period_s: Annotated[
        float, typer.Option("--period", min=0.1, max=60, help="Seconds between two readings of running jobs' plans.")
    ] = 5.0,
    metrics: Annotated[str, typer.Option(metavar="ADDR:PORT", help="Serve Prometheus metrics there.")] = "",
) -> None:
    """Serve planned source ports to the programs of all jobs of this host, unchanged and without a wrapper.

    A program with LD_AUDIT=DIR/port-shim.so and HEDDLE_PORT_SOCKET=FILE gets the ports of its job: that of Slurm's
    cgroup, of HEDDLE_JOB_ID, or of SLURM_JOB_ID. `heddle slurm task-prolog` sets both for the tasks of Slurm. Needs the
    capabilities CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, to read the environment of other users' processes.

    Example: heddle ports --server 10.0.0.1:50051
    """
    from heddle.programs.console.launch.node.agent import run_ports

    names = (host,) if host else (platform.node(), platform.node().partition(".")[0])
    run_ports(server, socket, folder, names, period_s, lambda line: print(line, flush=True), metrics)

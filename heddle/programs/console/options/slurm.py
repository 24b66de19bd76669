"""`heddle slurm …` as commands: their options. What they do is in `heddle/programs/console/slurm`."""

from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.launch.node import places as ports
from heddle.programs.console.option import DEFAULT_SERVER, Server
from heddle.programs.console.slurm.hook import SOCKET, TIMEOUT_S, VARIABLE, wake

slurm = typer.Typer(
    help="Plan the jobs of a Slurm cluster, on the host of slurmctld.", no_args_is_help=True, rich_markup_mode=None
)
Socket = Annotated[str, typer.Option(metavar="FILE", envvar=VARIABLE, help="Where hooks reach the agent.")]


@slurm.command("agent")
def agent(
    server: Server = DEFAULT_SERVER,
    socket: Socket = SOCKET,
    period_s: Annotated[
        float, typer.Option("--period", min=0.1, max=60, help="Seconds between two comparisons with squeue.")
    ] = 5.0,
    lease_s: Annotated[
        float, typer.Option("--lease", min=10, max=3_600, help="Seconds after which jobs end without an agent.")
    ] = 120.0,
    topology: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep this topology.conf as `heddle export slurm --reconfigure` writes it."),
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Drain nodes without a compute NIC that is up; resume those alone.")
    ] = False,
    tenants: Annotated[
        bool, typer.Option("--tenants", help="Submit jobs for the tenant of their account's name.")
    ] = False,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A policy file, whose `slurm` says what jobs send.")
    ] = None,
) -> None:
    """Plan every job that Slurm runs on two or more hosts of the fabric, and release it when it has ended.

    A job is planned as its comment says (`heddle: collective=ALL_TO_ALL bytes=4000000000 qps=4`), else as a rule of the
    policy file says, else as a ring on each rail, which is assumed; ranks are in the order of its nodes. Slurm's jobs
    never wait for a plan but for at most 2.5 s in the hook, and run without one where there is none.

    Example: heddle slurm agent --server 10.0.0.1:50051
    """
    from heddle.programs.console.slurm.agent import SlurmAgentOptions, run_agent

    options = SlurmAgentOptions(topology, drain, tenants, policy)
    run_agent(server, Path(socket), period_s, lease_s, lambda line: print(line, flush=True), options)


@slurm.command("prolog")
def prolog(socket: Socket = SOCKET) -> None:
    """Wake the agent, and wait until it has planned the job, at most 2.5 s; the exit status is 0, always."""
    wake(socket)


@slurm.command("epilog")
def epilog(socket: Socket = SOCKET) -> None:
    """Wake the agent, so that the job that has ended is released at once; the exit status is 0, always."""
    wake(socket)


@slurm.command("hooks")
def hooks(
    socket: Socket = SOCKET,
    deadline_s: Annotated[
        float, typer.Option("--deadline", min=0.1, max=60, help="Seconds that a job waits for its plan at most.")
    ] = TIMEOUT_S,
) -> None:
    """Print the script that slurm.conf names as PrologSlurmctld and EpilogSlurmctld: as `prolog`, but faster.

    Slurm 22.05 runs hooks that were added by `scontrol reconfigure` only once slurmctld was started anew.

    Example: heddle slurm hooks > /etc/slurm/heddle-hook; chmod 755 /etc/slurm/heddle-hook
    """
    from heddle.programs.console.slurm.hook_script import hook_script

    print(hook_script(socket, deadline_s), end="")


@slurm.command("task-prolog")
def task_prolog(
    path: Annotated[str, typer.Option("--socket", metavar="FILE", help="That of `heddle ports`.")] = ports.SOCKET,
    folder: Annotated[str, typer.Option(metavar="DIR", help="That of `heddle ports`.")] = ports.FOLDER,
) -> None:
    """Print the script that slurm.conf names as TaskProlog: each task's queue pairs get the ports of its job's plan.

    Example: heddle slurm task-prolog > /etc/slurm/heddle-task-prolog; chmod 755 /etc/slurm/heddle-task-prolog
    """
    from heddle.programs.console.launch.node.task_prolog_script import task_prolog_script

    print(task_prolog_script(path, f"{folder}/{ports.LIBRARY}"), end="")

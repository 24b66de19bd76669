"""`heddle exec` as a command: its options."""

import os
from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import DEFAULT_SERVER, AlgorithmName, Server


def exec_command(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command and its arguments.")],
    server: Server = DEFAULT_SERVER,
    job: Annotated[str, typer.Option(metavar="ID", help="The job's id; the launcher's if left out.")] = "",
    node_rank: Annotated[int | None, typer.Option(min=0, help="Which node of the job this is, from 0.")] = None,
    node_count: Annotated[int | None, typer.Option(min=1, help="How many nodes the job has.")] = None,
    nic: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="The NIC of each rank here, in order; may be repeated.")
    ] = None,
    host: Annotated[str, typer.Option(help="This host's name in the fabric, if not the machine's.")] = "",
    file: Annotated[
        Path | None, typer.Option(metavar="JOBS", help="A jobs file with one job, ranks: {all: true}.")
    ] = None,
    collective: Annotated[str, typer.Option(help="Without --file: the job's collective.")] = "RING_ALL_REDUCE",
    size_bytes: Annotated[
        int, typer.Option("--bytes", min=1, help="Bytes per rank and iteration, as in a jobs file.")
    ] = 1_000_000_000,
    qps: Annotated[int, typer.Option(min=1, help="Queue pairs per flow, as NCCL_IB_QPS_PER_CONNECTION.")] = 1,
    algorithm: AlgorithmName = "CONTRACT",
    tenant: Annotated[str, typer.Option(help="The job's tenant.")] = "",
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for all nodes, and for the plan.")] = 120.0,
    lease: Annotated[float, typer.Option(min=1, max=3600, help="Seconds until a killed job is released.")] = 30.0,
    require_plan: Annotated[
        bool, typer.Option("--require-plan", help="Fail where there is no plan, instead of running without.")
    ] = False,
    shim: Annotated[bool, typer.Option(help="Give queue pairs their planned source ports by LD_AUDIT.")] = True,
) -> None:
    """Run this node's command of a job with planned paths, unchanged.

    The job is described by options, by a file, or by the environment of torchrun, DeepSpeed, Open MPI, MPICH or Slurm.
    Each node registers with its NICs; when all have, the job is submitted. Its lease is renewed while the command
    runs, and the last node to end releases it. Signals go to the command. A controller that cannot be reached or has no
    plan, or an environment that is incomplete, is one line; the command runs all the same unless --require-plan.

    Exit status: the command's, 128 + n for signal n; 2 for a wrong option or file.

    Example: srun heddle exec --qps 4 -- python train.py
    """
    from heddle.programs.console.launch.command import ExecOptions, run_exec

    options = ExecOptions(
        server=server,
        job_id=job,
        node_rank=node_rank,
        node_count=node_count,
        nics=tuple(nic or ()),
        host=host,
        file=file,
        collective=collective,
        size_bytes=size_bytes,
        queue_pairs=qps,
        algorithm=algorithm,
        tenant=tenant,
        wait_s=wait,
        lease_ms=round(lease * 1000),
        require_plan=require_plan,
        shim=shim,
    )
    raise typer.Exit(run_exec(options, command, os.environ))

"""`heddle job …` as commands: their options. What they do is in `jobs` and `suggest` beside this folder."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import DEFAULT_SERVER, AlgorithmName, Json, Server

job = typer.Typer(
    help="Submit, show and release the jobs of a running controller.", no_args_is_help=True, rich_markup_mode=None
)


@job.command("submit")
def job_submit(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="A jobs file; every job in it is submitted.")],
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Submit the jobs of a file and wait until every switch has acknowledged their paths."""
    from heddle.programs.console import jobs as command

    command.submit(server, jobs, preview=False, as_json=as_json)


@job.command("preview")
def job_preview(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="A jobs file.")],
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Show the plan that `submit` would get now; nothing is reserved."""
    from heddle.programs.console import jobs as command

    command.submit(server, jobs, preview=True, as_json=as_json)


@job.command("suggest")
def job_suggest(
    ranks: Annotated[int, typer.Option(min=1, help="How many ranks to place.")],
    collective: Annotated[str, typer.Option(help="Their collective, such as RING_ALL_REDUCE or ALL_TO_ALL.")],
    size_bytes: Annotated[
        int, typer.Option("--bytes", min=1, help="Bytes per rank and iteration, as in a jobs file.")
    ] = 1_000_000_000,
    gpu_milli: Annotated[int, typer.Option(min=0, help="GPU share per rank in 1/1000; 0 for a whole one.")] = 0,
    qps: Annotated[int, typer.Option(min=1, help="Queue pairs per flow.")] = 1,
    algorithm: AlgorithmName = "CONTRACT",
    most: Annotated[int, typer.Option(min=1, help="The maximum number of suggestions.")] = 3,
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Suggest free NICs for a job, best first, with the link utilisation that each would cause; nothing is reserved.

    Exit status: 0; 2 for a malformed request; 3 if too few GPUs are free, with the jobs that hold them.
    """
    from heddle.controller.model.placement import Shape
    from heddle.programs.console import suggest as command

    collectives = (command.collective_of(collective, size_bytes, qps, algorithm),)
    shape = Shape(ranks=ranks, collectives=collectives, gpu_milli=gpu_milli, max_suggestions=most)
    command.run_suggest(server, shape, as_json=as_json)


JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]


@job.command("show")
def job_show(job_id: JobId, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """Show a job's current plan with all its flows."""
    from heddle.programs.console import jobs as command

    command.show(server, job_id, as_json=as_json)


@job.command("list")
def job_list(
    server: Server = DEFAULT_SERVER,
    tenant: Annotated[str, typer.Option(help="Only this tenant's jobs.")] = "",
    as_json: Json = False,
) -> None:
    """List the jobs that hold paths."""
    from heddle.programs.console import jobs as command

    command.list_jobs(server, tenant, as_json=as_json)


@job.command("watch")
def job_watch(job_id: JobId, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """Print the job's current generation, then every new one, until the job ends."""
    from heddle.programs.console import jobs as command

    command.watch(server, job_id, as_json=as_json)


@job.command("renew")
def job_renew(
    job_id: JobId,
    lease_ms: Annotated[int, typer.Option(min=0, help="The new lease from now; 0 for the default.")] = 0,
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Extend a job's lease."""
    from heddle.programs.console import jobs as command

    command.renew(server, job_id, lease_ms, as_json=as_json)


@job.command("release")
def job_release(job_id: JobId, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """End a job; its paths and pins are released."""
    from heddle.programs.console import jobs as command

    command.release(server, job_id, as_json=as_json)


@job.command("import")
def job_import(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file; rank r has its r-th compute NIC.")],
    traces: Annotated[
        Path, typer.Argument(metavar="PREFIX", help="Execution traces of Chakra: PREFIX.0.et, PREFIX.1.et ...")
    ],
    job_id: Annotated[str, typer.Option("--job-id", help="The name of the job.")] = "trace",
) -> None:
    """Print a jobs file, as JSON, of what a job's execution traces send: collectives by process group, and sends.

    Computing, times and order are left out, so all collectives are in phase 0; what else is left out is counted on
    standard error. It needs no controller. Exit status: 0; 2 for a trace that is malformed or waits for itself.

    Example: heddle job import fabric.yaml traces/train > jobs.json && heddle plan fabric.yaml jobs.json
    """
    from heddle.programs.console.simulators import import_traces

    import_traces(fabric, traces, job_id, sys.stdout, sys.stderr)

"""The `heddle` command: every subcommand is registered here and lives in a file of its own."""

import gc
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from controller.cli.option import DEFAULT_SERVER, Json, Server
from controller.cli.telemetry.options import telemetry
from controller.cli.vpc_options import vpc
from controller.model.error import HeddleError

# gRPC's core writes lines of its own to standard error where an address is taken or a peer is no gRPC; we say it once.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

app = typer.Typer(
    name="heddle",
    help="Plans congestion-free paths for the flows of GPU clusters, proves how good they are, and steers them by "
    "OpenFlow 1.3 and the RoCEv2 source port. Start with `heddle demo`, or offline with `heddle plan`.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
job = typer.Typer(help="Ask a running controller for a job's paths.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(job, name="job")
app.add_typer(telemetry, name="telemetry")
app.add_typer(vpc, name="vpc")


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hold the cycle collector while a command reads, works and ends: what it builds is large and none of it garbage.

    A quarter of the time of a large plan went into walks over values that were all alive.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Fabric and jobs files.")],
    as_json: Json = False,
) -> None:
    """Say whether fabric and jobs files are sound, and where not.

    Jobs files are checked against the fabric file named beside them. Exit status: 0 sound; 2 malformed, each
    problem on a line of its own with its key; 3 sound, but hosts are cut off from each other.
    """
    with _uncollected():
        from controller.cli.check import run_check

        raise typer.Exit(run_check(files, as_json, sys.stdout))


@app.command()
def plan(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file.")],
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="The jobs file.")],
    as_json: Json = False,
    rules: Annotated[bool, typer.Option("--rules", help="Show every switch's rules as well.")] = False,
) -> None:
    """Plan jobs offline: paths, source ports and rates, with the bound that proves how good they are.

    Needs no network and no root. Exit status: 0; 2 malformed input; 3 sound input without an admissible plan.
    """
    with _uncollected():
        from controller.cli.plan import run_plan

        run_plan(fabric, jobs, as_json=as_json, rules=rules)


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to import.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of standard output.")
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="lingjun, simai, htsim or containerlab; told by content if left out."
        ),
    ] = None,
    gbps: Annotated[float, typer.Option(help="Rate of NICs where the file does not say it.")] = 100.0,
    uplink_gbps: Annotated[
        float | None, typer.Option(help="Rate of links between switches where the file does not; --gbps if left out.")
    ] = None,
    aggs_per_pod: Annotated[
        int, typer.Option(min=1, help="lingjun names one PSW per pod: draw it as so many aggregation switches.")
    ] = 1,
    cores: Annotated[
        int | None, typer.Option(min=1, help="lingjun: draw each DSW as so many cores, a multiple of --aggs-per-pod.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the fabric as JSON, which is a fabric file too.")
    ] = False,
) -> None:
    """Turn another format into a fabric file: Lingjun's topo.csv, SimAI, htsim and containerlab topologies.

    Hosts hang on leaves; the tiers above follow from the links. Names are kept where they are valid ids. What a
    fabric file cannot say (a link within one tier, a host without a link) is left out and counted on standard
    error; what was assumed stands in the file's first lines. Exit status: 0; 2 where FILE cannot be imported.

    Example: heddle import lab.clab.yml --gbps 25 -o lab.yaml && heddle check lab.yaml
    """
    with _uncollected():
        from controller.cli.importing import options_of, run_import

        options = options_of(gbps, uplink_gbps, aggs_per_pod, cores, format_name)
        run_import(file, options, format_name=format_name, output=output, as_json=as_json)


@app.command()
def run(
    fabric: Annotated[Path | None, typer.Argument(metavar="FABRIC", help="The fabric file.")] = None,
    config: Annotated[Path | None, typer.Option(help="A config file; see --print-config.")] = None,
    openflow: Annotated[str | None, typer.Option(metavar="ADDR:PORT", help="Where switches connect.")] = None,
    grpc: Annotated[
        str | None, typer.Option(metavar="ADDR:PORT", help="Where clients connect; unix:/PATH for a socket.")
    ] = None,
    http: Annotated[str | None, typer.Option(metavar="ADDR:PORT", help="Where the page and /metrics are.")] = None,
    print_config: Annotated[bool, typer.Option(help="Print every config key with its default, and end.")] = False,
) -> None:
    """Run the controller: OpenFlow 1.3 for switches, gRPC for jobs, HTTP for a page and metrics.

    Prints one JSON line with its addresses when it is ready; logs go to standard error. SIGINT and SIGTERM end
    it; the rules stay in the switches (fail-static) and the next start takes them over by difference.
    """
    from controller.cli.run import run_controller

    run_controller(fabric, config, openflow=openflow, grpc=grpc, http=http, print_config=print_config)


@job.command("submit")
def job_submit(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="A jobs file; every job in it is submitted.")],
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Submit the jobs of a file and wait until every switch has acknowledged their paths."""
    from controller.cli import jobs as command

    command.submit(server, jobs, preview=False, as_json=as_json)


@job.command("preview")
def job_preview(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="A jobs file.")],
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Show the plan that submitting would give now; nothing is reserved."""
    from controller.cli import jobs as command

    command.submit(server, jobs, preview=True, as_json=as_json)


@job.command("suggest")
def job_suggest(
    ranks: Annotated[int, typer.Option(min=1, help="How many ranks look for a place.")],
    collective: Annotated[str, typer.Option(help="What they do, such as RING_ALL_REDUCE or ALL_TO_ALL.")],
    size_bytes: Annotated[int, typer.Option("--bytes", min=1, help="How much, per iteration.")] = 1_000_000_000,
    gpu_milli: Annotated[int, typer.Option(min=0, help="GPU share per rank in 1/1000; 0 for a whole one.")] = 0,
    qps: Annotated[int, typer.Option(min=1, help="Queue pairs per flow.")] = 1,
    most: Annotated[int, typer.Option(min=1, help="At most so many places.")] = 3,
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Say on which free NICs a job should run, best first, with what each place would cost; nothing is reserved.

    Exit status: 0; 2 where the question is wrong; 3 where too few GPUs are free, with what would free some.
    """
    from controller.cli import suggest as command
    from controller.model.placement import Shape

    collectives = (command.collective_of(collective, size_bytes, qps),)
    shape = Shape(ranks=ranks, collectives=collectives, gpu_milli=gpu_milli, max_suggestions=most)
    command.run_suggest(server, shape, as_json=as_json)


JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]


@job.command("show")
def job_show(job_id: JobId, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """Show a job's current plan with all its flows."""
    from controller.cli import jobs as command

    command.show(server, job_id, as_json=as_json)


@job.command("list")
def job_list(
    server: Server = DEFAULT_SERVER,
    tenant: Annotated[str, typer.Option(help="Only this tenant's jobs.")] = "",
    as_json: Json = False,
) -> None:
    """List the jobs that hold paths."""
    from controller.cli import jobs as command

    command.list_jobs(server, tenant, as_json=as_json)


@job.command("watch")
def job_watch(job_id: JobId, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """Print a line for the job's plan now and for every later generation, until it ends."""
    from controller.cli import jobs as command

    command.watch(server, job_id, as_json=as_json)


@job.command("renew")
def job_renew(
    job_id: JobId,
    lease_ms: Annotated[int, typer.Option(min=0, help="The new lease from now; 0 for the default.")] = 0,
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Extend a job's lease."""
    from controller.cli import jobs as command

    command.renew(server, job_id, lease_ms, as_json=as_json)


@job.command("release")
def job_release(job_id: JobId, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """End a job: its paths are free, its pins go."""
    from controller.cli import jobs as command

    command.release(server, job_id, as_json=as_json)


@app.command()
def topology(
    server: Server = DEFAULT_SERVER,
    watch: Annotated[bool, typer.Option("--watch", help="Go on with every change.")] = False,
    as_json: Json = False,
) -> None:
    """Show switches and links as the controller sees them, with planned utilisation."""
    from controller.cli import fabric as command

    command.topology(server, watch=watch, as_json=as_json)


@app.command()
def explain(
    flow_id: Annotated[str, typer.Argument(metavar="FLOW", help="JOB/COLLECTIVE/SRC_RANK-DST_RANK/QUEUE_PAIR")],
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Say why a flow goes where it goes: job, generation, the rule on every switch, who shares its links."""
    from controller.cli import fabric as command

    command.explain(server, flow_id, as_json=as_json)


@app.command()
def events(
    since: Annotated[str, typer.Option(metavar="DURATION", help="How far back: 90s, 15m, 1h, 7d.")] = "1h",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    server: Server = DEFAULT_SERVER,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Show what happened: conditions raised and cleared, agents that came and went, the controller's own notes.

    How far back depends on the controller: a thousand events, or what its history keeps (config key history).
    """
    from controller.cli import events as command

    command.events(server, since=since, follow=follow, as_json=as_json)


@app.command()
def top(
    ports: Annotated[
        list[str] | None, typer.Argument(metavar="[PORT]...", help="leaf1:3 or a NIC; all if none.")
    ] = None,
    sort: Annotated[str, typer.Option(help="utilisation, rx, ecn, pfc, pause, depth, drops or port.")] = "utilisation",
    interval: Annotated[float, typer.Option(min=0.1, max=60.0, help="Seconds between two pictures.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    server: Server = DEFAULT_SERVER,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per picture, with all ports.")] = False,
) -> None:
    """Show ports live: utilisation, ECN marks, PFC, pauses, queue depths and drops, as the fabric's agents tell them.

    Rates are between two samples of a port. A port whose agent is silent is dim and marked stale. Needs a
    controller with a broker (config key telemetry.broker).
    """
    from controller.cli.telemetry import top as command

    command.top(server, ports or [], sort=sort, interval_s=interval, once=once, as_json=as_json)


def _add_plugins() -> None:
    """Register the commands that other packages bring (the lab's demo): they import us, not we them."""
    for found in sorted(entry_points(group="heddle.commands"), key=lambda entry: entry.name):
        command = found.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=found.name)
        else:
            app.command(name=found.name)(command)


def _terminate(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


# Typer carries click inside (under a private name since 0.20): its base of all usage errors is found by inheritance.
_UsageProblem: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
INTERRUPTED = 130


def _no_more_output() -> int:
    """Let Python's last flush of what could not be written go nowhere; return the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def main() -> None:
    """Run the command line; errors become one clear line each and the contract's exit status."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without the letters of a name gets its line
    try:
        _add_plugins()
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except HeddleError as error:
        for line in str(error).splitlines():
            print(f"heddle: {line}", file=sys.stderr)
        status = error.exit_status
    except _UsageProblem as wrong:
        wrong.show()  # type: ignore[attr-defined]
        status = wrong.exit_code  # type: ignore[attr-defined]
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except BrokenPipeError:
        status = _no_more_output()
    except OSError as error:
        print(f"heddle: {error}", file=sys.stderr)
        status = _no_more_output()
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()

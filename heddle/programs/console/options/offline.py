"""`heddle check`, `plan`, `suggest` and `import` as commands: their options. They need no controller and no root."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import AlgorithmName, Json


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable Python's cycle collector while a command runs.

    The values of a plan are many and all alive: collections took a quarter of the time of a large plan and freed none.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Fabric and jobs files.")],
    as_json: Json = False,
) -> None:
    """Check fabric and jobs files.

    A jobs file is checked against the fabric file on the same command line. Exit status: 0 sound; 2 malformed, with a
    line per problem that names its key; 3 sound, but some hosts cannot reach each other.

    `heddle check fabric` is another command: it sends probes. So is `heddle check cabling`, which reads LLDP. A file of
    such a name is `./fabric`.
    """
    with _uncollected():
        from heddle.programs.console.check import run_check

        raise typer.Exit(run_check(files, as_json, sys.stdout))


def plan(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file.")],
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="The jobs file.")],
    as_json: Json = False,
    rules: Annotated[bool, typer.Option("--rules", help="Show every switch's rules as well.")] = False,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="PLAN", help="Plan beside the jobs of this plan (written by --json), which keep their live paths."
        ),
    ] = None,
    failed: Annotated[
        list[str] | None,
        typer.Option(metavar="LINK", help="A link or switch that has failed, as in the fabric file; may be repeated."),
    ] = None,
    planner: Annotated[
        str | None, typer.Option(metavar="NAME", help="An installed planner of another distribution chooses the paths.")
    ] = None,
    planner_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How long --planner may take.")
    ] = 60.0,
) -> None:
    """Plan jobs offline: paths, source ports and rates, with a lower bound that no plan can beat.

    With --beside, also show what changes for the jobs of the kept plan: paths that failed links take and that are
    planned again, utilisation and shares before and after. Needs no network and no root. Exit status: 0; 2 for
    malformed input; 3 for sound input without an admissible plan.
    """
    with _uncollected():
        from heddle.programs.console.plan import run_plan

        foreign = None
        if planner is not None:
            from heddle.library.by_planner import Foreign

            foreign = Foreign(planner, planner_seconds)
        run_plan(fabric, jobs, as_json=as_json, rules=rules, beside=beside, failed=failed or (), planner=foreign)


def suggest(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file.")],
    ranks: Annotated[int, typer.Option(min=1, help="How many ranks to place.")],
    collective: Annotated[str, typer.Option(help="Their collective, such as RING_ALL_REDUCE or ALL_TO_ALL.")],
    size_bytes: Annotated[
        int, typer.Option("--bytes", min=1, help="Bytes per rank and iteration, as in a jobs file.")
    ] = 1_000_000_000,
    gpu_milli: Annotated[int, typer.Option(min=0, help="GPU share per rank in 1/1000; 0 for a whole one.")] = 0,
    qps: Annotated[int, typer.Option(min=1, help="Queue pairs per flow.")] = 1,
    algorithm: AlgorithmName = "CONTRACT",
    most: Annotated[int, typer.Option(min=1, help="The maximum number of suggestions.")] = 3,
    beside: Annotated[
        Path | None,
        typer.Option(metavar="PLAN", help="Suggest beside the jobs of this plan (written by `heddle plan --json`)."),
    ] = None,
    failed: Annotated[
        list[str] | None,
        typer.Option(metavar="LINK", help="A link or switch that has failed, as in the fabric file; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Suggest NICs for a job offline, best first, with the link utilisation that each would cause.

    `heddle job suggest` requests the same of a running controller, beside its jobs. Needs no network and no root. Exit
    status: 0; 2 for malformed input; 3 if too few GPUs are free.

    Example: heddle suggest fabric.yaml --ranks 7 --collective RING_ALL_REDUCE
    """
    with _uncollected():
        from heddle.controller.model.placement import Shape
        from heddle.programs.console.place import run_place
        from heddle.programs.console.suggest import collective_of

        collectives = (collective_of(collective, size_bytes, qps, algorithm),)
        shape = Shape(ranks=ranks, collectives=collectives, gpu_milli=gpu_milli, max_suggestions=most)
        run_place(fabric, shape, as_json=as_json, beside=beside, failed=failed or ())


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to import.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of standard output.")
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="lingjun, simai, hpcc, htsim, batfish, hedgehog or containerlab; detected by content if left out.",
        ),
    ] = None,
    gbps: Annotated[float, typer.Option(help="Rate of NICs, if the file has none.")] = 100.0,
    uplink_gbps: Annotated[
        float | None, typer.Option(help="Rate of links between switches, if the file has none; --gbps if left out.")
    ] = None,
    aggs_per_pod: Annotated[
        int,
        typer.Option(
            min=1, help="lingjun: the number of aggregation switches for the one PSW that the file names per pod."
        ),
    ] = 1,
    cores: Annotated[
        int | None, typer.Option(min=1, help="lingjun: the number of cores for each DSW, a multiple of --aggs-per-pod.")
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE=ROLE",
            help="What a node is: host, leaf, spine or core, for a node that the file leaves open; may be repeated.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the fabric as JSON, which is also a valid fabric file.")
    ] = False,
) -> None:
    """Convert topologies of Lingjun (topo.csv), SimAI, HPCC, htsim, Batfish, Hedgehog or containerlab to a fabric file.

    Roles follow from the links: switches with hosts are leaves, then come those that join them. Names decide only what
    the links leave open. Names are kept if they are valid ids, ports have the numbers of their interfaces. What a
    fabric file cannot hold (a link within one tier, a host without a link) is left out and counted on standard error;
    if hosts need it, FILE is refused. Assumptions are listed in the first lines of the result. Exit status: 0; 2 if
    FILE cannot be imported.

    Example: heddle import lab.clab.yml --gbps 25 -o lab.yaml && heddle check lab.yaml
    """
    with _uncollected():
        from heddle.programs.console.importing import options_of, run_import

        options = options_of(gbps, uplink_gbps, aggs_per_pod, cores, format_name, role or ())
        run_import(file, options, format_name=format_name, output=output, as_json=as_json)

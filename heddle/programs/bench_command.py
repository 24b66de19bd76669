"""The command `heddle bench`: its options."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from heddle.benchmarks import BENCHMARKS

bench = typer.Typer(
    help="Measure: each benchmark prints a table and, with --json, one JSON object.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object; the table goes to standard error.")]


@bench.command()
def plan(
    as_json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="Few and small cases: some twenty seconds.")] = False,
    growth_to: Annotated[
        int | None,
        typer.Option(
            metavar="FLOWS", min=1000, help="Largest number of flows of the growth. [default: 1000000; 33000 if quick]",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the growth into a PNG file.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of fabrics, failures and demands.")] = 1,
) -> None:  # fmt: skip
    """Plan the same cases by Heddle, ECMP, E-ECMP, Hedera's two schedulers, a greedy and networkx.

    Prints the time of each, its maximum link utilisation beside the proven bound, and its memory; then the cost of a
    whole `heddle plan` process, of a start, and the growth of time with the number of flows. The full run takes some
    minutes. Exit status: 0; 2 for bad input.
    """
    from heddle.benchmarks.planning.plan import run

    _report(lambda out: run(out, quick=quick, growth_to=growth_to, plot=plot, seed=seed), as_json)


@bench.command()
def dataplane(
    as_json: Json = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PART", help="Measure this part; repeatable. Default: all."),
    ] = None,
    load_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, help="Duration of the part load, for each kind of port.")
    ] = 10.0,
) -> None:  # fmt: skip
    """Measure the packet engine and the gateway beside C, NumPy, scapy, DPDK, Open vSwitch and Linux; it needs root.

    Parts: memory, wire-64, wire-1500, wire-4200, latency, load, kernel. HEDDLE_TESTPMD names dpdk-testpmd if it is not
    on PATH. Exit status: 0; 2 for bad input.
    """
    from heddle.benchmarks.gateway.dataplane import PARTS, run

    if unknown := sorted(set(only or ()) - set(PARTS)):
        raise typer.BadParameter(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}", param_hint="--only")
    _report(lambda out: run(out, only or (), load_seconds), as_json)


@bench.command()
def page(
    as_json: Json = False,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=8.0, help="Duration for each view; 600 shows if memory is flat.")
    ] = 20.0,
) -> None:
    """Measure the dashboard's page in Chromium: 64 spines, 128 leaves, 8,192 NICs, 10,000 flows, a state each second.

    First paint, busy share of the main thread, memory after a collection. It needs Heddle's source tree.
    Exit status: 0.
    """
    benchmark = _needing_a_source_tree("page")
    _report(lambda out: benchmark.run(out, seconds=seconds), as_json)


@bench.command()
def balancer(
    as_json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="Short runs, whose figures say little.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PART", help="Measure this part; repeatable. Default: all."),
    ] = None,
) -> None:
    """Measure the load balancer beside plain forwarding, HAProxy, nginx and Linux, under change and attack; needs root.

    Parts: speed, processor, changes, flood, deaths. It needs a source tree, nginx, wrk and curl; haproxy and nftables
    are left out where they are missing. Exit status: 0; 2 for bad input.
    """
    benchmark = _needing_a_source_tree("balancer")
    if unknown := sorted(set(only or ()) - set(benchmark.PARTS)):
        raise typer.BadParameter(f"no part {unknown[0]!r}; there are {', '.join(benchmark.PARTS)}", param_hint="--only")
    _report(lambda out: benchmark.run(out, only or (), quick=quick), as_json)


@bench.command()
def slurm(
    as_json: Json = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", min=2, help="Jobs of each mix, of each case of hooks, and beside kills. [default: 40, 100, 200]"
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PART", help="Measure this part; repeatable. Default: all."),
    ] = None,
) -> None:
    """Measure where a real Slurm places jobs with and without the exported tree, and what the hooks add; needs root.

    Parts: placement, hooks, kills (jobs while agent and controller are killed and stopped). It needs a source tree and
    Debian's slurmctld, slurmd and munge. Exit status: 0; 2 for bad input.
    """
    benchmark = _needing_a_source_tree("slurm")
    if unknown := sorted(set(only or ()) - set(benchmark.PARTS)):
        raise typer.BadParameter(f"no part {unknown[0]!r}; there are {', '.join(benchmark.PARTS)}", param_hint="--only")
    _report(lambda out: benchmark.run(out, only or (), jobs=jobs), as_json)


@bench.command()
def loop(
    as_json: Json = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PART", help="Measure this part; repeatable. Default: all."),
    ] = None,
) -> None:
    """Measure the closed loop of a controller: failures, admission, toggling ports, previews, churn, convergence.

    The parts are in docs/bench.md. It needs a source tree. Exit status: 0; 2 for bad input.
    """
    benchmark = _needing_a_source_tree("loop")
    if unknown := sorted(set(only or ()) - set(benchmark.PARTS)):
        raise typer.BadParameter(f"no part {unknown[0]!r}; there are {', '.join(benchmark.PARTS)}", param_hint="--only")
    _report(lambda out: benchmark.run(out, only or ()), as_json)


def _report(run: Callable[[TextIO], dict[str, Any]], as_json: bool) -> None:
    """Run a benchmark; the table goes to standard output, or to standard error beside JSON."""
    found = run(sys.stderr if as_json else sys.stdout)
    if as_json:
        json.dump(found, sys.stdout, indent=1)
        print()


def _needing_a_source_tree(name: str) -> Any:
    """Return a benchmark's module; raises PrerequisiteError without the tests that it uses."""
    from heddle.controller.model.error import PrerequisiteError

    try:
        return importlib.import_module(BENCHMARKS[name].module)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] != "tests":
            raise
        raise PrerequisiteError(
            f"heddle bench {name} needs the package tests: run it in Heddle's source tree"
        ) from None


def _simple(name: str) -> Callable[[bool], None]:
    """Return the command of a benchmark that has no option but --json."""

    def command(as_json: Json = False) -> None:
        _report(_needing_a_source_tree(name).run, as_json)

    return command


for _name, _benchmark in BENCHMARKS.items():
    if _name not in ("balancer", "dataplane", "loop", "page", "plan", "slurm"):
        bench.command(name=_name, help=f"Measure {_benchmark.measures}.")(_simple(_name))

"""The command `heddle demo`: its options."""

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heddle.controller.model.error import HeddleError
from heddle.mininet_topos.demo.results.judgement import Verdict
from heddle.mininet_topos.demo.results.scenes import KINDS
from heddle.mininet_topos.traffic.workloads import WORKLOADS

if TYPE_CHECKING:
    from heddle.mininet_topos.demo.options import DemoOptions
    from heddle.mininet_topos.demo.results.values import DemoResult


_SPRAY = typer.Option("--spray", help="Instead: NICs that spray over planned, random and single paths, and ECMP.")
_OF_SPRAY = ("seeds", "seconds", "spray", "as_json", "wait")
"""The options that hold with --spray, by the names of their parameters."""


def demo(
    ctx: typer.Context,
    fabric: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A fabric file instead of a generated one.")
    ] = None,
    spines: Annotated[
        int | None, typer.Option(help="Spines of the generated fabric. [default: 2]", show_default=False)
    ] = None,
    leaves: Annotated[int | None, typer.Option(help="Its leaves. [default: 4]", show_default=False)] = None,
    hosts: Annotated[
        int | None, typer.Option(help="Its hosts, a multiple of the leaves. [default: 8]", show_default=False)
    ] = None,
    gbps: Annotated[
        float | None,
        typer.Option(
            help="The rate of NICs and links. [default: 0.02, or 0.016, 0.012, 0.008 if the machine carries no more]",
            show_default=False,
        ),
    ] = None,
    workloads: Annotated[str, typer.Option(help=f"Any of {','.join(WORKLOADS)}.")] = ",".join(WORKLOADS),
    modes: Annotated[str, typer.Option(help="Any of ecmp,e-ecmp,planned.")] = "ecmp,e-ecmp,planned",
    scenes: Annotated[
        str, typer.Option(help=f"Any of {','.join(KINDS)}: failures and disturbances under planned paths; or none.")
    ] = ",".join(KINDS),
    seeds: Annotated[
        str, typer.Option(help="One permutation runs per seed; the other workloads use the first.")
    ] = "1,2,3",
    seconds: Annotated[float, typer.Option(help="Duration of a flow that has its path to itself.")] = 2.5,
    spray: Annotated[bool, _SPRAY] = False,
    report: Annotated[Path, typer.Option(metavar="DIR", help="The report folder.")] = Path("heddle-report"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON instead of tables.")] = False,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait while another demo measures; 0 refuses at once.")
    ] = 600.0,
) -> None:
    """Compare planned paths with ECMP and E-ECMP: real RoCEv2 traffic on real switches, the same under every mode.

    Builds an emulated fabric of Open vSwitch switches on this machine (needs root), runs the same workloads under
    every mode, checks every packet's path, prints a table and writes a report folder. Everything is removed
    afterwards. Exit status: 0, also where this machine was too busy to show all, which is then said; 1 where a planned
    run was off its paths or could not be run, or the controller did not do what a scene needs; 2 for bad input; 3 where
    a host of the fabric is cut off.

    With --spray, NICs spray permutations on Linux routers whose packets name their paths (SRv6): over 1, 2 and 4 paths
    of the plan, 2 of 4 drawn at random, one as ECMP hashes. Takes --seeds, --seconds, --json, --wait; no report.
    """
    from heddle.mininet_topos.demo.options import build_options

    if spray:
        return _run_spraying(ctx, seeds, seconds, as_json, wait)
    options = build_options(
        fabric_file=fabric,
        sizes={"spines": spines, "leaves": leaves, "hosts": hosts, "gbps": gbps},
        workloads=workloads,
        seeds=seeds,
        modes=modes,
        scenes=scenes,
        seconds=seconds,
    )
    _run(options, report, as_json, wait)


def _run(options: "DemoOptions", report: Path, as_json: bool, wait_s: float) -> None:
    from rich.console import Console

    from heddle.mininet_topos.demo.measurement_lock import measurement_lock
    from heddle.mininet_topos.demo.progress import DemoProgress
    from heddle.mininet_topos.demo.report.folder import check_folder, write_report
    from heddle.mininet_topos.demo.results.table import WIDTH, print_result
    from heddle.mininet_topos.demo.session import run_demo
    from heddle.mininet_topos.host.registry import run_directory
    from heddle.mininet_topos.switches.fabric_net import require_lab_tools
    from heddle.mininet_topos.switches.ovs import require_open_vswitch

    # A shell starts background commands with SIGINT ignored; a lab must end on SIGINT all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    require_lab_tools()
    require_open_vswitch()
    check_folder(report)
    with DemoProgress() as progress, measurement_lock(run_directory() / "demo.lock", wait_s, progress.log):
        try:
            result = run_demo(options, progress)
        except (KeyboardInterrupt, SystemExit):
            progress.log("interrupted: the lab is removed, no report is written")
            raise
    write_report(result, report)
    if as_json:
        json.dump(result.to_json(), sys.stdout)
        print()
    else:
        print_result(result, Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False))
        print(f"report: {report / 'report.html'} and results.json beside it")
    failures = shortcomings(result)
    if failures:
        raise HeddleError("\n".join(failures))


def _run_spraying(ctx: typer.Context, seeds: str, seconds: float, as_json: bool, wait_s: float) -> None:
    from rich.console import Console

    from heddle.mininet_topos.demo.measurement_lock import measurement_lock
    from heddle.mininet_topos.demo.options import seeds_of
    from heddle.mininet_topos.demo.progress import DemoProgress
    from heddle.mininet_topos.demo.results.table import WIDTH
    from heddle.mininet_topos.demo.spraying.session import run_spraying, spray_options
    from heddle.mininet_topos.demo.spraying.table import LEGEND, failures, summary, table
    from heddle.mininet_topos.host.registry import run_directory
    from heddle.mininet_topos.switches.fabric_net import require_lab_tools

    sources = {name: ctx.get_parameter_source(name) for name in ctx.params if name not in _OF_SPRAY}
    others = [f"--{name}" for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    options = spray_options(seeds_of(seeds), seconds, others)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    require_lab_tools()
    with DemoProgress() as progress, measurement_lock(run_directory() / "demo.lock", wait_s, progress.log):
        runs = run_spraying(options, progress)
    if as_json:
        json.dump({"schema": "heddle.demo-spray/1", "runs": [run.to_json() for run in runs]}, sys.stdout)
        print()
    else:
        console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
        console.print(table(runs))
        for line in (*summary(runs), LEGEND):
            console.print(line, markup=False)
    if problems := failures(runs):
        raise HeddleError("\n".join(problems))


def shortcomings(result: "DemoResult") -> list[str]:
    """Return a line for each failure of a planned run or a scene; what the machine was too busy to show is none."""
    found = []
    for run in result.runs:
        if run.mode != "planned" or run.verdict is not Verdict.FAILED:
            continue
        if run.faults:
            found += [f"{run.workload}: {fault}" for fault in run.faults]
        elif not run.valid:
            found.append(f"{run.workload}: the planned run is invalid, twice: {run.integrity.problems[0]}")
        else:
            strays = len(run.flows) - run.exact_flows
            found.append(f"{run.workload}: {strays} flows were not counted on exactly their planned links")
    for scene in result.scenes:
        if scene.verdict is Verdict.FAILED:
            found += [f"scene {scene.kind}: {text}" for text in scene.failures]
    return found

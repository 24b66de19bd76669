"""The table of a spraying demo, a row a mode, and the lines below it. Pure, but for the drawing of rich."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from heddle.mininet_topos.demo.results.judgement import Verdict, busy_text
from heddle.mininet_topos.demo.spraying.figures import MIN_PART, SprayRun
from heddle.mininet_topos.demo.spraying.sets import MODES

TITLE = "16 NICs, 4 leaves, 4 spines of 10 Mbit/s: permutations at 95 %, every packet on the path that its flow names"
LEGEND = (
    "slowest flow, mean: goodput in parts of the planned rate. off paths: packets on a link of no path of their flow. "
    "A random set is what a spraying NIC draws by itself; ECMP is a set of one drawn path."
)


def table(runs: Sequence[SprayRun]) -> Table:
    """Return a row for each mode, with the slowest flow of each seed."""
    found = Table(title=TITLE, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    found.show_edge = False
    found.add_column("paths of a flow", no_wrap=True)
    for name in ("slowest flow, by seed", "mean", "resent", "dropped", "off paths"):
        found.add_column(name, justify="right", no_wrap=True)
    for mode in MODES:
        mine = [run for run in runs if run.mode == mode.name]
        sums = (sum(run.resent_packets for run in mine), sum(run.dropped_packets for run in mine))
        found.add_row(
            Text(mode.name, style="bold" if mode.planned else ""), "  ".join(f"{run.slowest:.3f}" for run in mine),
            f"{sum(run.mean for run in mine) / len(mine):.3f}", *(f"{count:,}" for count in sums),
            f"{sum(run.off_paths for run in mine):,}",
            style="" if all(run.verdict is Verdict.SHOWN for run in mine) else "red",
        )  # fmt: skip
    return found


def summary(runs: Sequence[SprayRun]) -> Iterator[str]:
    """Yield the lines below the table: the headline, and what this machine was too busy to show."""
    planned = min(run.slowest for run in runs if run.planned)
    drawn = min(run.slowest for run in runs if not run.planned)
    yield f"slowest flow of all seeds: {planned:.0%} of its rate on planned paths, {drawn:.0%} on drawn ones"
    for run in runs:
        if run.verdict is Verdict.NOT_SHOWN:
            yield f"not shown: {run.mode}, seed {run.seed}: {busy_text(run.machine)}"


def failures(runs: Sequence[SprayRun]) -> list[str]:
    """Return a line for each run that failed: off its paths, or below its rates on a quiet machine."""
    found = []
    for run in runs:
        if run.verdict is Verdict.FAILED:
            texts = [*run.faults, f"{run.off_paths} packets off their paths"] if run.off_paths else list(run.faults)
            slow = f"the slowest flow has {run.slowest:.0%} of its rate, below {MIN_PART:.0%}, and the machine is quiet"
            found.append(f"{run.mode}, seed {run.seed}: {(texts or [slow])[0]}")
    return found

"""Print the demo's results on a terminal: tables of all runs, incasts and certificates, and the summary.

A terminal narrower than `WIDTH` columns gets the tables without those columns that the summary lines repeat.
"""

import textwrap
from collections.abc import Callable
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from heddle.mininet_topos.demo.results.strips import FAILS, MISSED, NOT_SHOWN, strip_lines
from heddle.mininet_topos.demo.results.summary import (
    CONGESTION_LEGEND,
    LEGEND,
    ratio,
    scale_note,
    summary_lines,
    title_of,
)
from heddle.mininet_topos.demo.results.values import MODE_TITLES, Congestion, DemoFlow, DemoResult, DemoRun

WIDTH = 100
STRIP_STYLES = {FAILS: "bold red", NOT_SHOWN: "bold yellow", MISSED: "yellow", "planned ": "green", "Scene ": "bold"}
LINE_STYLES = {"INVALID": "bold red", "not shown": "bold yellow"}


class Column(NamedTuple):
    """A table column: its heading, its cell text for a run, and whether narrow terminals omit it."""

    heading: str
    cell: Callable[[DemoResult, DemoRun], str]
    wide_only: bool = False


def _per_cent(result: DemoResult, run: DemoRun) -> str:
    return f"{100 * run.worst.share_of_demand:.1f}"


def _time(result: DemoResult, run: DemoRun) -> str:
    return f"{_seconds(run.predicted.completion_ns)}/{_seconds(run.completion_ns)}"


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.2f}" if ns < 9.995e9 else f"{ns / 1e9:.1f}"


def _link(result: DemoResult, run: DemoRun) -> str:
    return f"{run.predicted.max_link_utilisation:.2f}/{run.max_measured_utilisation:.2f}"


def _compared(result: DemoResult, run: DemoRun) -> str:
    against = ratio(result, run.workload, run.mode, "ecmp")
    return "INVALID" if not run.valid else f"{against:.2f}x" if against is not None else "-"


def _certified(key: str, digits: int, scale: float = 1.0) -> Callable[[DemoResult, DemoRun], str]:
    return lambda _, run: f"{float((run.certificate or {}).get(key, 0)) * scale:.{digits}f}"


def _of_bystander(figure: Callable[[DemoFlow], str]) -> Callable[[DemoResult, DemoRun], str]:
    return lambda _, run: "-" if run.bystander is None else figure(run.bystander)


def _congestion(figure: Callable[[Congestion], str]) -> Callable[[DemoResult, DemoRun], str]:
    return lambda _, run: "-" if run.congestion is None else figure(run.congestion)


RUN_COLUMNS = (
    Column("sum", lambda _, run: f"{run.sum_goodput_bps / 1e6:.1f}"),
    Column("worst", lambda _, run: f"{run.worst.goodput_bps / 1e6:.2f}"),
    Column("%line", _per_cent),
    Column("time, s", _time),
    Column("lost", lambda _, run: f"{run.lost_packets}"),
    Column("resent", lambda _, run: f"{run.retransmitted_packets}", wide_only=True),
    Column("max link", _link, wide_only=True),
    Column("vs ECMP", _compared),
    Column("paths", lambda _, run: f"{run.exact_flows}/{len(run.flows)}", wide_only=True),
)
CERTIFICATE_COLUMNS = (
    Column("max link", _certified("max_link_utilisation", 3)),
    Column("bound", _certified("lower_bound", 3)),
    Column("measured", lambda _, run: f"{run.max_measured_utilisation:.3f}"),
    Column("ECMP", _certified("ecmp_max_link_utilisation", 2)),
    Column("E-ECMP", _certified("e_ecmp_max_link_utilisation", 2)),
    Column("solved, ms", _certified("solve_ns", 1, 1e-6), wide_only=True),
    Column("installed, ms", _certified("install_ns", 1, 1e-6), wide_only=True),
    Column("deadlock-free", lambda _, run: "yes" if (run.certificate or {}).get("deadlock_free") else "NO"),
)
CONGESTION_COLUMNS = (
    Column("bystander", _of_bystander(lambda flow: f"{flow.goodput_bps / 1e6:.1f}")),
    Column("%demand", _of_bystander(lambda flow: f"{100 * flow.share_of_demand:.0f}")),
    Column("its s", _of_bystander(lambda flow: _seconds(flow.duration_ns))),
    Column("many, s", lambda _, run: _seconds(run.many_to_one_ns), wide_only=True),
    Column("marked", _congestion(lambda found: f"{found.marked_packets:,}")),
    Column("CNPs", _congestion(lambda found: f"{found.cnps:,}"), wide_only=True),
    Column("PFC", _congestion(lambda found: f"{found.pfc_frames:,}")),
    Column("pause, s", _congestion(lambda found: f"{found.paused_ns / 1e9:.2f}")),
    Column("drops", _congestion(lambda found: f"{found.dropped_packets:,}")),
)


def print_result(result: DemoResult, console: Console) -> None:
    """Print tables, summary and notes, at most 100 columns wide."""
    width = min(WIDTH, console.width)
    console.print()
    console.print(runs_table(result, wide=width >= WIDTH), width=width)
    console.print()
    if any(run.congestion for run in result.runs):
        console.print(congestion_table(result, wide=width >= WIDTH), width=width)
        console.print()
    if any(run.certificate for run in result.runs):
        console.print(certificates_table(result, wide=width >= WIDTH), width=width)
        console.print()
    for scene in result.scenes:
        for line in strip_lines(scene, width):
            style = next((style for start, style in STRIP_STYLES.items() if line.startswith(start)), "")
            console.print(Text(line, style=style), width=width)
        console.print()
    for line in summary_lines(result):
        _print_wrapped(
            console, line, style=next((style for start, style in LINE_STYLES.items() if line.startswith(start)), "")
        )
    console.print()
    legends = (LEGEND, CONGESTION_LEGEND) if any(run.congestion for run in result.runs) else (LEGEND,)
    for line in (*legends, *result.notes, scale_note(int(result.parameters["line_rate_bps"]))):
        _print_wrapped(console, line, style="dim")


def runs_table(result: DemoResult, *, wide: bool = True) -> Table:
    """Return the table of all runs, a row for each workload and mode."""
    return _by_workload(result, title_of(result), RUN_COLUMNS, result.workloads, wide)


def congestion_table(result: DemoResult, *, wide: bool = True) -> Table:
    """Return the congestion table: marks, pauses and drops of the workloads that ran with the queue model."""
    workloads = tuple(dict.fromkeys(run.workload for run in result.runs if run.congestion))
    return _by_workload(result, "Many to one", CONGESTION_COLUMNS, workloads, wide)


def _by_workload(
    result: DemoResult, title: str, all_columns: tuple[Column, ...], workloads: tuple[str, ...], wide: bool
) -> Table:
    columns = [column for column in all_columns if wide or not column.wide_only]
    table = _table(title, ("workload", "mode"), columns)
    for workload in workloads:
        runs = [run for mode in MODE_TITLES if (run := result.run(workload, mode)) is not None]
        for index, run in enumerate(runs):
            mode = Text(MODE_TITLES[run.mode], style="bold" if run.mode == "planned" else "")
            cells = [column.cell(result, run) for column in columns]
            style = "" if run.valid and run.exact_flows == len(run.flows) else "red"
            table.add_row(_short(run) if index == 0 else "", mode, *cells, end_section=run is runs[-1], style=style)
    return table


def certificates_table(result: DemoResult, *, wide: bool = True) -> Table:
    """Return the certificate of each planned run beside the measured load."""
    columns = [column for column in CERTIFICATE_COLUMNS if wide or not column.wide_only]
    table = _table("Certificates", ("planned run",), columns)
    for run in result.runs:
        if run.certificate:
            table.add_row(_short(run), *(column.cell(result, run) for column in columns))
    return table


def _table(title: str, names: tuple[str, ...], columns: list[Column]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.show_edge = False
    for name in names:
        table.add_column(name, no_wrap=True)
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    return table


def _short(run: DemoRun) -> str:
    return f"{run.kind} {run.seed}"


def _print_wrapped(console: Console, line: str, style: str) -> None:
    width = min(WIDTH, console.width)
    console.print(Text(textwrap.fill(line, width, subsequent_indent="  "), style=style))

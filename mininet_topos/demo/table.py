"""The demo's answer on a terminal: one table of all runs, one of the certificates, and what they come to."""

import textwrap
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mininet_topos.demo.results import MODE_TITLES, DemoResult, RunResult
from mininet_topos.demo.summary import LEGEND, ratio, scale_note, summary_lines, title_of

WIDTH = 100


def print_result(result: DemoResult, console: Console) -> None:
    """Print tables, summary and notes, at most 100 columns wide."""
    console.print(runs_table(result), width=min(WIDTH, console.width))
    if any(run.certificate for run in result.runs):
        console.print(certificates_table(result), width=min(WIDTH, console.width))
    for line in summary_lines(result):
        _print_wrapped(console, line, style="bold red" if line.startswith("INVALID") else "")
    for line in (LEGEND, *result.notes, scale_note(int(result.parameters["line_rate_bps"]))):
        _print_wrapped(console, line, style="dim")


def runs_table(result: DemoResult) -> Table:
    """Return the table of all runs, a row for each workload and mode."""
    table = Table(
        title=title_of(result), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("workload", no_wrap=True)
    table.add_column("mode", no_wrap=True)
    for heading in ("sum", "worst", "%line", "time, s", "lost", "resent", "max link", "vs ECMP", "paths"):
        table.add_column(heading, justify="right", no_wrap=True)
    for workload in result.workloads:
        rows = [run for mode in MODE_TITLES if (run := result.run(workload, mode)) is not None]
        for index, run in enumerate(rows):
            last = index == len(rows) - 1
            style = "" if run.valid else "red"
            table.add_row(*_cells(result, run, first=index == 0), end_section=last, style=style)
    return table


def _cells(result: DemoResult, run: RunResult, *, first: bool) -> Iterable[Text | str]:
    against = ratio(result, run.workload, run.mode, "ecmp")
    yield _short(run) if first else ""
    yield Text(MODE_TITLES[run.mode], style="bold" if run.mode == "planned" else "")
    yield f"{run.sum_goodput_bps / 1e6:.1f}"
    yield f"{run.worst.goodput_bps / 1e6:.2f}"
    yield f"{run.worst.share_of_demand:.1%}".replace("%", "")
    yield f"{run.predicted.completion_ns / 1e9:.2f}/{run.completion_ns / 1e9:.2f}"
    yield f"{run.lost_packets}"
    yield f"{run.retransmitted_packets}"
    yield f"{run.predicted.max_link_utilisation:.2f}/{run.max_measured_utilisation:.2f}"
    yield "INVALID" if not run.valid else f"{against:.2f}x" if against is not None else "-"
    yield Text(f"{run.exact_flows}/{len(run.flows)}", style="" if run.exact_flows == len(run.flows) else "bold red")


def certificates_table(result: DemoResult) -> Table:
    """Return what the controller certified for each planned run, beside what was measured."""
    table = Table(
        title="Certificates", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("planned run", no_wrap=True)
    for heading in ("max link", "bound", "measured", "ECMP", "E-ECMP", "solved, ms", "installed, ms", "deadlock-free"):
        table.add_column(heading, justify="right", no_wrap=True)
    for run in result.runs:
        if run.certificate:
            table.add_row(_short(run), *_certificate_cells(run, run.certificate))
    return table


def _certificate_cells(run: RunResult, certificate: dict[str, object]) -> Iterable[str]:
    def number(name: str) -> float:
        return float(str(certificate.get(name, 0)))

    yield f"{number('max_link_utilisation'):.3f}"
    yield f"{number('lower_bound'):.3f}"
    yield f"{run.max_measured_utilisation:.3f}"
    yield f"{number('ecmp_max_link_utilisation'):.2f}"
    yield f"{number('e_ecmp_max_link_utilisation'):.2f}"
    yield f"{number('solve_ns') / 1e6:.1f}"
    yield f"{number('install_ns') / 1e6:.1f}"
    yield "yes" if certificate.get("deadlock_free") else "NO"


def _short(run: RunResult) -> str:
    return f"{run.kind} {run.seed}"


def _print_wrapped(console: Console, line: str, style: str) -> None:
    width = min(WIDTH, console.width)
    console.print(Text(textwrap.fill(line, width, subsequent_indent="  "), style=style))

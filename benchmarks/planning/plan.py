"""`heddle bench plan`: our planner and its peers on equal cases, the process, its start, growth with the flows."""

import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from heddle.benchmarks import BENCHMARKS
from heddle.benchmarks.planning.goals import goals
from heddle.benchmarks.planning.growth import growth, sizes_to
from heddle.benchmarks.planning.measure import Request, measured
from heddle.benchmarks.planning.methods import METHODS, NETWORKX, OURS
from heddle.benchmarks.planning.plot import check_file, draw, missing_package
from heddle.benchmarks.planning.process import full_scale, starts
from heddle.planners.installed import installed

Report = Callable[[str], None]


class Sized(NamedTuple):
    """A family of cases at about a number of flows."""

    family: str
    flows: int


CASES = (
    Sized("equal-q1", 1_024),
    Sized("equal-q1", 8_192),
    Sized("equal-q8", 131_072),
    Sized("equal-3t-q1", 1_024),
    Sized("equal-3t-q1", 8_192),
    Sized("equal-3t-q8", 131_072),
    Sized("lean-q4", 131_072),
    Sized("failed-q4", 32_768),
    Sized("failed-q8", 131_072),
    Sized("failed-3t-q8", 65_536),
    Sized("residual", 32_768),
    Sized("mixed", 65_536),
    Sized("mixed-failed", 131_072),
    Sized("mixed-3t-failed", 32_768),
    Sized("tight-halves-90", 32_768),
    Sized("tight-halves-100", 32_768),
    Sized("tight-dirichlet-100", 32_768),
)
QUICK_CASES = (Sized("equal-q1", 1_024), Sized("equal-3t-q1", 1_024), Sized("mixed-failed", 8_192))
QUICK_GROWTH, FULL_GROWTH = 33_000, 1_050_000
FULL_SCALE, QUICK_SCALE = 131_072, 8_192
SLOW_TO, QUICK_SLOW_TO = 10_000, 2_000
"""Largest number of flows for methods that search flow by flow."""
LIMIT_S, QUICK_LIMIT_S = 60.0, 10.0
"""How long a planner of another distribution may take for one case."""
ENOUGH_S, QUICK_ENOUGH_S = 2.0, 0.2
"""Runs are repeated for the best time for so long."""


def run(
    out: TextIO,
    *,
    quick: bool = False,
    growth_to: int | None = None,
    plot: Path | None = None,
    seed: int = 1,
    cases: tuple[Sized, ...] | None = None,
) -> dict[str, Any]:
    """Measure, print the tables and return the figures; `cases` replaces the default ones."""
    if plot is not None:
        check_file(plot)
    missing = [name for name in (_missing_networkx(), missing_package() if plot else None) if name]
    if missing:
        how = "to include it: pip install 'heddle[bench]'"
        print(f"heddle bench: {' and '.join(missing)} not installed, left out; {how}", file=sys.stderr)
    chosen = cases if cases is not None else QUICK_CASES if quick else CASES
    sizes = sizes_to(growth_to or (QUICK_GROWTH if quick else FULL_GROWTH))
    found: dict[str, Any] = {"seed": seed, "quick": quick, "versions": _versions(), "lacking": missing}
    with _progress() as report:
        found["cases"] = [_case(out, report, one, seed, quick) for one in chosen]
        report("heddle plan as a process")
        found["process"] = full_scale(QUICK_SCALE if quick else FULL_SCALE, seed, runs=1 if quick else 3)
        _print_figures(out, "whole process: heddle plan --json, from files", found["process"])
        report("starts of heddle plan")
        found["start"] = starts(runs=1 if quick else 3, broken_caches=not quick)
        _print_figures(out, "start of the process to its first plan, 8 hosts, seconds", found["start"])
        found["growth"] = growth(sizes, seed, report, quick=quick)
    _growth_table(out, found["growth"])
    found["goals"] = [goal._asdict() for goal in goals(found)]
    _goals_table(out, found["goals"])
    if plot is not None and missing_package() is None:
        draw(found["growth"]["points"], plot)
        found["plot"] = str(plot)
        print(f"\ngrowth plotted to {plot}", file=out)
    others = [name for name in BENCHMARKS if name not in ("plan", "southbound", "submit")]
    print(f"\nmore: {', '.join(f'heddle bench {name}' for name in others)}", file=out)
    return found


def _missing_networkx() -> str | None:
    try:
        version("networkx")
    except PackageNotFoundError:
        return "networkx"
    return None


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in ("heddle", "numba", "numpy")}}


@contextmanager
def _progress() -> Iterator[Report]:
    """Show the current measurement on standard error, if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("heddle bench plan") as status:
        yield lambda text: status.update(text)


def _case(out: TextIO, report: Report, sized: Sized, seed: int, quick: bool) -> dict[str, Any]:
    limit = QUICK_SLOW_TO if quick else SLOW_TO
    names = tuple(name for name, method in METHODS.items() if sized.flows <= limit or not method.slow)
    planners = tuple(installed()) if sized.flows <= limit else ()
    enough_s, limit_s = (QUICK_ENOUGH_S, QUICK_LIMIT_S) if quick else (ENOUGH_S, LIMIT_S)
    results = measured(
        Request(
            family=sized.family, flows=sized.flows, methods=names, seed=seed, enough_s=enough_s, planners=planners,
            limit_s=limit_s,
        )
    )  # fmt: skip
    report(f"{sized.family}, {sized.flows:,} flows: {OURS}")
    case = next(results)
    print(
        f"\n{case['case']}: {case['flows']:,} flows, {case['hosts']:,} NICs; lower bound {case['lower_bound']:.4g}\n"
        f"  {'':30}{'max utilis.':>13}{'x bound':>9}{'paths ms':>11}{'with ports':>11}"
        f"{'memory MB':>11}{'worst':>7}{'mean':>6}",
        file=out,
    )
    rows = []
    for row in results:
        rows.append(row)
        print(_line(row), file=out, flush=True)
        later = ([*names, *planners, "end"])[len(rows)]
        report(f"{sized.family}, {sized.flows:,} flows: {later}")
    slow = next((row["paths_s"] for row in rows if row["method"] == NETWORKX and "missing" not in row), None)
    for row in rows:
        mine = row.get("paths_s")
        row["times_faster_than_networkx"] = slow / mine if slow and mine else None
    ours = rows[0]
    if slow:
        print(f"  {OURS} is {ours['times_faster_than_networkx']:,.0f} times faster than networkx", file=out)
    case["met"] = ours["ratio"] <= case["allowed_ratio"] * (1 + 1e-9)
    return {**case, "methods": rows}


def _line(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"  {row['method']:30}left out: {row['failed'].removeprefix(row['method'] + ': ')}"
    if "missing" in row:
        return f"  {row['method']:30}{'left out: no ' + row['missing']:>13}"
    ms, ports = (f"{row[key] * 1e3:.2f}" if row[key] is not None else "-" for key in ("paths_s", "solve_s"))
    memory = "-" if row["memory_mb"] is None else f"{row['memory_mb']:.1f}"
    return (
        f"  {row['method']:30}{row['max_utilisation']:13.4f}{row['ratio']:9.3f}{ms:>11}{ports:>11}{memory:>11}"
        f"{row['worst_share']:7.2f}{row['mean_share']:6.2f}"
    )


def _print_figures(out: TextIO, title: str, found: dict[str, Any]) -> None:
    print(f"\n{title}", file=out)
    for key, value in found.items():
        print(f"  {key.replace('_', ' '):28}{value:14,.3f}".replace(".000", ""), file=out, flush=True)


def _growth_table(out: TextIO, found: dict[str, Any]) -> None:
    print("\ngrowth: permutations in two tiers", file=out)
    print(f"  {'flows':>9}  {'':30}{'paths ms':>11}{'with ports':>11}{'ns/flow':>10}{'x bound':>9}", file=out)
    for point in found["points"]:
        paths, ports = (f"{value * 1e3:.2f}" if value else "-" for value in (point["paths_s"], point["solve_s"]))
        print(
            f"  {point['flows']:9,}  {point['method']:30}{paths:>11}{ports:>11}{point['ns_per_flow']:10.0f}"
            f"{point['ratio']:9.3f}",
            file=out,
        )
    if found["time_per_flow_131k_to_8k"]:
        times = found["time_per_flow_131k_to_8k"]
        print(f"  one flow of 131,000 takes {times:.2f} times that of one of 8,000", file=out)


def _goals_table(out: TextIO, found: list[dict[str, Any]]) -> None:
    print("\ngoals", file=out)
    for goal in found:
        verdict = "met" if goal["met"] else "MISSED"
        print(f"  {verdict:7}{goal['goal']:70}{goal['found']:12,.4g}  ({goal['limit']})", file=out)

"""Plot planning time over the number of flows, with logarithmic axes and each line labelled at its end."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from heddle.benchmarks.planning.methods import ANNEALING, FIRST_FIT, GREEDY, NETWORKX, OURS
from heddle.controller.model.error import InputError

STYLES = {
    OURS: ("#0b6e4f", "o"),
    GREEDY: ("#777777", "s"),
    FIRST_FIT: ("#2f6db5", "^"),
    ANNEALING: ("#b5762f", "v"),
    NETWORKX: ("#b5322f", "D"),
}
NEAREST = 0.05
"""Minimum distance of two labels, as a share of the height."""
BESIDE = 0.3
"""Labels further apart than this share of the width cannot overlap."""


class Line(NamedTuple):
    """One line of the figure: label, style and points (flows, milliseconds)."""

    name: str
    colour: str
    marker: str
    bold: bool
    dashed: bool
    flows: list[int]
    times_ms: list[float]


def missing_package() -> str | None:
    """Return the name of the missing package that plotting needs, if any."""
    return None if find_spec("matplotlib") else "matplotlib"


def check_file(path: Path) -> None:
    """Check the output file before minutes of measuring; raises InputError."""
    if path.suffix.lower() != ".png":
        raise InputError(f"--plot {path}: the figure is a PNG; give a name that ends in .png")
    if not path.parent.is_dir():
        raise InputError(f"--plot {path}: there is no folder {path.parent}; make it first")


def draw(points: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the figure; the points are those of `growth`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 6.0), layout="constrained")
    axes = figure.add_subplot()
    lines = _lines(points)
    for line in lines:
        axes.plot(
            line.flows, line.times_ms, color=line.colour, marker=line.marker, markersize=5,
            linewidth=2.6 if line.bold else 1.4, linestyle="--" if line.dashed else "-", zorder=3 if line.bold else 2,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    flows, times = [f for line in lines for f in line.flows], [t for line in lines for t in line.times_ms]
    axes.set_xlim(min(flows) / 1.4, max(flows) * (max(flows) / min(flows)) ** 0.4 * 3)
    axes.set_ylim(min(times) / 2, max(times) * 2.5)
    _name(axes, lines)
    ticks = sorted({point["size"]: point["flows"] for point in points}.values())
    axes.set_xticks(ticks, [_count(value) for value in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("flows to plan (queue pairs)")
    axes.set_ylabel("planning time, milliseconds of one core")
    title = "Planning a permutation in two tiers; in brackets: max link utilisation over the proven bound"
    axes.set_title(title, fontsize=11, loc="left")
    axes.grid(which="major", color="#dddddd", linewidth=0.7, zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    FigureCanvasAgg(figure).print_png(str(path))


def _lines(points: Sequence[dict[str, Any]]) -> list[Line]:
    """Group the points into lines; ours has two, paths alone and the whole plan."""
    found = []
    for name, (colour, marker) in STYLES.items():
        mine = [point for point in points if point["method"] == name]
        if not mine:
            continue
        flows = [point["flows"] for point in mine]
        ratios = sorted({round(point["ratio"], 2) for point in mine})
        text = f"{ratios[0]:g}" if len(ratios) == 1 else f"{ratios[0]:g} to {ratios[-1]:g}"
        times = [point["paths_s"] * 1e3 for point in mine]
        found.append(Line(f"{name} ({text}x)", colour, marker, name == OURS, False, flows, times))
        if name == OURS and all(point["solve_s"] for point in mine):
            times = [point["solve_s"] * 1e3 for point in mine]
            found.append(Line(f"{name}, ports and rates too", colour, "", False, True, flows, times))
    return found


def _name(axes: Any, lines: Sequence[Line]) -> None:
    """Label each line at its last point; move labels apart that would overlap."""
    places = axes.transData.transform([(line.flows[-1], line.times_ms[-1]) for line in lines])
    within = axes.transAxes.inverted().transform(places).tolist()
    ends = sorted(zip(within, lines, strict=True), key=lambda end: end[0][1])
    placed: list[tuple[float, float]] = []
    for (across, height), line in ends:
        height = max([height, *(other + NEAREST for x, other in placed if abs(x - across) < BESIDE)])
        placed.append((across, height))
        axes.text(
            across + 0.015, height, line.name, color=line.colour, transform=axes.transAxes, va="center", fontsize=9.5,
            fontweight="bold" if line.bold else "normal",
        )  # fmt: skip


def _count(flows: int) -> str:
    return f"{flows / 1e6:.2g}M" if flows >= 950_000 else f"{flows / 1000:.0f}k"

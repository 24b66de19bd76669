"""The report's time series: the switches' counters during an incast, one line per mode."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from heddle.mininet_topos.demo.report.markup import Markup, tag
from heddle.mininet_topos.demo.results.values import MODE_TITLES, CongestionSeries, DemoResult

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560.0, 150.0, 46.0, 10.0, 22.0


class Series(NamedTuple):
    """One time series: its title, and a function that returns its value for each interval."""

    title: str
    values: Callable[[CongestionSeries], Sequence[float]]


def _per_second(found: CongestionSeries, counts: Sequence[int]) -> list[float]:
    """Convert counts per interval to rates; the intervals differ slightly in length."""
    starts = (0, *found.times_ns)
    return [
        count * 1e9 / max(1, end - start) for count, start, end in zip(counts, starts, found.times_ns, strict=False)
    ]


SERIES = (
    Series("Bystander, Mbit/s", lambda found: [bps / 1e6 for bps in found.bystander_bps]),
    Series("Into the one receiver, Mbit/s", lambda found: [bps / 1e6 for bps in found.receiver_bps]),
    Series("Marks per second", lambda found: _per_second(found, found.marked_packets)),
    Series("PFC frames per second", lambda found: _per_second(found, found.pfc_frames)),
    Series("Drops per second", lambda found: _per_second(found, found.dropped_packets)),
    Series("Deepest queue, KB", lambda found: [depth / 1000 for depth in found.depth_bytes]),
)


def series_chart(result: DemoResult, workload: str, series: Series) -> Markup:
    """Draw one series of a workload's runs over the same axes."""
    found = {
        mode: run.congestion.series
        for mode in MODE_TITLES
        if (run := result.run(workload, mode)) is not None and run.congestion is not None
    }
    last_s = max((one.times_ns[-1] / 1e9 for one in found.values() if one.times_ns), default=1.0)
    max_value = max((value for one in found.values() for value in series.values(one)), default=0.0) or 1.0
    title = f"{series.title}, {workload}"
    lines = [_line(mode, one, series, last_s, max_value) for mode, one in found.items() if one.times_ns]
    return tag(
        "svg",
        tag("title", title),
        _axes(last_s, max_value),
        lines,
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        role="img",
        aria_label=title,
        class_="chart",
    )


def _line(mode: str, found: CongestionSeries, series: Series, last_s: float, max_value: float) -> Markup:
    points = " ".join(
        f"{_x(ns / 1e9, last_s):.1f},{_y(value, max_value):.1f}"
        for ns, value in zip(found.times_ns, series.values(found), strict=True)
    )
    return tag("polyline", tag("title", MODE_TITLES[mode]), points=points, class_=f"series {mode}")


def _axes(last_s: float, max_value: float) -> list[Markup]:
    drawn = []
    for value in (0.0, max_value / 2, max_value):
        y = _y(value, max_value)
        drawn.append(tag("line", x1=LEFT, x2=WIDTH, y1=y, y2=y, class_="grid"))
        drawn.append(tag("text", f"{value:.3g}", x=LEFT - 5, y=y + 3.5, class_="axis end"))
    for part in (0.0, 0.5, 1.0):
        place = "axis" if part == 0 else "axis middle" if part < 1 else "axis end"
        x = _x(part * last_s, last_s)
        drawn.append(tag("text", f"{part * last_s:.1f} s", x=x, y=HEIGHT - 6, class_=place))
    return drawn


def _x(seconds: float, last_s: float) -> float:
    return LEFT + (WIDTH - LEFT - 4) * max(0.0, seconds) / last_s


def _y(value: float, max_value: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / max_value)

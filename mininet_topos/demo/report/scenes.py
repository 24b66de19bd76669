"""The report's scenes: goodput over time, planned beside ECMP, with numbered marks and a table that explains them."""

import math
from collections.abc import Sequence

from heddle.mininet_topos.demo.report.markup import Markup, join, tag
from heddle.mininet_topos.demo.results.judgement import Verdict
from heddle.mininet_topos.demo.results.scenes import SceneResult, SceneRun
from heddle.mininet_topos.demo.results.values import MODE_TITLES, DemoResult
from heddle.mininet_topos.traffic.cast import Mark

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720.0, 300.0, 40.0, 58.0, 20.0
RADIUS, ROWS, ROW_HEIGHT = 7.5, 3, 16.0
TICK_S = 0.5


def scenes_section(result: DemoResult) -> Markup | None:
    """Return the section of all scenes, None if there are none."""
    if not result.scenes:
        return None
    text = (
        "The same traffic twice: on planned paths whose NICs follow the controller's decisions, and under ECMP, while"
        " something happens to the fabric. Each point is the goodput of 50 ms."
    )
    keys = [tag("span", tag("i", "", class_=f"key {mode}"), MODE_TITLES[mode]) for mode in ("planned", "ecmp")]
    marks = [tag("span", tag("i", "", class_=f"key {kind}"), kind) for kind in ("event", "decision")]
    legend = tag("p", keys, marks, class_="legend")
    cards = [_scene(scene) for scene in result.scenes]
    return join(tag("h2", "Scenes: what the controller does"), tag("p", text, class_="soft"), legend, cards)


def _scene(scene: SceneResult) -> Markup:
    heading = tag("h3", f"{scene.title}: goodput of {scene.watched}, Mbit/s")
    aside = tag("div", _marks_table(scene.runs[0].marks), _figures_table(scene), _verdict(scene))
    return tag("section", heading, tag("div", scene_chart(scene), aside, class_="scene"), class_="card")


def scene_chart(scene: SceneResult) -> Markup:
    """Draw the goodput of all runs of a scene, ECMP first, and the marks of the planned run."""
    last_ns = scene.period_ns * max(len(run.goodput_bps) for run in scene.runs)
    top_bps = _rounded_up(scene.top_bps)
    title = f"{scene.title}: goodput over time"
    return tag(
        "svg",
        tag("title", title),
        _axes(last_ns, top_bps),
        [_series(scene, run, last_ns, top_bps) for run in reversed(scene.runs)],
        _marks(scene.runs[0].marks, last_ns),
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        role="img",
        aria_label=title,
        class_="chart",
    )


def _series(scene: SceneResult, run: SceneRun, last_ns: int, top_bps: float) -> Markup:
    middle_ns = scene.period_ns / 2
    points = " ".join(
        f"{_x(index * scene.period_ns + middle_ns, last_ns):.1f},{_y(bps, top_bps):.1f}"
        for index, bps in enumerate(run.goodput_bps)
    )
    return tag("polyline", tag("title", MODE_TITLES[run.mode]), points=points, class_=f"series {run.mode}")


def _marks(marks: Sequence[Mark], last_ns: int) -> list[Markup]:
    """Draw each mark as a numbered circle above a line; one that would cover its neighbour moves a row down."""
    drawn, ends = [], [0.0] * ROWS
    for number, mark in enumerate(marks, start=1):
        x = _x(mark.at_ns, last_ns)
        row = next((row for row in range(ROWS) if x - RADIUS > ends[row]), ROWS - 1)
        ends[row] = x + RADIUS
        y = RADIUS + 1 + row * ROW_HEIGHT
        drawn.append(
            tag(
                "g",
                tag("title", f"{mark.at_ns / 1e9:.2f} s: {mark.text}"),
                tag("line", x1=x, x2=x, y1=y + RADIUS, y2=HEIGHT - BOTTOM),
                tag("circle", cx=x, cy=y, r=RADIUS),
                tag("text", number, x=x, y=y + 3.5),
                class_=f"mark {mark.kind}",
            )
        )
    return drawn


def _axes(last_ns: int, top_bps: float) -> list[Markup]:
    drawn = []
    for value in (0.0, top_bps / 2, top_bps):
        y = _y(value, top_bps)
        drawn.append(tag("line", x1=LEFT, x2=WIDTH, y1=y, y2=y, class_="grid"))
        drawn.append(tag("text", f"{value / 1e6:.3g}", x=LEFT - 5, y=y + 3.5, class_="axis end"))
    for step in range(int(last_ns / 1e9 / TICK_S) + 1):
        x = _x(step * TICK_S * 1e9, last_ns)
        place = "axis end" if x > WIDTH - 20 else "axis middle"
        drawn.append(tag("text", f"{step * TICK_S:g} s", x=x, y=HEIGHT - 5, class_=place))
    return drawn


def _marks_table(marks: Sequence[Mark]) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", tag("i", number, class_=f"number {mark.kind}")),
            tag("td", f"{mark.at_ns / 1e9:.2f} s"),
            tag("td", mark.text, class_="left wrap"),
        )
        for number, mark in enumerate(marks, start=1)
    ]
    return tag("table", tag("tbody", rows))


def _figures_table(scene: SceneResult) -> Markup:
    names = ("", "before", "lowest", "at the end", "lost", "sent again", "moved")
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in names]))
    rows = []
    for run in scene.runs:
        rates = (run.before_bps(scene.act_ns), run.lowest_bps(scene.act_ns), run.after_bps())
        counts = (run.lost_packets, run.retransmitted_packets, run.moved_flows if run.rate_bps else "-")
        cells = (MODE_TITLES[run.mode], *(f"{bps / 1e6:.1f}" for bps in rates), *counts)
        rows.append(tag("tr", [tag("td", cell) for cell in cells], class_=run.mode))
    return tag("table", head, tag("tbody", rows))


def _verdict(scene: SceneResult) -> Markup:
    fails = "missed" if scene.verdict is Verdict.NOT_SHOWN else "fails"
    last = scene.attempts[-1]
    lines = [(check.text, "holds" if check.holds else fails) for check in scene.checks]
    lines += [(text, "fails") for text in last.faults] + [(text, fails) for text in last.problems]
    lines += [(f"not shown: {scene.why}; {len(scene.attempts)} attempts", "missed")] if scene.why else []
    return tag("ul", [tag("li", text, class_=name) for text, name in lines], class_="verdict")


def _rounded_up(bps: float) -> float:
    """Return the next number with one significant digit, or with two of which the second is even."""
    step = 10.0 ** max(0, len(f"{bps:.0f}") - 1)
    return math.ceil(bps / step * 5 + 1e-9) / 5 * step


def _x(ns: float, last_ns: int) -> float:
    return LEFT + (WIDTH - LEFT - 4) * min(1.0, max(0.0, ns / last_ns))


def _y(bps: float, top_bps: float) -> float:
    return max(TOP - 4, TOP + (HEIGHT - TOP - BOTTOM) * (1 - bps / top_bps))

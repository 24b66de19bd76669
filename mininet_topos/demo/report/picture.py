"""`demo.svg`: one workload under all modes in one self-contained picture, for a README or a slide."""

from heddle.mininet_topos.demo.report import charts
from heddle.mininet_topos.demo.report.fabric_drawing import LEGEND, WIDTH, draw_fabric
from heddle.mininet_topos.demo.report.markup import Markup, tag
from heddle.mininet_topos.demo.report.page import style_sheet
from heddle.mininet_topos.demo.results.summary import rate_text, ratio
from heddle.mininet_topos.demo.results.values import MODE_TITLES, DemoResult, DemoRun

COLUMN, TOP, SIDE = WIDTH + 24.0, 84.0, 24.0


def picture(result: DemoResult) -> str:
    """Return the picture of the typical workload."""
    workload = typical_workload(result)
    runs = [run for mode in MODE_TITLES if (run := result.run(workload, mode)) is not None]
    columns = [_column(result, run, SIDE + index * COLUMN) for index, run in enumerate(runs)]
    width, height = SIDE + len(runs) * COLUMN, TOP + 412.0
    rate = rate_text(int(result.parameters["line_rate_bps"]))
    heading = f"The same {len(runs[0].flows)} flows at {rate}: {workload}"
    return tag(
        "svg",
        tag("title", heading),
        tag("style", Markup(style_sheet())),
        tag("rect", width=width, height=height, rx=10.0, style="fill:var(--card);stroke:var(--rule)"),
        tag("text", heading, x=SIDE, y=36.0, style="font-size:19px;font-weight:600"),
        columns,
        _legend(height - 18),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=width,
        height=height,
        role="img",
        aria_label=heading,
        style="font-family:system-ui,Helvetica,Arial,sans-serif",
    )


def typical_workload(result: DemoResult) -> str:
    """Return the permutation with the median gain over ECMP, or the first workload if there is none."""
    kinds = {run.workload: run.kind for run in result.runs}
    gains = {name: ratio(result, name, "planned", "ecmp") for name, kind in kinds.items() if kind == "permutation"}
    ranked = sorted((gain, name) for name, gain in gains.items() if gain is not None)
    return ranked[(len(ranked) - 1) // 2][1] if ranked else result.workloads[0]


def _column(result: DemoResult, run: DemoRun, x: float) -> Markup:
    against = ratio(result, run.workload, run.mode, "ecmp")
    compared = f", {against:.2f}× ECMP" if against and run.mode != "ecmp" else ""
    figures = f"{run.sum_goodput_bps / 1e6:.0f} Mbit/s in all{compared}; worst flow {run.worst.share_of_demand:.0%}"
    links = {link.id: link for link in run.links}
    return tag(
        "g",
        tag("rect", x=0, y=TOP - 24, width=12.0, height=12.0, rx=3.0, class_=f"bar {run.mode}"),
        tag("text", MODE_TITLES[run.mode], x=18.0, y=TOP - 13, style="font-size:15px;font-weight:600"),
        tag("text", figures, x=0, y=TOP + 8, class_="figure"),
        _placed(
            draw_fabric(result.fabric, links, f"Load of every link under {MODE_TITLES[run.mode]}"), TOP + 10, 230.0
        ),
        _placed(charts.flow_bars(run), TOP + 244, charts.FLOW_HEIGHT),
        transform=f"translate({x:.0f} 0)",
    )


def _placed(drawing: Markup, y: float, height: float) -> Markup:
    return Markup(drawing.replace("<svg ", f'<svg x="0" y="{y:.0f}" width="{WIDTH:.0f}" height="{height:.0f}" ', 1))


def _legend(y: float) -> Markup:
    parts, x = [tag("text", "load offered to a link:", x=SIDE, y=y, class_="figure")], SIDE + 130
    for name, text in LEGEND:
        parts.append(tag("line", x1=x, x2=x + 16, y1=y - 4, y2=y - 4, class_=f"link {name}"))
        parts.append(tag("text", text, x=x + 22, y=y, class_="figure"))
        x += 46 + 6.2 * len(text)
    return tag("g", parts)

"""The report's charts: bars of every flow's goodput, bars of one figure for every run, and a heat map of all links."""

from collections.abc import Callable, Sequence

from heddle.mininet_topos.demo.report.markup import Markup, tag
from heddle.mininet_topos.demo.results.values import MODE_TITLES, DemoFlow, DemoResult, DemoRun, is_switch_link

FLOW_WIDTH, FLOW_HEIGHT = 380.0, 120.0
BAR_HEIGHT, ROW_GAP, GROUP_GAP = 15.0, 3.0, 12.0
LABEL_WIDTH, FIGURE_WIDTH, GROUPED_WIDTH = 112.0, 88.0, 560.0
LABELLED_FLOWS = 16


def flow_bars(run: DemoRun) -> Markup:
    """Draw each flow's goodput as a fraction of its demand; up to `LABELLED_FLOWS` flows are labelled by their ends."""
    left, top, bottom = 38.0, 8.0, 18.0
    height = FLOW_HEIGHT - top - bottom
    slot = (FLOW_WIDTH - left) / len(run.flows)
    grid = [
        tag(
            "g",
            tag("line", x1=left, x2=FLOW_WIDTH, y1=y, y2=y, class_="grid"),
            tag("text", f"{percent} %", x=left - 5, y=y + 3.5, class_="axis end"),
        )
        for percent in (0, 50, 100)
        for y in (top + height * (1 - percent / 100),)
    ]
    bars = [_flow_bar(flow, left + slot * i, slot, top, height, run.mode) for i, flow in enumerate(run.flows)]
    labels = [
        tag("text", _ends(flow), x=left + slot * (i + 0.5), y=FLOW_HEIGHT - 4, class_="axis middle")
        for i, flow in enumerate(run.flows)
        if len(run.flows) <= LABELLED_FLOWS
    ]
    if not labels:
        text = f"{len(run.flows)} flows, by sender"
        labels = [tag("text", text, x=(left + FLOW_WIDTH) / 2, y=FLOW_HEIGHT - 4, class_="axis middle")]
    title = f"Goodput of each flow as a fraction of its demand, {run.workload}, {MODE_TITLES[run.mode]}"
    return _svg(title, FLOW_WIDTH, FLOW_HEIGHT, grid, bars, labels)


def _flow_bar(flow: DemoFlow, x: float, slot: float, top: float, height: float, mode: str) -> Markup:
    share = min(1.0, flow.share_of_demand)
    gap = slot * 0.16
    title = f"{flow.src_nic} to {flow.dst_nic}: {flow.goodput_bps / 1e6:.2f} Mbit/s, {flow.share_of_demand:.1%}"
    return tag(
        "rect",
        tag("title", title),
        x=x + gap,
        y=top + height * (1 - share),
        width=slot - 2 * gap,
        height=height * share,
        class_=f"bar {mode}",
    )


def _ends(flow: DemoFlow) -> str:
    return f"{flow.src_nic.partition('-')[0]}→{flow.dst_nic.partition('-')[0]}"


def grouped_bars(result: DemoResult, title: str, figure: Callable[[DemoRun], float], unit: str) -> Markup:
    """Draw one horizontal bar per run, grouped by workload; an invalid run is hatched and labelled "invalid"."""
    max_value = max((figure(run) for run in result.runs), default=0.0) or 1.0
    width = GROUPED_WIDTH - LABEL_WIDTH - FIGURE_WIDTH
    drawn: list[Markup] = []
    y = 4.0
    for workload in result.workloads:
        runs = [run for mode in MODE_TITLES if (run := result.run(workload, mode)) is not None]
        label = f"{runs[0].kind} {runs[0].seed}"
        middle = y + len(runs) * (BAR_HEIGHT + ROW_GAP) / 2
        drawn.append(tag("text", label, x=LABEL_WIDTH - 8, y=middle + 2, class_="label end"))
        for run in runs:
            value = figure(run)
            text = f"{value:.2f} {unit}" if run.valid else "invalid"
            drawn += _figure_bar(run, y, width * value / max_value, text)
            y += BAR_HEIGHT + ROW_GAP
        y += GROUP_GAP
    return _svg(title, GROUPED_WIDTH, y - GROUP_GAP + 4, drawn)


def _figure_bar(run: DemoRun, y: float, width: float, text: str) -> list[Markup]:
    title = tag("title", f"{run.workload}, {MODE_TITLES[run.mode]}: {text}")
    return [
        tag(
            "rect",
            title,
            x=LABEL_WIDTH,
            y=y,
            width=width,
            height=BAR_HEIGHT,
            rx=2.0,
            class_=f"bar {run.mode}{'' if run.valid else ' invalid'}",
        ),
        tag("text", text, x=LABEL_WIDTH + width + 6, y=y + BAR_HEIGHT - 3.5, class_="figure"),
    ]


def link_heat(result: DemoResult) -> Markup:
    """Draw measured utilisation: a row for each run, a column for each directed link between switches."""
    links = [f"{a}>{b}" for a, b in result.fabric.cables] + [f"{b}>{a}" for a, b in result.fabric.cables]
    half = len(links) // 2
    left, width, row, top = 196.0, 1140.0, 17.0, 20.0
    slot = (width - left - 12) / max(1, len(links))
    drawn = [
        tag("text", "upwards", x=left + slot * half / 2, y=12.0, class_="axis middle"),
        tag("text", "downwards", x=left + 12 + slot * half * 1.5, y=12.0, class_="axis middle"),
    ]
    y = top
    for workload in result.workloads:
        for run in (run for mode in MODE_TITLES if (run := result.run(workload, mode)) is not None):
            label = f"{run.kind} {run.seed}, {MODE_TITLES[run.mode]}"
            drawn.append(tag("text", label, x=left - 8, y=y + 12, class_="label end"))
            drawn += _heat_row(run, links, lambda i: left + slot * i + (12 if i >= half else 0), y, slot, row)
            y += row
        y += 8
    return _svg("Measured utilisation of every link between switches in every run", width, y, drawn)


def _heat_row(
    run: DemoRun, links: Sequence[str], place: Callable[[int], float], y: float, slot: float, row: float
) -> list[Markup]:
    found = {link.id: link for link in run.links if is_switch_link(link.id)}
    cells = []
    for index, link in enumerate(links):
        load = found[link].measured_utilisation if link in found else 0.0
        x, wide = place(index) + 0.5, slot - 1
        title = tag("title", f"{link}: {load:.2f}, {run.workload}, {MODE_TITLES[run.mode]}")
        cells.append(tag("rect", x=x, y=y + 0.5, width=wide, height=row - 1, class_="cold"))
        cells.append(
            tag("rect", title, x=x, y=y + 0.5, width=wide, height=row - 1, class_="heat", fill_opacity=min(1.0, load))
        )
        if slot > 30:
            text_class = "cell hot" if load > 0.55 else "cell"
            cells.append(tag("text", f"{load:.2f}", x=x + wide / 2, y=y + 12, class_=text_class))
    return cells


def _svg(title: str, width: float, height: float, *children: Markup | list[Markup]) -> Markup:
    return tag(
        "svg",
        tag("title", title),
        *children,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        aria_label=title,
        class_="chart",
    )

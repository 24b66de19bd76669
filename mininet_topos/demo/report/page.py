"""`report.html`: one self-contained page (no script, no network), with light, dark and print styles."""

from importlib.resources import files

from heddle.mininet_topos.demo.report.charts import flow_bars, grouped_bars, link_heat
from heddle.mininet_topos.demo.report.fabric_drawing import draw_fabric, legend
from heddle.mininet_topos.demo.report.headline import Tile, tiles
from heddle.mininet_topos.demo.report.markup import Markup, join, tag
from heddle.mininet_topos.demo.report.scenes import scenes_section
from heddle.mininet_topos.demo.report.tables import certificates_table, congestion_table, parameters_table, runs_table
from heddle.mininet_topos.demo.report.time_series import SERIES, series_chart
from heddle.mininet_topos.demo.results.summary import (
    CONGESTION_LEGEND,
    LEGEND,
    congested,
    ratio,
    scale_note,
    summary_lines,
    title_of,
)
from heddle.mininet_topos.demo.results.values import MODE_TITLES, DemoResult, DemoRun


def style_sheet() -> str:
    """Return the report's style sheet."""
    return files(__package__).joinpath("report.css").read_text(encoding="utf-8")


def report_page(result: DemoResult) -> str:
    """Return the whole page, as HTML that is also well-formed XML."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "heddle demo: what a planned path is worth"),
        tag("style", Markup(style_sheet())),
    )
    body = tag(
        "main",
        _header(result),
        _overview(result),
        _workloads(result),
        _congestion(result),
        scenes_section(result),
        _heat(result),
        _tables(result),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', body), lang='en')}\n"


def _header(result: DemoResult) -> Markup:
    return tag(
        "header",
        tag("h1", "What a planned path is worth"),
        tag("p", title_of(result), class_="lead"),
        tag("div", [_tile(tile) for tile in tiles(result)], class_="tiles"),
        tag("p", scale_note(int(result.parameters["line_rate_bps"])), class_="soft"),
        [tag("p", note, class_="soft") for note in result.notes],
    )


def _tile(tile: Tile) -> Markup:
    return tag("div", tag("b", tile.figure), tag("span", tile.text), class_=f"tile {tile.tone}")


def _overview(result: DemoResult) -> Markup:
    goodput = grouped_bars(result, "Sum goodput of every run", lambda run: run.sum_goodput_bps / 1e6, "Mbit/s")
    completion = grouped_bars(result, "Completion time of every run", lambda run: run.completion_ns / 1e9, "s")
    return join(
        tag("h2", "Every run"),
        _mode_legend(),
        tag(
            "div",
            tag("div", tag("h3", "Sum goodput (more is better)"), goodput, class_="card"),
            tag("div", tag("h3", "Completion time (less is better)"), completion, class_="card"),
            class_="two",
        ),
    )


def _mode_legend() -> Markup:
    keys = [tag("span", tag("i", "", class_=f"key {mode}"), title) for mode, title in MODE_TITLES.items()]
    return tag("p", keys, class_="legend")


def _workloads(result: DemoResult) -> Markup:
    parts = []
    for workload in result.workloads:
        runs = [run for mode in MODE_TITLES if (run := result.run(workload, mode)) is not None]
        cards = tag("div", [_run_card(result, run) for run in runs], class_="three")
        parts.append(tag("section", tag("h2", workload[:1].upper() + workload[1:]), legend(), cards))
    return join(parts)


def _run_card(result: DemoResult, run: DemoRun) -> Markup:
    mode = MODE_TITLES[run.mode]
    links = {link.id: link for link in run.links}
    heading = tag("h3", tag("i", "", class_=f"key {run.mode}"), mode)
    drawing = draw_fabric(result.fabric, links, f"Load offered to every link, {run.workload}, {mode}")
    return tag("article", heading, drawing, flow_bars(run), _figures(result, run), _integrity(run), class_="card")


def _figures(result: DemoResult, run: DemoRun) -> Markup:
    against = ratio(result, run.workload, run.mode, "ecmp")
    compared = "not compared: the run is invalid" if not run.valid else f"{against:.2f}×" if against else "-"
    path_kind = "planned" if run.mode == "planned" else "traced"
    worst = f"{run.worst.goodput_bps / 1e6:.2f} Mbit/s, {run.worst.share_of_demand:.1%} of its line"
    rows = (
        ("sum goodput", f"{run.sum_goodput_bps / 1e6:.1f} Mbit/s ({compared} ECMP)" if against else f"{compared}"),
        ("worst flow", worst),
        ("completion", f"{run.completion_ns / 1e9:.2f} s (predicted {run.predicted.completion_ns / 1e9:.2f} s)"),
        (
            "busiest link",
            f"offered {run.predicted.max_link_utilisation:.2f}, measured {run.max_measured_utilisation:.2f}",
        ),
        ("packets", f"{run.lost_packets} lost, {run.retransmitted_packets} retransmitted"),
        ("paths", f"{run.exact_flows}/{len(run.flows)} flows on exactly the {path_kind} links"),
    )
    return tag("dl", [join(tag("dt", name), tag("dd", text)) for name, text in rows])


def _integrity(run: DemoRun) -> Markup:
    text = str(run.integrity) + (" (second attempt)" if run.attempts > 1 else "")
    return tag("p", text, class_="integrity" if run.valid else "integrity invalid-text")


def _congestion(result: DemoResult) -> Markup | None:
    table = congestion_table(result)
    if table is None:
        return None
    parts = [
        tag(
            "section",
            tag("h3", workload[:1].upper() + workload[1:]),
            tag("div", _series(result, workload), class_="two"),
        )
        for workload in congested(result)
    ]
    return join(
        tag("h2", "Many to one: marks, pauses, and a bystander"),
        tag("div", table, class_="card scroll"),
        tag("p", CONGESTION_LEGEND, class_="soft"),
        _mode_legend(),
        parts,
    )


def _series(result: DemoResult, workload: str) -> list[Markup]:
    return [
        tag("div", tag("h3", series.title), series_chart(result, workload, series), class_="card") for series in SERIES
    ]


def _heat(result: DemoResult) -> Markup:
    text = (
        "Each column is one direction of one cable, each row a run; the stronger the colour, the busier while its"
        " flows were sending. An empty cell beside a full one is capacity that a hash left idle."
    )
    card = tag("div", link_heat(result), class_="card")
    return join(tag("h2", "Heat of the links between switches"), tag("p", text, class_="soft"), card)


def _tables(result: DemoResult) -> Markup:
    certificates = certificates_table(result)
    return join(
        tag("h2", "In figures"),
        tag("div", runs_table(result), class_="card scroll"),
        tag("p", LEGEND, class_="soft"),
        tag("ul", [tag("li", line) for line in summary_lines(result)]),
        join(tag("h2", "Certificates"), tag("div", certificates, class_="card scroll")) if certificates else None,
        tag("h2", "To repeat it"),
        tag("div", parameters_table(result), class_="card scroll"),
    )

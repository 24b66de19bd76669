"""The report's tables: all runs, all certificates, and the parameters that repeat them."""

from collections.abc import Iterable, Sequence

from heddle.mininet_topos.demo.report.markup import Markup, tag
from heddle.mininet_topos.demo.results.summary import ratio
from heddle.mininet_topos.demo.results.values import MODE_TITLES, DemoResult, DemoRun

RUN_HEADINGS = (
    "workload",
    "mode",
    "sum, Mbit/s",
    "worst, Mbit/s",
    "worst, % line",
    "predicted, s",
    "time, s",
    "lost",
    "resent",
    "offered",
    "measured",
    "vs ECMP",
    "paths",
)
CERTIFICATE_COLUMNS = (
    ("max_link_utilisation", "max link"),
    ("lower_bound", "lower bound"),
    ("lower_bound_kind", "proof"),
    ("max_nic_utilisation", "max NIC"),
    ("ecmp_max_link_utilisation", "under ECMP"),
    ("e_ecmp_max_link_utilisation", "under E-ECMP"),
    ("bottleneck_link", "bottleneck"),
    ("deadlock_free", "deadlock-free"),
)


def runs_table(result: DemoResult) -> Markup:
    """Return the table of all runs."""
    rows = []
    for workload in result.workloads:
        runs = [run for mode in MODE_TITLES if (run := result.run(workload, mode)) is not None]
        for index, run in enumerate(runs):
            classes = [run.mode, *(["group"] if index == 0 else []), *([] if run.valid else ["invalid"])]
            rows.append(tag("tr", _cells(_run_cells(result, run)), class_=" ".join(classes)))
    return tag("table", _head(RUN_HEADINGS), tag("tbody", rows))


def _run_cells(result: DemoResult, run: DemoRun) -> Iterable[str]:
    against = ratio(result, run.workload, run.mode, "ecmp")
    yield run.workload
    yield MODE_TITLES[run.mode]
    yield f"{run.sum_goodput_bps / 1e6:.2f}"
    yield f"{run.worst.goodput_bps / 1e6:.2f}"
    yield f"{run.worst.share_of_demand * 100:.1f}"
    yield f"{run.predicted.completion_ns / 1e9:.3f}"
    yield f"{run.completion_ns / 1e9:.3f}"
    yield str(run.lost_packets)
    yield str(run.retransmitted_packets)
    yield f"{run.predicted.max_link_utilisation:.2f}"
    yield f"{run.max_measured_utilisation:.2f}"
    yield "INVALID" if not run.valid else f"{against:.2f}×" if against is not None else "-"
    yield f"{run.exact_flows}/{len(run.flows)}"


CONGESTION_HEADINGS = (
    "workload",
    "mode",
    "bystander, Mbit/s",
    "% of demand",
    "its time, s",
    "others, s",
    "marked",
    "CNPs",
    "PFC frames",
    "ports paused, s",
    "NICs paused, s",
    "dropped",
)


def congestion_table(result: DemoResult) -> Markup | None:
    """Return the congestion figures, a row for each run with the queue model; None if there is none."""
    rows = []
    for run in result.runs:
        if run.congestion is not None and run.bystander is not None:
            found, flow = run.congestion, run.bystander
            cells = (
                run.workload,
                MODE_TITLES[run.mode],
                f"{flow.goodput_bps / 1e6:.2f}",
                f"{flow.share_of_demand * 100:.1f}",
                f"{flow.duration_ns / 1e9:.3f}",
                f"{run.many_to_one_ns / 1e9:.3f}",
                *(f"{count:,}" for count in (found.marked_packets, found.cnps, found.pfc_frames)),
                *(f"{ns / 1e9:.2f}" for ns in (found.switch_paused_ns, found.nic_paused_ns)),
                f"{found.dropped_packets:,}",
            )
            rows.append(tag("tr", _cells(cells), class_=run.mode if run.valid else f"{run.mode} invalid"))
    return tag("table", _head(CONGESTION_HEADINGS), tag("tbody", rows)) if rows else None


def certificates_table(result: DemoResult) -> Markup | None:
    """Return the certificates of the planned runs beside the measured load; None if there is no planned run."""
    rows = []
    for run in result.runs:
        if run.certificate:
            cells = [run.workload, *(_plain(run.certificate.get(key)) for key, _ in CERTIFICATE_COLUMNS)]
            times = [f"{float(run.certificate.get(key) or 0) / 1e6:.1f}" for key in ("solve_ns", "install_ns")]
            rows.append(tag("tr", _cells([*cells, f"{run.max_measured_utilisation:.3f}", *times])))
    headings = ("planned run", *(text for _, text in CERTIFICATE_COLUMNS), "measured", "solved, ms", "installed, ms")
    return tag("table", _head(headings), tag("tbody", rows)) if rows else None


def parameters_table(result: DemoResult) -> Markup:
    """Return the table of all parameters and of the machine's properties."""
    rows = [
        tag("tr", tag("td", name.replace("_", " ")), tag("td", tag("code", _plain(value)), class_="left"))
        for name, value in {**result.parameters, **result.machine}.items()
    ]
    return tag("table", tag("tbody", rows))


def _head(headings: Sequence[str]) -> Markup:
    cells = [tag("th", text, scope="col", class_="left" if text == "mode" else None) for text in headings]
    return tag("thead", tag("tr", cells))


def _cells(texts: Iterable[str]) -> list[Markup]:
    return [tag("td", text, class_="left" if text in MODE_TITLES.values() else None) for text in texts]


def _plain(value: object) -> str:
    """Return any value of a certificate or parameter as readable text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value)
    return "" if value is None else str(value)

"""Generate docs/metrics.md from the code: `python -m tests.support.metrics_catalogue > docs/metrics.md`."""

from collections.abc import Iterable

from heddle.controller.dashboard import fabric_metrics, isolation_metrics, leader_metrics, metrics
from heddle.controller.dashboard.exposition import Family
from heddle.programs.console.launch.node import metrics as ports_metrics
from heddle.programs.gateway import balancer_metrics, gateway_metrics

_HEAD = """# Metrics

`heddle run` serves `/metrics` on port 8080 by default, in Prometheus' text format. This page is generated:
`python -m tests.support.metrics_catalogue > docs/metrics.md`.

Counters end in `_total`. They continue over restarts of a device, and start at 0 with the controller. Units are base
units, except where the meaning names another. Labels are names of the fabric file, so their number is bounded by it;
`job` is the id of a job that holds paths and has measured flows. A port has series after its first
sample, a queue after its first count. A scrape holds at most {limit:,} series of ports;
beyond that, whole ports are left out and `fabric_metrics_ports_left_out` counts them. Metrics of NICs have the names of
[rdma_exporter](https://github.com/yuuki/rdma_exporter), so its dashboards work with both.
"""


def catalogued_metrics() -> dict[str, tuple[str, ...]]:
    """Return the labels of every metric by its name."""
    families = (*metrics.FAMILIES, *fabric_metrics.FAMILIES, *gateway_metrics.FAMILIES)
    families += ports_metrics.FAMILIES + balancer_metrics.FAMILIES
    families += leader_metrics.FAMILIES + isolation_metrics.FAMILIES
    return {family.name: tuple(family.labels) for family in families}


def markdown() -> str:
    """Return the page."""
    head = _HEAD.format(limit=fabric_metrics.MAX_SERIES)
    several = (
        "One of several controllers ([cluster.md](cluster.md))",
        leader_metrics.FAMILIES,
    )
    parts = (
        ("The controller", metrics.FAMILIES + isolation_metrics.FAMILIES),
        several,
        ("Ports, queues and NICs", fabric_metrics.FAMILIES),
    )
    gateway = ("A gateway (`/metrics` of `heddle gateway`)", gateway_metrics.FAMILIES)
    ports = ("A node's ports (`/metrics` of `heddle ports --metrics ADDR:PORT`)", ports_metrics.FAMILIES)
    balancer = ("A balancer (`/metrics` of `heddle balancer`)", balancer_metrics.FAMILIES)
    found = (*parts, gateway, balancer, ports)
    return head + "".join(f"\n## {title}\n\n{_table(families)}" for title, families in found)


def _table(families: Iterable[Family]) -> str:
    rows = [f"| `{f.name}` | {f.kind} | {', '.join(f.labels)} | {f.help} |" for f in families]
    return "\n".join(("| metric | type | labels | meaning |", "| --- | --- | --- | --- |", *rows)) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")

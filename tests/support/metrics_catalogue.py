"""docs/metrics.md, written from the metrics: `python -m tests.support.metrics_catalogue > docs/metrics.md`."""

from collections.abc import Iterable

from controller.dashboard import fabric_metrics, metrics
from controller.dashboard.exposition import Family
from dataplane.service import gateway_metrics

_HEAD = """# Metrics

`/metrics` of `heddle run` (port 8080 unless told otherwise), in Prometheus' text format. Written from the code:
`python -m tests.support.metrics_catalogue > docs/metrics.md`.

Counters end in `_total`; they are totals over restarts of a device and start again with the controller. Units are base
units, except where the help says otherwise. Labels are names of the fabric file, so their number is bounded by it: a
port has series once it was heard, a queue once it counted anything. A scrape holds at most {most:,} series of ports;
past that, whole ports are left out and `fabric_metrics_ports_left_out` says how many. Names of NICs are those of
[rdma_exporter](https://github.com/yuuki/rdma_exporter), so its dashboards read both.
"""


def markdown() -> str:
    """Return the page."""
    head = _HEAD.format(most=fabric_metrics.MAX_SERIES)
    parts = (("The controller", metrics.FAMILIES), ("Ports, queues and NICs", fabric_metrics.FAMILIES))
    gateway = ("A gateway (`/metrics` of `heddle gateway`)", gateway_metrics.FAMILIES)
    return head + "".join(f"\n## {title}\n\n{_table(families)}" for title, families in (*parts, gateway))


def _table(families: Iterable[Family]) -> str:
    rows = [f"| `{f.name}` | {f.kind} | {', '.join(f.labels)} | {f.help} |" for f in families]
    return "\n".join(("| metric | type | labels | meaning |", "| --- | --- | --- | --- |", *rows)) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")

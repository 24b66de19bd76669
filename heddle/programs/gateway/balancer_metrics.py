"""Prometheus metrics of `heddle balancer`: a gateway's families of packets, tables and pairs, and its own."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from heddle.controller.dashboard.exposition import Family, label_text, lines
from heddle.programs.gateway import gateway_metrics

CONNECTIONS = Family(
    "heddle_balancer_connections_total",
    "counter",
    "Connections by what became of them: new, refused (no back end is up, or no such port; `untracked` packets had no "
    "row), displaced, moved to another back end, expired; echoed pings.",
    ("event",),
)
SLOTS = Family("heddle_balancer_slots_written_total", "counter", "Maglev slots that changes of back ends wrote.")
SILENCED = Family(
    "heddle_balancer_back_ends_silenced_total",
    "counter",
    "Back ends closed by passive checks: they answered none of their new connections while others did.",
)
UP = Family(
    "heddle_balancer_back_end_up",
    "gauge",
    "1 while the back end gets packets; one that no probe checks is always up.",
    ("load_balancer", "back_end"),
)


def _renamed(family: Family) -> Family:
    name = family.name.replace("heddle_gateway_", "heddle_balancer_")
    return replace(family, name=name, help=family.help.replace("gateway", "balancer"))


FAMILIES = (*map(_renamed, gateway_metrics.FAMILIES), CONNECTIONS, SLOTS, SILENCED, UP)


def balancer_text(status: Mapping[str, Any]) -> str:
    """Render a balancer's status in the Prometheus text format."""
    text = gateway_metrics.gateway_text(status).replace("heddle_gateway_", "heddle_balancer_")
    return text + "".join(_own(status["balancer"]))


def _own(counts: Mapping[str, Any]) -> Iterator[str]:
    events = {name: count for name, count in counts.items() if name not in ("services", "slots_written", "silenced")}
    yield from lines(CONNECTIONS, [(label_text(("event", name)), count) for name, count in events.items()])
    yield from lines(SLOTS, [("", counts["slots_written"])])
    yield from lines(SILENCED, [("", counts["silenced"])])
    ends = [
        (label_text(("load_balancer", each["id"]), ("back_end", f"{end['ip']} port {end['port']}")), int(end["up"]))
        for each in counts["services"]
        for end in each["back_ends"]
    ]
    yield from lines(UP, ends)

"""Render the results of probes as tables and as JSON."""

from collections.abc import Iterable
from typing import Any

from rich import box
from rich.table import Table

from heddle.mininet_topos.vpc.balanced import PORT, REQUESTS, Requested
from heddle.mininet_topos.vpc.description import FLOATING, MACHINES, VNIS
from heddle.mininet_topos.vpc.probes import PING, SERVICES
from heddle.mininet_topos.vpc.reach import OUTSIDE, Row, own_addresses

PIPED_WIDTH = 120
LEGEND = f"A name: this node replied, to all of {', '.join(each.name for each in SERVICES)} unless listed; - no reply."
UNSAFE = "load balancers are left out: the VXLAN of kernels before 6.17 may crash with them (--vtep ovs has them)"
_ALL = [service.name for service in SERVICES]
_NAMES = {**{str(address): name for name, address in OUTSIDE.items()}, str(FLOATING): "floating"}


def tables(rows: Iterable[Row]) -> list[Table]:
    """Return a table per address family: the node that replied, by source (row) and target (column)."""
    by_family: dict[int, list[Row]] = {}
    for row in rows:
        by_family.setdefault(row.probe.target.version, []).append(row)
    return [_table(f"IPv{family}", found) for family, found in sorted(by_family.items())]


def _table(family: str, rows: list[Row]) -> Table:
    asked = sorted({_to(row) for row in rows}, key=lambda target: (target in _NAMES, target == str(FLOATING)))
    gates = [target for target in asked if all(r.probe.service.protocol == PING for r in rows if _to(r) == target)]
    places = sorted(set(asked) - set(gates), key=lambda each: (_rank(each), each))
    table = Table(title=f"replies, {family}", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.show_edge = False
    for heading in ("from", *(_NAMES.get(place, place) for place in places), *(["gateway"] if gates else [])):
        table.add_column(heading, no_wrap=heading == "from")
    for source in sorted({row.probe.source for row in rows}, key=_order):
        own = [row for row in rows if row.probe.source == source]
        cells = [_cell(source, place, [row for row in own if _to(row) == place]) for place in places]
        table.add_row(source, *cells, *([_of_gates([row for row in own if _to(row) in gates])] if gates else []))
    return table


def _rank(target: str) -> int:
    """Return a column's sort key: addresses of VPCs, the outside, the floating IP."""
    return list(_NAMES).index(target) + 1 if target in _NAMES else 0


def _order(source: str) -> int:
    names = [*(machine.name for machine in sorted(MACHINES, key=lambda m: (VNIS[m.vpc], m.name))), *OUTSIDE]
    return names.index(source)


def _to(row: Row) -> str:
    return str(row.probe.target)


def _cell(source: str, place: str, rows: list[Row]) -> str:
    """Return the node that replied, unless it is the heading's, and the services; empty if there was no probe."""
    if not rows:
        return "itself" if place in own_addresses(source) else ""
    differs = "" if all(row.agrees for row in rows) else " DIFFERS"
    answered = [row for row in rows if row.packets]
    if not answered:
        return f"-{differs}"
    names = "/".join(dict.fromkeys(row.packets for row in answered))
    services = _services([row.probe.service.name for row in answered])
    if names == _NAMES.get(place):
        return f"{services or 'all'}{differs}"
    return f"{names} {services}".rstrip() + differs


def _services(names: list[str]) -> str:
    """Return the services that replied; "" for all."""
    missing = [name for name in _ALL if name not in names]
    return f"no {missing[0]}" if len(missing) == 1 else " ".join(names) if missing else ""


def _of_gates(rows: list[Row]) -> str:
    if not rows:
        return ""
    return "ping" if all(row.packets for row in rows) else "-"


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return each probe with the node that replied, null for none."""
    return [
        {
            "from": row.probe.source, "to": str(row.probe.target), "service": row.probe.service.name,
            "answered_by": row.packets or None, "tables_say": row.tables or None, "stray": sorted(row.stray),
        }
        for row in rows
    ]  # fmt: skip


def requests_table(requests: Iterable[Requested]) -> Table:
    """Return a table of the requests to virtual IPs, and the back ends that replied."""
    title = f"virtual IPs, {REQUESTS} requests of each client by curl"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.show_edge = False
    for heading in ("vpc", "from", "to", "replies"):
        table.add_column(heading)
    for each in requests:
        replies = ", ".join(f"{name} {count}" for name, count in sorted(each.replies.items())) or "-"
        table.add_row(each.vpc, each.client, f"{each.address}:{PORT}", replies + ("" if each.agrees else " DIFFERS"))
    return table


def requests_as_json(requests: Iterable[Requested]) -> list[dict[str, Any]]:
    """Return the requests of each client with the number of replies by back end."""
    return [
        {"vpc": each.vpc, "from": each.client, "to": f"{each.address}:{PORT}", "replies": dict(each.replies),
         "tables_open": each.is_open, "agrees": each.agrees}
        for each in requests
    ]  # fmt: skip

"""A balancer's tables as one file: those of a gateway, and its services with the slots that they use."""

from typing import Any

import numpy as np

from heddle.dataplane.balancer.maglev import NO_BACK_END, SLOTS
from heddle.dataplane.balancer.tables.schema import BACK_END, SERVICE, SERVICES_FIELDS, Tables
from heddle.dataplane.tables.compiler.archive import arrays_of, compressed, rows_of, tables_of
from heddle.dataplane.tables.schema import EMPTY
from heddle.dataplane.tables.schema import Tables as GatewayTables

_ROWS = {"service_rows": SERVICE, "back_ends": BACK_END}
_SEARCHED = {"services": 4, "back_end_rows": 4, "own_addresses": 4}
"""Hash tables and their number of columns."""


def packed(tables: Any) -> bytes:
    """Return tables as compressed bytes; `slots` has those of services alone, which name them from 0."""
    used = tables.service_rows["slots"]
    services = tables.service_rows.copy()
    services["slots"] = np.arange(len(services))
    slots = np.array([tables.slots[row] for row in used.tolist()], dtype=np.int32).reshape(-1, SLOTS)
    return compressed({**tables._asdict(), "service_rows": services, "slots": slots})


def unpacked(data: bytes) -> Any:
    """Return the tables from bytes; raises ValueError for tables of another version, of a gateway, or damaged ones."""
    arrays = arrays_of(data)
    if set(arrays) != set(Tables._fields):
        raise ValueError("no tables of a balancer of this version: their names differ")
    shared = tables_of({name: arrays[name] for name in GatewayTables._fields})
    own = {name: arrays[name] for name in SERVICES_FIELDS}
    for name, row in _ROWS.items():
        own[name] = rows_of(name, own[name], row)
    _check(own, len(shared.next_hops))
    return Tables(*shared, **own)


def _check(own: dict[str, Any], hops: int) -> None:
    """Raise ValueError if a search in the services would leave an array."""
    for name, columns in _SEARCHED.items():
        grid = own[name]
        if grid.ndim != 2 or grid.shape[1] != columns or not len(grid) or len(grid) & (len(grid) - 1):
            raise ValueError(f"damaged tables: {name} has another shape")
    services, ends = len(own["service_rows"]), len(own["back_ends"])
    used = own["back_ends"][own["back_ends"]["number"] >= 0]
    bounds = (
        ("services", own["services"][:, 3], EMPTY, services),
        ("back_end_rows", own["back_end_rows"][:, 3], EMPTY, ends),
        ("service_rows", own["service_rows"]["slots"], 0, services),
        ("back_ends", used["service"], 0, services),
        ("back_ends", used["next_hop"], 0, hops),
        ("slots", own["slots"], NO_BACK_END, ends),
    )
    for name, values, low, end in bounds:
        if ((values < low) | (values >= end)).any():
            raise ValueError(f"damaged tables: {name} leads to a row that is not there")
    if own["slots"].shape != (services, SLOTS):
        raise ValueError("damaged tables: slots has another shape")

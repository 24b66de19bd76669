"""Tables as one file: how a gateway returns its installed tables to `heddle verify`, and how they are read back."""

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from heddle.dataplane.jit import Ints
from heddle.dataplane.packet.vxlan import OUTER_BYTES
from heddle.dataplane.tables.schema import EMPTY, NEXT_HOP, OWN_WORDS, RULE, VPC, Tables
from heddle.foundation.network import Network

MAX_BYTES = 1 << 30
_ROWS = {"vpcs": VPC, "next_hops": NEXT_HOP, "rules": RULE}
_SEARCHED = {"vnis": (2, "vpcs"), "vteps": (3, ""), "endpoints": (4, "next_hops"), "routes": (4, "next_hops"),
             "replies": (2, ""),
             "floating_in": (2, "floating"), "floating_out": (3, "floating"), "nat_in": (2, "vpcs"),
             "vlans": (2, "customers"), "incarnations": (2, "")}  # fmt: skip
"""Hash tables: their number of columns, and the table that the last column refers to."""
_COLUMNS = {"floating": 5, "customers": 6, "ports": 4}


def packed(tables: Tables) -> bytes:
    """Return tables as compressed bytes."""
    return compressed(tables._asdict())


def compressed(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as compressed bytes; rows become words."""
    file = io.BytesIO()
    np.savez_compressed(
        file, **{name: array.view(np.int64) if array.dtype.names else array for name, array in arrays.items()}
    )
    return file.getvalue()


def unpacked(data: bytes) -> Tables:
    """Return the tables from bytes; raises ValueError for tables of another version or damaged ones."""
    return tables_of(arrays_of(data))


def arrays_of(data: bytes) -> dict[str, Any]:
    """Return the arrays from bytes; raises ValueError."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
                raise ValueError(f"tables of more than {MAX_BYTES >> 20} MiB")
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"no tables: {error}") from None


def tables_of(arrays: dict[str, Any]) -> Tables:
    """Return tables from arrays of words; raises ValueError."""
    if set(arrays) != set(Tables._fields):
        raise ValueError("tables of another version: their names differ")
    for name, array in arrays.items():
        if array.dtype != (np.uint8 if name == "templates" else np.int64):
            raise ValueError(f"tables of another version: {name} is of another type")
    tables = Tables(**{**arrays, **{name: rows_of(name, arrays[name], row) for name, row in _ROWS.items()}})
    _check(tables)
    return tables


def rows_of(name: str, words: Any, row: Any) -> Any:
    """Return words as rows; raises ValueError where they are of another length."""
    if words.size % len(row.names):
        raise ValueError(f"tables of another version: {name} has other columns")
    return words.reshape(-1).view(row)


def _check(tables: Tables) -> None:
    """Raise ValueError if a search in the tables would leave an array."""
    columns = {**{name: width for name, (width, _) in _SEARCHED.items()}, **_COLUMNS}
    for name, array in tables._asdict().items():
        if array.shape[1:] != ((columns[name],) if name in columns else ()):
            raise ValueError(f"tables of another version: {name} has other columns")
    for name, (_, to) in _SEARCHED.items():
        grid = getattr(tables, name)
        if not grid.size or len(grid) & (len(grid) - 1):
            raise ValueError(f"damaged tables: {name} has {len(grid)} slots, no power of two")
        if name != "incarnations":  # its values are numbers, no rows
            _within(name, grid[:, -1], EMPTY, len(getattr(tables, to)) if to else 1)
    vpcs, hops = tables.vpcs, tables.next_hops
    for rules in ("rules_in", "rules_out", "border"):
        counts = vpcs[f"{rules}_count"]
        _within("vpcs", counts, 0, len(tables.rules) + 1)
        _within("vpcs", vpcs[rules], 0, len(tables.rules) - counts + 1)
    _within("vpcs", vpcs["realm"], 0, len(Network))
    _within("next_hops", hops["realm"], 0, len(Network))
    _within("next_hops", hops["template"], 0, len(tables.templates) + 1)
    _within("next_hops", hops["template_bytes"], 0, len(tables.templates) - hops["template"] + 1)
    if not set(hops["template_bytes"].tolist()) <= {0, OUTER_BYTES}:
        raise ValueError("damaged tables: next_hops names outer headers of other lengths")
    if len(tables.vpc_incarnations) != len(vpcs):
        raise ValueError("damaged tables: vpc_incarnations is of another length")
    if len(tables.endpoint_vteps) != len(hops) or tables.own.shape != (OWN_WORDS,) or tables.generation.shape != (1,):
        raise ValueError("damaged tables: endpoint_vteps, own or generation is of another length")


def _within(name: str, values: Ints, low: int, end: Ints | int) -> None:
    if ((values < low) | (values >= end)).any():
        raise ValueError(f"damaged tables: {name} leads to a row that is not there")

"""Tables as one file: how a gateway sends those that it has installed, and how they are read back elsewhere."""

import io
import zipfile

import numpy as np

from dataplane.gateway.schema import NEXT_HOP, RULE, VPC, Tables

MOST_BYTES = 1 << 30
_ROWS = {"vpcs": VPC, "next_hops": NEXT_HOP, "rules": RULE}


def packed(tables: Tables) -> bytes:
    """Return tables as bytes, compressed."""
    file = io.BytesIO()
    arrays = {name: array.view(np.int64) if name in _ROWS else array for name, array in tables._asdict().items()}
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def unpacked(data: bytes) -> Tables:
    """Return the tables that bytes hold; raises ValueError where they hold none of this version."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
                raise ValueError(f"tables of more than {MOST_BYTES >> 20} MiB")
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except (OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"no tables: {error}") from None
    if set(arrays) != set(Tables._fields):
        raise ValueError("tables of another version: their names differ")
    for name, row in _ROWS.items():
        width = len(row.names or ())
        if arrays[name].size % width:
            raise ValueError(f"tables of another version: {name} has other columns")
        arrays[name] = arrays[name].reshape(-1).view(row)
    return Tables(**arrays)

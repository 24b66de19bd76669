"""The ports of a fabric: names, owners and rates, and their rows in the window's arrays."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.telemetry.samples.topic import Source


class Port(NamedTuple):
    """A switch port `SWITCH:NUMBER` of a switch, or a NIC id of a host; `rate_bps` is its line rate."""

    name: str
    source: Source
    owner: str
    rate_bps: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """The known names of a message: positions in the message and their rows; `unknown` counts the others."""

    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    unknown: int


class PortTable:
    """Every port of a fabric in a fixed order, which is the row in the window's arrays. Immutable."""

    def __init__(self, ports: Iterable[Port]) -> None:
        self.ports = tuple(ports)
        self.names = tuple(port.name for port in self.ports)
        self.rates_bps = np.array([port.rate_bps for port in self.ports], dtype=np.float64)
        self._rows: dict[tuple[Source, str], dict[str, int]] = {}
        self._row_by_name: dict[str, int] = {}
        for row, port in enumerate(self.ports):
            if port.name in self._row_by_name:
                raise ValueError(f"port {port.name} is given twice")
            self._row_by_name[port.name] = row
            self._rows.setdefault((port.source, port.owner), {})[port.name] = row

    def __len__(self) -> int:
        return len(self.ports)

    def row(self, name: str) -> int | None:
        """Return a port's row; None if unknown."""
        return self._row_by_name.get(name)

    def owner_of(self, name: str) -> tuple[Source, str, int]:
        """Return a port's kind of owner, its owner, and the owner's number of ports; raises KeyError."""
        port = self.ports[self._row_by_name[name]]
        return port.source, port.owner, len(self._rows[port.source, port.owner])

    def knows(self, source: Source, owner: str) -> bool:
        """Return whether a switch or host has any port in the table."""
        return (source, owner) in self._rows

    def find(self, source: Source, owner: str, names: tuple[str, ...]) -> Lookup:
        """Return the rows of the names that are ports of this switch or host; ports of another owner are unknown."""
        rows = self._rows.get((source, owner), {})
        found = np.array([rows.get(name, -1) for name in names], dtype=np.int64)
        positions = np.flatnonzero(found >= 0)
        return Lookup(positions, found[positions], len(names) - positions.size)

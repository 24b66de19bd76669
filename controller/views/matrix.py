"""Add up the load between every leaf and every switch above it, in both directions; pure."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.controller.model.fabric import Fabric, Role

Floats = NDArray[np.float64]


class Matrix(NamedTuple):
    """The load of the cables of each leaf (row) and switch above (column) by their capacity; nan where none is known.

    `imbalance_index` is the largest load upwards by the mean of all: 1.0 is even.
    """

    leaves: tuple[str, ...]
    uppers: tuple[str, ...]
    up: Floats
    down: Floats
    imbalance_index: float


def leaf_matrix(fabric: Fabric, utilisation: Floats) -> Matrix:
    """Return the matrix of a utilisation per link in the order of `Fabric.directed_links`; nan: not known."""
    places = [place for place, cable in enumerate(fabric.cables) if _is_leafs(fabric, cable.lower.switch)]
    cables = [fabric.cables[place] for place in places]
    row = {leaf: number for number, leaf in enumerate(fabric.leaves)}
    above = {cable.upper.switch for cable in cables}
    uppers = tuple(switch.id for switch in fabric.switches if switch.id in above)
    column = {upper: number for number, upper in enumerate(uppers)}
    rows = np.array([row[cable.lower.switch] for cable in cables], dtype=np.int64)
    columns = np.array([column[cable.upper.switch] for cable in cables], dtype=np.int64)
    capacity = np.array([cable.capacity_bps for cable in cables], dtype=np.float64)
    links = 2 * np.array(places, dtype=np.int64)
    up, down = (_summed(rows, columns, capacity, utilisation[at], len(row), len(column)) for at in (links, links + 1))
    return Matrix(fabric.leaves, uppers, up, down, _imbalance(up))


def _is_leafs(fabric: Fabric, switch: str) -> bool:
    return fabric.switch_by_id[switch].role is Role.LEAF


def _summed(
    rows: NDArray[np.int64], columns: NDArray[np.int64], capacity: Floats, used: Floats, height: int, width: int
) -> Floats:
    """Return the load by the capacity of parallel cables together; nan where none of them is known."""
    loads, capacities = np.zeros((height, width)), np.zeros((height, width))
    known = ~np.isnan(used)
    np.add.at(loads, (rows[known], columns[known]), (used * capacity)[known])
    np.add.at(capacities, (rows[known], columns[known]), capacity[known])
    return np.where(capacities > 0, loads / np.maximum(capacities, 1.0), np.nan)


def _imbalance(up: Floats) -> float:
    known = up[~np.isnan(up)]
    mean = known.mean() if known.size else 0.0
    return float(known.max() / mean) if mean > 0 else 1.0

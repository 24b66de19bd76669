"""A regular Clos fabric as a grid of links, and the paths on it.

A path is a column (the same uplink at both leaves) and, between pods, a core. Links are numbered so that links which
a search reads together are adjacent in memory: with K columns the uplinks of leaf a are a K to a K + K - 1; the
downlinks of all leaves follow in the same order, then the core links upwards by (pod, plane), then downwards. Failed
links keep their number with an inverse capacity of `FAR`. A flow goes up and down in one column: `balance` handles
fabrics where only parallel cables of different columns still join two leaves.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, Live, Topology
from heddle.controller.planner.ground.jit import Floats, Ints, bare_kernel
from heddle.controller.planner.ground.shape import Shape, TwoTier

FAR = 1e30
"""Inverse capacity of a link that cannot carry traffic."""


class Grid(NamedTuple):
    """The dimensions, loads and capacities of a grid; kernels take it as it is.

    There are `leaves` times `columns` uplinks. `pod[leaf]` is the pod of a leaf, `plane_of[column]` the plane that a
    column leads to; each (pod, plane) has `cores` uplinks. A two-tier fabric is one pod with 0 cores. By grid number,
    `load` is in bit/s, `inverse` is 1 / capacity, and `link` is the topology's link number.
    """

    leaves: int
    columns: int
    pods: int
    planes: int
    cores: int
    pod: Ints
    plane_of: Ints
    load: Floats
    inverse: Floats
    link: Ints

    @property
    def cores_begin(self) -> int:
        """Return the number of the first link between an aggregation switch and a core."""
        return 2 * self.leaves * self.columns


def grid_of(topology: Topology, live: Live, shape: Shape, base: Floats) -> Grid:
    """Build the grid of a fabric of this shape with the live links and the load of other flows."""
    leaves, columns = shape.uplink.shape
    up = shape.uplink.ravel()
    parts = [up, up + topology.cables]
    pods, planes, cores = 1, columns, 0
    pod, plane_of = np.zeros(leaves, dtype=np.int64), np.arange(columns, dtype=np.int64)
    if not isinstance(shape, TwoTier):
        pods, planes, cores = shape.core_link.shape
        pod, plane_of = shape.pod, shape.plane_of
        parts += [shape.core_link.ravel(), shape.core_link.ravel() + topology.cables]
    link = np.concatenate(parts)
    usable = live.links[link] & (topology.capacity[link] > 0)
    inverse = np.where(usable, 1 / np.maximum(topology.capacity[link], 1), FAR)
    # Load on a dead link belongs to jobs that wait for new paths: it must not hide the maximum of the live links.
    load = np.where(usable, base[link], 0.0)
    return Grid(leaves, columns, pods, planes, cores, pod, plane_of, load, inverse, link)


def hops_of(grid: Grid, start: Ints, end: Ints, column: Ints, core: Ints) -> Ints:
    """Return the links of paths given by column and core; the row of a flow without a column is -1."""
    hops = np.full((len(start), MAX_HOPS), NO_LINK, dtype=np.int64)
    size, first = grid.leaves * grid.columns, grid.cores_begin
    known, across = column >= 0, (column >= 0) & (core >= 0)
    up, down = grid.link[start * grid.columns + column], grid.link[size + end * grid.columns + column]
    hops[known, 0], hops[known, 1] = up[known], down[known]
    if across.any():
        plane, half = grid.plane_of[column[across]], grid.pods * grid.planes * grid.cores
        at_start = (grid.pod[start[across]] * grid.planes + plane) * grid.cores + core[across]
        at_end = (grid.pod[end[across]] * grid.planes + plane) * grid.cores + core[across]
        hops[across, 1], hops[across, 2] = grid.link[first + at_start], grid.link[first + half + at_end]
        hops[across, 3] = down[across]
    return hops


@bare_kernel
def link_of(grid: Grid, a: int, b: int, column: int, core: int, step: int) -> int:
    """Return the grid number of the link at a step of a path (0 up, 1 down, 2 core up, 3 core down), -1 for none."""
    if step == 0:
        return a * grid.columns + column
    if step == 1:
        return (grid.leaves + b) * grid.columns + column
    if core < 0:
        return -1
    first, width = 2 * grid.leaves * grid.columns + grid.plane_of[column] * grid.cores + core, grid.planes * grid.cores
    return first + grid.pod[a] * width if step == 2 else first + (grid.pods + grid.pod[b]) * width


@bare_kernel
def best_core(
    grid: Grid, a: int, b: int, column: int, demand: float, worst: float, best: float
) -> tuple[int, float, float]:
    """Return the core of a column's plane whose links stay emptiest with `demand` more.

    Returns the core (-1 where every maximum is above `best`), the maximum of `worst` and its two utilisations, and the
    sum of these two.
    """
    load, inverse = grid.load, grid.inverse
    up, down = link_of(grid, a, b, column, 0, 2), link_of(grid, a, b, column, 0, 3)
    chosen, found, total = -1, best, 1e29
    for c in range(grid.cores):
        x, y = (load[up + c] + demand) * inverse[up + c], (load[down + c] + demand) * inverse[down + c]
        full = max(worst, x, y)
        if full < found or (full == found and x + y < total):
            chosen, found, total = c, full, x + y
    return chosen, found, total


@bare_kernel
def best_path(grid: Grid, a: int, b: int, demand: float) -> tuple[int, int, float]:
    """Return column, core and largest utilisation of the path whose fullest link stays emptiest; column -1 for none."""
    load, inverse, across = grid.load, grid.inverse, grid.pod[a] != grid.pod[b]
    up, down = a * grid.columns, (grid.leaves + b) * grid.columns
    column, core, best, least = -1, -1, 1e29, 1e29
    for j in range(grid.columns):
        x, y = (load[up + j] + demand) * inverse[up + j], (load[down + j] + demand) * inverse[down + j]
        full, total = max(x, y), x + y
        if full > best or full > 1e20:
            continue
        if not across:
            if full < best or total < least:
                column, best, least = j, full, total
            continue
        c, worst, more = best_core(grid, a, b, j, demand, full, best)
        if c >= 0 and worst < 1e20 and (worst < best or total + more < least):
            column, core, best, least = j, c, worst, total + more
    return column, core, best


@bare_kernel
def put(grid: Grid, a: int, b: int, column: int, core: int, demand: float) -> None:
    """Add a demand in bit/s to the load of the links of a path."""
    for step in range(4):
        link = link_of(grid, a, b, column, core, step)
        if link >= 0:
            grid.load[link] += demand

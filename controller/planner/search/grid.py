"""A regular fabric as a grid of links: where every path is a column of uplinks and, between pods, a core.

Links are numbered so that what a search looks at together lies together: the uplinks of leaf a are a K to a K + K - 1,
then the downlinks of every leaf in the same order, then the core links upwards of (pod, plane), then downwards. Failed
links keep their place with an inverse capacity of `FAR`. A flow goes up and comes down in one column: fabrics where
only parallel cables of different columns still join two leaves are left to the engine of drawn fabrics.
"""

from typing import NamedTuple

import numpy as np

from controller.planner.clos import MAX_HOPS, NO_LINK, Live, Topology
from controller.planner.exact.shape import Shape, TwoTier
from controller.planner.jit import Floats, Ints

FAR = 1e30
"""Inverse capacity of a link that may carry nothing."""


class Grid(NamedTuple):
    """Sizes, places and loads, in this order for the kernels.

    `leaves` times `columns` uplinks; `pod[row]` is a leaf's pod, `plane_of[column]` the plane a column leads to, with
    `cores` links up from each (pod, plane): none in two tiers, which are one pod. `load` and `inverse` are by grid
    number, `link` is the topology's number of each.
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
    """Lay out a fabric of this shape as built, with what is alive of it and the load of others."""
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
    # Load on a dead link is left over from jobs that wait for their new paths: it must not hide the live maximum.
    load = np.where(usable, base[link], 0.0)
    return Grid(leaves, columns, pods, planes, cores, pod, plane_of, load, inverse, link)


def hops_of(grid: Grid, start: Ints, end: Ints, column: Ints, core: Ints) -> Ints:
    """Write paths given by column and core as rows of links; a flow without a column keeps a row of -1."""
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

"""Route equal demands on an idle regular Clos fabric by edge colouring, which is optimal.

Two tiers: a leaf of degree d over k even uplinks has ceil(d / k) flows on one of them whatever the plan, and colouring
reaches that. Three tiers: uplinks are coloured first, then the cores of every plane; where an aggregation switch has
a core uplink per leaf the leaves' bound is met on both layers.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.exact.colouring import colour_edges, colour_nested, largest_degree, repetition, shifted
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, Topology
from heddle.controller.planner.ground.jit import Ints, bare_kernel, kernel
from heddle.controller.planner.ground.shape import Shape, ThreeTier, TwoTier

MAX_SLOTS = 20_000_000
"""The limit of leaves times flows of the fullest leaf: over uneven uplinks each such slot is a colour."""


class Coloured(NamedTuple):
    """Hops of equal flows, and whether their largest utilisation is optimal."""

    hops: Ints
    optimal: bool


@bare_kernel
def _between_leaves(row: Ints, source: Ints, target: Ints, start: Ints, end: Ints, flow: Ints) -> int:
    """Write the leaf rows and the number of every flow between two leaves; return how many there are."""
    count = 0
    for f in range(source.shape[0]):
        if source[f] != target[f]:
            start[count], end[count], flow[count] = row[source[f]], row[target[f]], f
            count += 1
    return count


@bare_kernel
def _write_two(hops: Ints, flow: Ints, start: Ints, end: Ints, colour: Ints, uplink: Ints, cables: int) -> None:
    """Write the hops of two-tier paths given by colours."""
    for e in range(flow.shape[0]):
        hops[flow[e], 0] = uplink[start[e], colour[e]]
        hops[flow[e], 1] = uplink[end[e], colour[e]] + cables


@bare_kernel
def _write_three(
    hops: Ints, flow: Ints, start: Ints, end: Ints, colour: Ints, core: Ints, uplink: Ints, plane_of: Ints, pod: Ints,
    core_link: Ints, cables: int,
) -> None:  # fmt: skip
    """Write the hops of three-tier paths given by uplink and core colours."""
    for e in range(flow.shape[0]):
        f, plane = flow[e], plane_of[colour[e]]
        hops[f, 0] = uplink[start[e], colour[e]]
        down = uplink[end[e], colour[e]] + cables
        if core[e] < 0:
            hops[f, 1] = down
        else:
            hops[f, 1] = core_link[pod[start[e]], plane, core[e]]
            hops[f, 2] = core_link[pod[end[e]], plane, core[e]] + cables
            hops[f, 3] = down


@kernel
def _fullest_cores(pod_a: Ints, pod_b: Ints, plane: Ints, core: Ints, pods: int, planes: int, cores: int) -> int:
    """Return the largest number of flows on a core link, up or down."""
    up, down, largest = np.zeros(pods * planes * cores, np.int64), np.zeros(pods * planes * cores, np.int64), 0
    for e in range(core.shape[0]):
        if core[e] >= 0:
            up[(pod_a[e] * planes + plane[e]) * cores + core[e]] += 1
            down[(pod_b[e] * planes + plane[e]) * cores + core[e]] += 1
    for link in range(up.shape[0]):
        largest = max(largest, up[link], down[link])
    return largest


def coloured_paths(topology: Topology, shape: Shape, leaves: Ints, source: Ints, target: Ints) -> Coloured | None:
    """Colour equal flows between leaves (switch numbers, all in `leaves`) and return their hops.

    The rows of `shape` are those of `leaves`; the row of a flow within a leaf is -1. Returns None where that needs too
    much memory: many flows of one leaf over uneven uplinks.
    """
    row = np.full(len(topology.switch_ids), NO_LINK, dtype=np.int64)
    row[leaves] = np.arange(len(leaves))
    start, end, flow = (np.empty(len(source), dtype=np.int64) for _ in range(3))
    count = _between_leaves(row, source, target, start, end, flow)
    start, end, flow = start[:count], end[:count], flow[:count]
    hops = np.full((len(source), MAX_HOPS), NO_LINK, dtype=np.int64)
    if isinstance(shape, TwoTier):
        colour = _uplinks(topology, shape, start, end)
        if colour is None:
            return None
        _write_two(hops, flow, start, end, colour, shape.uplink, topology.cables)
        return Coloured(hops, optimal=True)
    return Coloured(hops, optimal=_nested(topology, shape, (flow, start, end), hops))


def _copies(start: Ints, end: Ints, leaves: int, colours: int) -> int:
    """Return how many consecutive queue pairs may be coloured as one, each shifted from the one before it.

    Every copy is a proper colouring, so only rounding can make the result worse; where it would, this is 1.
    """
    degree, common = largest_degree(start, end, leaves), repetition(start, end)
    for copies in range(common, 1, -1):
        if common % copies == 0 and copies * -(-degree // (copies * colours)) == -(-degree // colours):
            return copies
    return 1


def _cycle(start: Ints, end: Ints, leaves: int, colours: int) -> tuple[int, int]:
    """Return how many consecutive queue pairs may be coloured as one, and the number of colours for them.

    If the copies divide the colours, each copy has its own class of colours; if they are a multiple of the colours,
    the copies cycle through all of them. Classes and cycles are filled evenly, so rounding loses nothing.
    """
    common = repetition(start, end)
    for copies in range(common, 1, -1):
        if common % copies == 0 and colours % copies == 0:
            return copies, colours // copies
        if common % copies == 0 and copies % colours == 0:
            return copies, 1
    return _copies(start, end, leaves, colours), colours


def _uplinks(topology: Topology, shape: TwoTier, start: Ints, end: Ints) -> Ints | None:
    """Return the column of each flow; uneven uplinks have a colour per flow that fits at the least utilisation."""
    leaves, columns = shape.uplink.shape
    capacity = topology.cable_capacity[shape.uplink[0]]
    if (capacity == capacity[0]).all():
        copies, colours = _cycle(start, end, leaves, columns)
        if copies == 1:
            return colour_edges(start, end, leaves, columns)
        colour = colour_edges(start[::copies].copy(), end[::copies].copy(), leaves, colours)
        return shifted(colour, copies, columns, colours if colours < columns else 1)
    degree = largest_degree(start, end, leaves)
    if degree * leaves > MAX_SLOTS:
        return None
    slots = np.zeros(columns, dtype=np.int64)
    for _ in range(degree):
        slots[np.argmin((slots + 1) / capacity)] += 1
    return np.asarray(np.repeat(np.arange(columns), slots)[colour_edges(start, end, leaves, degree)], dtype=np.int64)


def _nested(topology: Topology, shape: ThreeTier, flows: tuple[Ints, Ints, Ints], hops: Ints) -> bool:
    """Write three-tier paths to `hops`; return whether they meet the bound of the leaves or of the pods."""
    flow, start, end = flows
    pods, planes, cores = shape.core_link.shape
    leaves, columns = shape.uplink.shape
    even = columns % planes == 0 and (np.bincount(shape.plane_of) == columns // planes).all()
    copies = _copies(start, end, leaves, columns) if even else 1
    one, other = start[::copies].copy(), end[::copies].copy()
    colour, core = colour_nested(
        one, other, shape.pod[one], shape.pod[other], leaves, pods, columns, shape.plane_of, planes, cores
    )
    if copies > 1:
        colour, core = shifted(colour, copies, columns, columns // planes), shifted(core, copies, cores, 1)
    pod_a, pod_b = shape.pod[start], shape.pod[end]
    _write_three(
        hops, flow, start, end, colour, core, shape.uplink, shape.plane_of, shape.pod, shape.core_link, topology.cables
    )
    fullest = _fullest_cores(pod_a, pod_b, shape.plane_of[colour], core, pods, planes, cores)
    apart = pod_a != pod_b
    leaf_bound = -(-largest_degree(start, end, leaves) // columns)
    pod_bound = -(-largest_degree(pod_a[apart], pod_b[apart], pods) // (planes * cores))
    leaf_bps = int(topology.cable_capacity[shape.uplink[0, 0]])
    core_bps = int(topology.cable_capacity[shape.core_link[0, 0, 0]])
    # Products of integers compare exactly, quotients do not.
    return fullest * leaf_bps <= max(leaf_bound * core_bps, pod_bound * leaf_bps)

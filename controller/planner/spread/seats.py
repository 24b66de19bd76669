"""Choose planned paths of new flows for their sets: where k divides the uplinks, so that the sets are even.

Equally spaced rotations turn an uplink into each of its class, the uplinks at the same distance from a multiple of
uplinks / k. So only the class of a flow counts for the loads: the classes are coloured, then the uplinks of each class.
"""

import numpy as np

from heddle.controller.planner.exact.colouring import colour_edges
from heddle.controller.planner.ground.jit import Floats, Ints, kernel
from heddle.controller.planner.ground.loads import layers_of
from heddle.controller.planner.spread.sprayed import Sprayed

MAX_TRIED = 50_000_000
"""The limit of flows times rotations times paths that a greedy tries, in some 0.3 s."""


def spaced_paths(found: Sprayed) -> Ints | None:
    """Return other planned paths for equal flows with equally spaced sets; None where classes do not apply.

    Only for two tiers without parallel cables, and for flows of one phase.
    """
    topology, rotations, flows, hops = found.topology, found.rotations, found.flows, found.hops
    columns, paths = rotations.columns, int(found.paths.max(initial=1))
    rows = np.flatnonzero(hops[:, 0] >= 0)
    if rotations.core_link.size or rotations.uplink.shape[2] > 1 or columns % paths or not len(rows):
        return None
    demand, phase = flows.demand_bps[rows], flows.phase[rows]
    if (demand != demand[0]).any() or (phase != phase[0]).any():
        return None
    leaf_row = np.full(len(topology.switch_ids), -1, dtype=np.int64)
    leaf_row[topology.lower[rotations.uplink[:, 0, 0]]] = np.arange(len(rotations.uplink))
    source, target = (leaf_row[topology.nic_leaf[nic[rows]]] for nic in (flows.src_nic, flows.dst_nic))
    classes, leaves = columns // paths, len(rotations.uplink)
    column = colour_edges(source, target, leaves, classes)
    for number in range(classes):
        mine = np.flatnonzero(column == number)
        if len(mine):
            column[mine] += classes * colour_edges(source[mine], target[mine], leaves, paths)
    other = hops.copy()
    other[rows, 0] = rotations.uplink[source, column, 0]
    other[rows, 1] = rotations.uplink[target, column, 0] + topology.cables
    return other


def greedy_paths(found: Sprayed) -> Ints | None:
    """Return other planned paths for flows of any demand: each is the rotation whose set is the least full, in turn.

    The largest flows choose first. None for several phases or lists, and where that takes too long.
    """
    rows = np.flatnonzero(found.split & (found.hops[:, 0] >= 0))
    lists = [entries for entries, _ in found.sets.rows_by_list(rows)]
    count = found.rotations.count
    work = len(rows) * count * (len(lists[0]) if lists else 0)
    work = max(work, count * found.topology.first_nic_link)
    if len(lists) != 1 or work > MAX_TRIED or not layers_of(found.flows).one_per_job:
        return None
    table = np.stack([found.rotations.links(rotation) for rotation in range(count)])
    others = np.where(found.split, 0, found.flows.demand_bps)
    loads = found.loads(others)[: found.topology.first_nic_link].copy()
    inverse = 1.0 / np.maximum(found.topology.capacity[: len(loads)], 1)
    order = rows[np.argsort(-found.flows.demand_bps[rows], kind="stable")]
    set_of = np.array([[_sum(found, a, int(b)) for b in lists[0]] for a in range(count)], dtype=np.int64)
    part = found.flows.demand_bps / len(lists[0])
    chosen = _greedy(order, found.hops, part, table, set_of, (loads, inverse))
    other = found.hops.copy()
    for rotation in np.unique(chosen).tolist():
        mine = order[chosen == rotation]
        other[mine] = found.rotations.links(rotation)[found.hops[mine]]
    return other


def _sum(found: Sprayed, one: int, other: int) -> int:
    """Return the rotation that two of them make, one after the other."""
    rotations = found.rotations
    (up, core), (more_up, more_core) = rotations.shifts(one), rotations.shifts(other)
    planes, parallel = rotations.uplink.shape[1:]
    plane = (up // parallel + more_up // parallel) % planes
    place = (up % parallel + more_up % parallel) % parallel
    return int(plane * parallel + place) + rotations.columns * ((core + more_core) % rotations.cores)


@kernel
def _greedy(
    order: Ints, hops: Ints, part: Floats, table: Ints, set_of: Ints, links: tuple[Floats, Floats]
) -> Ints:  # fmt: skip
    """Return the rotation of each flow in `order` whose set costs the least: the fourth powers of utilisations."""
    loads, inverse = links
    chosen = np.zeros(order.shape[0], np.int64)
    for place in range(order.shape[0]):
        f, least = order[place], np.inf
        for rotation in range(set_of.shape[0]):
            cost = 0.0
            for entry in range(set_of.shape[1]):
                for column in range(hops.shape[1]):
                    if hops[f, column] >= 0:
                        link = table[set_of[rotation, entry], hops[f, column]]
                        cost += ((loads[link] + part[f]) * inverse[link]) ** 4
            if cost < least:
                chosen[place], least = rotation, cost
        for entry in range(set_of.shape[1]):
            for column in range(hops.shape[1]):
                if hops[f, column] >= 0:
                    loads[table[set_of[chosen[place], entry], hops[f, column]]] += part[f]
    return chosen

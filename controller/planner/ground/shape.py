"""Recognise a regular Clos fabric among the leaves that flows use, where edge colouring is exact.

A table of uplinks has a row per leaf and a column per cable; the same column leads every leaf to the same switch at
the same rate. Parallel cables are further columns. `search.balance` handles leaves whose
tables differ, through failures or by design.
"""

from dataclasses import dataclass

import numpy as np

from heddle.controller.planner.ground.clos import NO_LINK, Live, Topology
from heddle.controller.planner.ground.jit import Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoTier:
    """Leaves whose uplinks all lead to the same switches: `uplink[row, colour]` is a cable."""

    uplink: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThreeTier:
    """Pods whose aggregation switches lie in planes: a plane is one set of cores.

    `uplink[row, colour]` is a leaf's cable, `plane_of[colour]` its plane, `pod[row]` the leaf's pod and
    `core_link[pod, plane, core colour]` a cable from the pod's switch of that plane.
    """

    uplink: Ints
    plane_of: Ints
    pod: Ints
    core_link: Ints


Shape = TwoTier | ThreeTier


def shape_of(topology: Topology, live: Live, leaves: Ints) -> Shape | None:
    """Return the shape of the fabric above the given leaves; None where it is irregular or of uneven capacity."""
    uplink = _uplink_table(topology, live, leaves)
    if uplink is None:
        return None
    above = topology.upper[uplink]
    if (above == above[0]).all():
        return TwoTier(uplink=uplink)
    return _three_tier(topology, live, uplink)


def _uplink_table(topology: Topology, live: Live, switches: Ints) -> Ints | None:
    """Return the live uplinks, a row per switch ordered by upper switch and port; None where rows differ in length."""
    wanted = np.full(len(topology.switch_ids), NO_LINK, dtype=np.int64)
    wanted[switches] = np.arange(len(switches))
    cables = np.flatnonzero(live.links[: topology.cables] & (wanted[topology.lower] >= 0))
    row = wanted[topology.lower[cables]]
    counts = np.bincount(row, minlength=len(switches))
    if not len(cables) or (counts != counts[0]).any():
        return None
    upper, port = topology.upper[cables], topology.lower_port[cables]
    # Generated fabrics are in this order already, and sorting would take most of the time.
    later = (np.diff(row) > 0) | (np.diff(row) == 0) & (
        (np.diff(upper) > 0) | (np.diff(upper) == 0) & (np.diff(port) > 0)
    )
    ordered = cables if later.all() else cables[np.lexsort((port, upper, row))]
    table: Ints = ordered.reshape(len(switches), -1)
    capacity = topology.cable_capacity[table]
    return None if (capacity != capacity[0]).any() or not capacity.all() else table


def _three_tier(topology: Topology, live: Live, uplink: Ints) -> ThreeTier | None:
    """Return the shape of a three-tier fabric with these uplinks; None where it is irregular."""
    above = topology.upper[uplink]
    if (topology.tier[above] != 1).any():
        return None
    pods: dict[tuple[int, ...], int] = {}
    pod = np.array([pods.setdefault(tuple(row), len(pods)) for row in above.tolist()], dtype=np.int64)
    members = [sorted(set(row)) for row in pods]
    if any(len(switches) != len(members[0]) for switches in members):
        return None
    core_table = _uplink_table(
        topology, live, np.array([switch for switches in members for switch in switches], dtype=np.int64)
    )
    if core_table is None or not (_even(topology, uplink) and _even(topology, core_table)):
        return None
    return _in_planes(topology, uplink, pod, members, core_table)


def _in_planes(
    topology: Topology, uplink: Ints, pod: Ints, members: list[list[int]], core_table: Ints
) -> ThreeTier | None:
    """Order each pod's switches by the cores they reach; None where the pods' sets of cores differ."""
    width = len(members[0])
    plane_of_switch = np.zeros(len(topology.switch_ids), dtype=np.int64)
    core_link = np.empty((len(members), width, core_table.shape[1]), dtype=np.int64)
    first: list[tuple[int, ...]] | None = None
    for number, switches in enumerate(members):
        rows = {switch: core_table[number * width + i] for i, switch in enumerate(switches)}
        cores = {switch: tuple(topology.upper[row].tolist()) for switch, row in rows.items()}
        ordered = sorted(switches, key=lambda switch: (cores[switch], switch))
        first = first or [cores[switch] for switch in ordered]
        if [cores[switch] for switch in ordered] != first:
            return None
        for plane, switch in enumerate(ordered):
            plane_of_switch[switch] = plane
            core_link[number, plane] = rows[switch]
    planes = plane_of_switch[topology.upper[uplink]]
    order = np.argsort(planes, axis=1, kind="stable")
    planes = np.take_along_axis(planes, order, axis=1)
    if (planes != planes[0]).any():
        return None
    uplink = np.take_along_axis(uplink, order, axis=1)
    return ThreeTier(uplink=uplink, plane_of=planes[0].copy(), pod=pod, core_link=core_link)


def _even(topology: Topology, table: Ints) -> bool:
    """Return whether all cables of a table have the same capacity."""
    capacity = topology.cable_capacity[table]
    return bool((capacity == capacity.flat[0]).all())

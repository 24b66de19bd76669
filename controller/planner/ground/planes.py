"""Split flows among the planes in which both of their NICs have a port: docs/contract.md, "Planes".

A part of a flow in a plane is a row of its own, from port to port. Its demand is the flow's by what each plane has
left: the rate of its ports, times the part of it that live uplinks of both leaves, and of both pods, carry for all
NICs below them. Which rows there are follows from the request and the fabric alone, whatever has failed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heddle.controller.model.fabric import Nic
from heddle.controller.planner.ground.clos import NO_LINK, Live, Topology
from heddle.controller.planner.ground.jit import Floats, Ints

MAX_WEIGHT = 1 << 20
"""Weights above it are rounded, so that products with demands fit 63 bits."""


class Parts(NamedTuple):
    """The parts of flows, flow by flow: the row of the flow, the ports, the weight and the sum of those of its flow.

    `first` has the first part of each flow, and the number of parts at its end.
    """

    flow: Ints
    source: Ints
    target: Ints
    weight: Ints
    whole: Ints
    first: Ints


def ports_by_plane(topology: Topology, ranks: Sequence[tuple[Nic, ...]]) -> Ints:
    """Return the number of the port of each rank in each plane: a row a rank, NO_LINK for none."""
    planes = 1 + max((port.plane for ports in ranks for port in ports), default=0)
    found = np.full((len(ranks), planes), NO_LINK, dtype=np.int64)
    for row, ports in enumerate(ranks):
        for port in ports:
            found[row, port.plane] = topology.nic_index[port.id]
    return found


def rates_of(topology: Topology, live: Live, ports: Ints) -> Ints:
    """Return the rate of each rank in bit/s: of its ports in use, but for those of leaves whose cables up all failed.

    That of all its ports where none is left.
    """
    cables, lower = live.links[: topology.cables], topology.lower
    built, alive = (np.bincount(lower[up], minlength=len(topology.tier)) for up in (cables | True, cables))
    cut_off = (built > 0) & (alive == 0)
    left = np.where(cut_off[topology.nic_leaf], 0, _in_use(topology, live))
    found, every = (np.where(ports >= 0, rate[ports], 0).sum(axis=1) for rate in (left, topology.nic_capacity))
    return np.asarray(np.where(found > 0, found, every), dtype=np.int64)


def _in_use(topology: Topology, live: Live) -> Ints:
    """Return the rate of every port in bit/s, 0 for those that are out of use."""
    into = topology.first_nic_link
    return np.asarray(np.where(live.links[into : into + topology.nics], topology.nic_capacity, 0), dtype=np.int64)


def parts_of(topology: Topology, live: Live, source: Ints, target: Ints) -> Parts:
    """Return the parts of flows, whose NICs have these ports by plane: a row a flow, and at least one plane in common.

    Where no plane has anything left, all have the same weight.
    """
    flow, plane = np.nonzero((source >= 0) & (target >= 0))
    first = np.searchsorted(flow, np.arange(len(source) + 1)).astype(np.int64)
    here, there = source[flow, plane], target[flow, plane]
    weight, count = _left_bps(topology, live, here, there), np.diff(first)
    weight[np.repeat(np.maximum.reduceat(weight, first[:-1]) == 0, count)] = 1
    weight //= np.repeat(np.gcd.reduceat(weight, first[:-1]), count)
    weight //= np.repeat(-(-np.maximum.reduceat(weight, first[:-1]) // MAX_WEIGHT), count)
    whole = np.repeat(np.add.reduceat(weight, first[:-1]), count)
    return Parts(flow.astype(np.int64), here, there, weight, whole, first)


def _left_bps(topology: Topology, live: Live, source: Ints, target: Ints) -> Ints:
    """Return what the plane of two ports has left for a flow between them, in bit/s."""
    rate, leaf = _in_use(topology, live), topology.nic_leaf
    here, there = leaf[source], leaf[target]
    part = np.ones(len(source))
    for around, upper_tier in ((np.arange(len(topology.tier)), None), (topology.pod, 2)):
        left = _part_left(topology, live, around, upper_tier)
        one, other = around[here], around[there]
        part = np.where(one == other, part, np.minimum(part, np.minimum(left[one], left[other])))
    found = np.floor(np.minimum(rate[source], rate[target]) * part).astype(np.int64)
    if live.reach is not None:
        found[~live.reach[here, there]] = 0
    return found


def _part_left(topology: Topology, live: Live, around: Ints, upper_tier: int | None) -> Floats:
    """Return the part of their NICs' rates, at most 1, that live cables up carry out of leaves, or out of pods."""
    count, lower = len(topology.tier), topology.lower
    up = live.links[: topology.cables] & (
        topology.tier[lower] == 0 if upper_tier is None else topology.tier[topology.upper] == upper_tier
    )
    carried = np.bincount(around[lower[up]], weights=topology.cable_capacity[up], minlength=count)
    asked = np.bincount(around[topology.nic_leaf], weights=topology.nic_capacity, minlength=count)
    return np.minimum(1.0, carried / np.maximum(asked, 1.0))

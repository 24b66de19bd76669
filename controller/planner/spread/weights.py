"""Weigh the paths of sprayed flows where equal parts leave some links fuller than they need be.

The parts descend along the p-norm of the utilisations: a flow moves load from the path that costs the most to the one
that costs the least, until both cost the same, for rising p. The parts become entries: a path with a weight is in the
list as often as it weighs, evenly spread.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.clos import NO_LINK
from heddle.controller.planner.ground.jit import Floats, Ints, bare_kernel, kernel
from heddle.controller.planner.ground.loads import layers_of
from heddle.controller.planner.ground.path_sets import ALONE, PathSets
from heddle.controller.planner.spread.sprayed import Sprayed

POWERS = (8.0, 24.0, 64.0, 160.0, 400.0)
ROUNDS = 40
BISECTIONS = 10
LENGTHS = (64, 128, 256)
"""The lengths of lists, of which the shortest is taken that is within `NEAR` of the best."""
NEAR = 1.005
WORTH = 1.002
"""Lists of equal parts stay where weights lower the fullest link by less."""
CLOSE = 1.0005
"""The descent ends this near to the goal."""
MAX_ENTRIES = 100_000
"""The limit of paths that are weighed, which take half a second."""


class Choices(NamedTuple):
    """The paths of flows: those of flow f are `begin[f]` to `begin[f + 1]`; `links` has a row for each, -1: none."""

    begin: Ints
    rotation: Ints
    links: Ints


def weighed(found: Sprayed, goal: float) -> Sprayed:
    """Return the same paths with weights, where that lowers the fullest link, and it is above `goal`."""
    before = found.worst()
    rows = np.flatnonzero(found.split & (found.hops[:, 0] >= 0))
    entries = int(found.sets.length[rows].sum())
    if before <= goal * WORTH or not 0 < entries <= MAX_ENTRIES or not layers_of(found.flows).one_per_job:
        return found
    choices, first = _choices(found, rows), found.topology.first_nic_link
    parts = np.repeat(1.0 / np.diff(choices.begin), np.diff(choices.begin))
    demand = found.flows.demand_bps[rows].astype(np.float64)
    others = found.flows.demand_bps.copy()
    others[rows] = 0
    inverse = 1.0 / np.maximum(found.topology.capacity[:first], 1)
    part = Parts(choices.links, parts, found.loads(others)[:first].copy(), inverse)
    for power in POWERS:
        if _descend(choices.begin, demand, part, power, ROUNDS) <= goal * CLOSE:
            break
    best, fullest = found, before
    for length in LENGTHS:
        count = _rounded(choices.begin, demand, part._replace(loads=part.loads.copy()), length)
        other = replace(found, sets=_lists(found, rows, choices, count, length))
        after = other.worst()
        if after * NEAR < fullest:
            best, fullest = other, after
    return best if fullest * WORTH < before else found


def _choices(found: Sprayed, rows: Ints) -> Choices:
    """Return the different entries of each flow in rising order, and their links."""
    length = found.sets.length[rows]
    flow, rotation = np.repeat(np.arange(len(rows)), length), found.sets.flat(rows)
    flow, rotation = np.unique(np.stack((flow, rotation)), axis=1)
    links = np.full((len(flow), found.hops.shape[1]), NO_LINK, dtype=np.int64)
    order = np.argsort(rotation, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(rotation[order])) + 1):
        links[mine] = found.rotations.links(int(rotation[mine[0]]))[found.hops[rows[flow[mine]]]]
    begin = np.searchsorted(flow, np.arange(len(rows) + 1)).astype(np.int64)
    return Choices(begin, rotation, links)


class Parts(NamedTuple):
    """The links of each path, its part of its flow, and the load in bit/s and inverse capacity of each link."""

    links: Ints
    parts: Floats
    loads: Floats
    inverse: Floats


@bare_kernel
def _cost(part: Parts, choice: int, more: float, scale: float, power: float) -> float:
    """Return what more load on a path costs, with `more` bit/s on it already."""
    cost = 0.0
    for column in range(part.links.shape[1]):
        link = part.links[choice, column]
        if link >= 0:
            used = max(part.loads[link] + more, 0.0) * part.inverse[link] * scale
            cost += used ** (power - 1) * part.inverse[link]
    return cost


@bare_kernel
def _add(part: Parts, choice: int, bps: float) -> None:
    """Add load to the links of a path."""
    for column in range(part.links.shape[1]):
        if part.links[choice, column] >= 0:
            part.loads[part.links[choice, column]] += bps


@bare_kernel
def _shift(part: Parts, high: int, low: int, bps: float, scale: float, power: float) -> None:
    """Move load from one path of a flow to another until they cost the same."""
    least, most = 0.0, part.parts[high]
    for _ in range(BISECTIONS):
        middle = 0.5 * (least + most)
        falls = _cost(part, high, -middle * bps, scale, power)
        if falls > _cost(part, low, middle * bps, scale, power):
            least = middle
        else:
            most = middle
    part.parts[high] -= least
    part.parts[low] += least
    _add(part, high, -least * bps)
    _add(part, low, least * bps)


@bare_kernel
def _scale(part: Parts) -> float:
    """Return the inverse of the largest utilisation."""
    fullest = 0.0
    for link in range(part.loads.shape[0]):
        fullest = max(fullest, part.loads[link] * part.inverse[link])
    return 1.0 / fullest if fullest > 0 else 1.0


@kernel
def _descend(begin: Ints, demand: Floats, part: Parts, power: float, rounds: int) -> float:
    """Lower the p-norm of the utilisations; return the largest. Before and after, `loads` are those of other flows."""
    for f in range(demand.shape[0]):
        for choice in range(begin[f], begin[f + 1]):
            _add(part, choice, part.parts[choice] * demand[f])
    for _ in range(rounds):
        scale = _scale(part)
        for f in range(demand.shape[0]):
            low, high, least, most = -1, -1, np.inf, -1.0
            for choice in range(begin[f], begin[f + 1]):
                cost = _cost(part, choice, 0.0, scale, power)
                if cost < least:
                    low, least = choice, cost
                if cost > most and part.parts[choice] > 1e-9:
                    high, most = choice, cost
            if high >= 0 and high != low and most > least:
                _shift(part, high, low, demand[f], scale, power)
    fullest = 1.0 / _scale(part)
    for f in range(demand.shape[0]):
        for choice in range(begin[f], begin[f + 1]):
            _add(part, choice, -part.parts[choice] * demand[f])
    return fullest


@kernel
def _rounded(begin: Ints, demand: Floats, part: Parts, length: int) -> Ints:
    """Return how often each path is in a list of so many entries; `loads` are those of other flows at first.

    Parts are rounded down, then each entry that is missing goes to the path whose links are the least full with it.
    """
    count = np.empty(part.parts.shape[0], np.int64)
    for f in range(demand.shape[0]):
        for choice in range(begin[f], begin[f + 1]):
            count[choice] = np.int64(part.parts[choice] * length + 1e-6)
            _add(part, choice, count[choice] * demand[f] / length)
    for f in range(demand.shape[0]):
        missing, bps = np.int64(length), demand[f] / length
        for choice in range(begin[f], begin[f + 1]):
            missing -= count[choice]
        for _ in range(missing):
            low, least = begin[f], np.inf
            for choice in range(begin[f], begin[f + 1]):
                fullest = _fullest(part, choice, bps)
                if fullest < least:
                    low, least = choice, fullest
            count[low] += 1
            _add(part, low, bps)
    return count


@bare_kernel
def _fullest(part: Parts, choice: int, more: float) -> float:
    """Return the largest utilisation of the links of a path with more load; the sum counts between equal ones."""
    fullest, total = 0.0, 0.0
    for column in range(part.links.shape[1]):
        link = part.links[choice, column]
        if link >= 0:
            used = (part.loads[link] + more) * part.inverse[link]
            fullest, total = max(fullest, used), total + used
    return fullest + 1e-3 * total


def _lists(found: Sprayed, rows: Ints, choices: Choices, count: Ints, length: int) -> PathSets:
    """Return the lists of all flows, those of `rows` with so many entries: each path as often as it counts."""
    flow = np.repeat(np.arange(len(rows)), np.diff(choices.begin))
    flow, rotation, times = np.repeat(flow, count), np.repeat(choices.rotation, count), np.repeat(count, count)
    first = np.repeat(np.cumsum(count) - count, count)
    # Entry i of n of a path stands at (i + 1/2) / n of the list.
    at = (np.arange(len(flow)) - first + 0.5) / times
    lists = np.concatenate((ALONE, rotation[np.lexsort((rotation, at, flow))]))
    begin, lengths = found.sets.begin.copy(), found.sets.length.copy()
    begin += len(lists)
    begin[rows], lengths[rows] = 1 + length * np.arange(len(rows)), length
    return PathSets(lists=np.concatenate((lists, found.sets.lists)), begin=begin, length=lengths)

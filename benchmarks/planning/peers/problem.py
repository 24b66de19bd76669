"""The input and output of a peer planner as arrays, and the table of all upward paths.

Peers use shortest paths only, as routers do: a path between two leaves turns at the lowest tier that has a switch above
both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, Live, Topology, topology_of
from heddle.controller.planner.ground.expand import Flows, expand
from heddle.controller.planner.ground.jit import Floats, Ints


class UpPaths(NamedTuple):
    """Every live path from a leaf upwards, as rows of arrays.

    The paths up from leaf number a are rows `start[a]` to `start[a + 1]`, those to the next tier first. `first` is the
    leaf's cable and `second` the next one, or -1. `top` and `middle` number upper switches, the top tier first. Leaf b
    is below upper switch t by the rows `at[b, t]` to `at[b, t] + size[b, t]`. `cables` is the number of cables: the
    directed link down a cable is its number plus that.
    """

    start: Ints
    first: Ints
    second: Ints
    top: Ints
    middle: Ints
    at: Ints
    size: Ints
    cables: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Flows between leaves (`source`, `target` are leaf numbers) over live links, beside a fixed load `base`."""

    topology: Topology
    live: Live
    flows: Flows
    source: Ints
    target: Ints
    base: Floats

    @cached_property
    def demand(self) -> Floats:
        """Return each flow's demand in bits per second."""
        return self.flows.demand_bps.astype(np.float64)

    @cached_property
    def capacity(self) -> Floats:
        """Return the capacity of every directed link between switches."""
        return self.topology.capacity[: self.topology.first_nic_link].astype(np.float64)

    @cached_property
    def leaves(self) -> Ints:
        """Return the switch of every leaf number."""
        return np.flatnonzero(self.topology.tier == 0)

    @cached_property
    def tops(self) -> int:
        """Return the number of switches in the top tier; they have the lowest numbers."""
        return int((self.topology.tier == 2).sum())

    @cached_property
    def up_paths(self) -> UpPaths:
        """Return the table of live upward paths."""
        return _up_paths(self.topology, self.live, self.leaves)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """Paths: row i carries `demand` of flow `row[i]` over `hops[i]` (directed links, padded with -1)."""

    row: Ints
    demand: Floats
    hops: Ints

    @staticmethod
    def of(problem: Problem, hops: Ints) -> "Answer":
        """Return the answer that gives every flow one path."""
        return Answer(row=np.arange(len(problem.flows), dtype=np.int64), demand=problem.demand, hops=hops)

    def loads(self, problem: Problem) -> Floats:
        """Return the load of every directed link between switches, including `base`."""
        loads = problem.base.copy()
        for column in range(self.hops.shape[1]):
            on = self.hops[:, column] >= 0
            loads += np.bincount(self.hops[on, column], weights=self.demand[on], minlength=len(loads))
        return loads

    def max_utilisation(self, problem: Problem) -> float:
        """Return the maximum utilisation of links between switches."""
        return float((self.loads(problem) / np.maximum(problem.capacity, 1)).max(initial=0.0))


def problem_of(
    fabric: Fabric, jobs: Sequence[JobRequest], *, health: Health, base_share: Floats | None = None
) -> Problem:
    """Convert jobs on a fabric to a problem; `base_share` is the load of other traffic on each directed cable."""
    topology = topology_of(fabric)
    flows, live = expand(topology, jobs), Live.of(topology, health)
    number = np.full(len(topology.switch_ids), NO_LINK, dtype=np.int64)
    leaves = np.flatnonzero(topology.tier == 0)
    number[leaves] = np.arange(len(leaves))
    cables = topology.first_nic_link
    share = np.zeros(cables) if base_share is None else base_share
    return Problem(
        topology=topology,
        live=live,
        flows=flows,
        source=number[topology.nic_leaf[flows.src_nic]],
        target=number[topology.nic_leaf[flows.dst_nic]],
        base=np.floor(share * topology.capacity[:cables]) * live.links[:cables],
    )


def no_hops(problem: Problem) -> Ints:
    """Return an empty table with a path per flow."""
    return np.full((len(problem.flows), MAX_HOPS), NO_LINK, dtype=np.int64)


def _up_paths(topology: Topology, live: Live, leaves: Ints) -> UpPaths:
    alive = np.flatnonzero(live.links[: topology.cables])
    from_leaf = alive[topology.tier[topology.lower[alive]] == 0]
    from_middle = alive[topology.tier[topology.lower[alive]] == 1]
    from_middle = from_middle[np.argsort(topology.lower[from_middle], kind="stable")]
    begin = np.searchsorted(topology.lower[from_middle], np.arange(len(topology.switch_ids) + 1))
    middle = topology.upper[from_leaf]
    counts = begin[middle + 1] - begin[middle]
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    first = np.concatenate((from_leaf, np.repeat(from_leaf, counts)))
    second = np.concatenate((np.full(len(from_leaf), NO_LINK), from_middle[np.repeat(begin[middle], counts) + offset]))
    number = _upper_numbers(topology)
    top = number[np.where(second >= 0, topology.upper[second], topology.upper[first])]
    between = np.where(second >= 0, number[topology.upper[first]], NO_LINK)
    leaf = np.searchsorted(leaves, topology.lower[first])
    order = np.lexsort((second, first, top, second >= 0, leaf))
    leaf, top = leaf[order], top[order]
    shape = (len(leaves), int((topology.tier > 0).sum()))
    count = np.bincount(leaf * shape[1] + top, minlength=shape[0] * shape[1]).reshape(shape)
    # The rows of an upper switch are contiguous: it is of one tier, and rows are sorted by tier and switch.
    at = np.zeros(shape, dtype=np.int64)
    at.flat[(leaf * shape[1] + top)[::-1]] = np.arange(len(order))[::-1]
    start = np.searchsorted(leaf, np.arange(len(leaves) + 1)).astype(np.int64)
    columns = (first[order], second[order], top, between[order])
    rows = (np.ascontiguousarray(column, dtype=np.int64) for column in columns)
    first, second, top, middle = rows
    return UpPaths(start, first, second, top, middle, at, count, topology.cables)


def _upper_numbers(topology: Topology) -> Ints:
    """Return a number per switch above the leaves, the top tier's first."""
    number = np.full(len(topology.switch_ids), NO_LINK, dtype=np.int64)
    upper = np.concatenate([np.flatnonzero(topology.tier == tier) for tier in (2, 1)])
    number[upper] = np.arange(len(upper))
    return number

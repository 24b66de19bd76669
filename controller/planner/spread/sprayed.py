"""A plan whose flows are sprayed: what they cross, their loads, and their max-min rates.

A NIC sends a flow round robin over its list, so a path with weight w of n entries carries w / n of its rate whatever
happens on the others: the fair rate of a flow is that of its fullest link, where it counts by these parts.
"""

from dataclasses import dataclass

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.loads import utilisation
from heddle.controller.planner.ground.path_sets import PathSets, places, set_loads
from heddle.controller.planner.ground.rotations import Rotations
from heddle.controller.planner.proof.fluid import crowded_receivers

EQUAL = 1e-12
"""Levels of links within this part of each other are the same: they are quotients of floats."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sprayed:
    """Flows with their planned paths and the lists by which they are sprayed.

    `split` marks the flows that are; another one has one path, and the list 0. `paths` are asked for by each flow.
    """

    topology: Topology
    rotations: Rotations
    flows: Flows
    hops: Ints
    sets: PathSets
    split: Flags
    paths: Ints

    def sets_of(self, part: slice) -> PathSets | None:
        """Return the lists of some flows; None where none of them is sprayed."""
        return self.sets.rows(part) if self.split[part].any() else None

    def loads(self, amount: Ints | None = None) -> Floats:
        """Return the load of every directed link in bit/s; each flow adds its demand, or `amount`."""
        return set_loads(self.topology, self.rotations, self.flows, self.hops, self.sets, amount)

    def worst(self) -> float:
        """Return the largest utilisation of links between switches."""
        return float(utilisation(self.topology, self.loads())[: self.topology.first_nic_link].max(initial=0.0))

    def fullest(self, used: Floats) -> Floats:
        """Return for each flow the largest utilisation `used` of its links between switches; 0 without any."""
        found, inner = np.zeros(len(self.flows)), np.append(used[: self.topology.first_nic_link], 0.0)
        for entries, rows in self.sets.rows_by_list():
            largest = np.maximum.reduce([inner[self.rotations.links(int(each))] for each in np.unique(entries)])
            found[rows] = largest[self.hops[rows]].max(axis=1)
        return found

    def crossed(self, rows: Ints) -> Ints:
        """Return the links between switches that some flows cross, -1 among them."""
        found = [np.full(1, -1, dtype=np.int64)]
        for entries, mine in self.sets.rows_by_list(rows):
            planned = np.unique(self.hops[rows[mine]])
            found += [self.rotations.links(int(each))[planned] for each in np.unique(entries)]
        return np.unique(np.concatenate(found))

    def touched(self, tight: Flags) -> Ints:
        """Return the rows of the flows that cross a tight link."""
        first, nics = self.topology.first_nic_link, self.topology.nics
        ends = tight[first + self.flows.src_nic] | tight[first + nics + self.flows.dst_nic]
        return np.flatnonzero(ends | (self.fullest(tight.astype(np.float64)) > 0))

    def part(self, rows: Ints, tight: Flags) -> "SprayedPart":
        """Return some of the flows with the tight links that they cross, those of NICs included."""
        first, nics = self.topology.first_nic_link, self.topology.nics
        flow, link, part = [], [], []
        for nic_link in (first + self.flows.src_nic[rows], first + nics + self.flows.dst_nic[rows]):
            mine = np.flatnonzero(tight[nic_link])
            flow.append(mine)
            link.append(nic_link[mine])
            part.append(np.ones(len(mine)))
        inner = np.append(tight[:first], False)  # the last is for the padding, -1
        for entries, mine in self.sets.rows_by_list(rows) if inner.any() else ():
            numbers, count = np.unique(entries, return_counts=True)
            for rotation, times in zip(numbers.tolist(), count.tolist(), strict=True):
                taken = self.rotations.links(rotation)[self.hops[rows[mine]]]
                at, column = np.nonzero(inner[taken])
                flow.append(mine[at])
                link.append(taken[at, column])
                part.append(np.full(len(at), times / len(entries)))
        flows = np.concatenate(flow)
        order = np.argsort(flows, kind="stable")
        return SprayedPart(
            src_nic=self.flows.src_nic[rows], dst_nic=self.flows.dst_nic[rows], demand_bps=self.flows.demand_bps[rows],
            crossings=np.bincount(flows, minlength=len(rows)), link=np.concatenate(link)[order],
            part=np.concatenate(part)[order],
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SprayedPart:
    """Some flows; flow by flow the tight links that they cross, `crossings` of each, and which part crosses each."""

    src_nic: Ints
    dst_nic: Ints
    demand_bps: Ints
    crossings: Ints
    link: Ints
    part: Floats

    def rows(self, chosen: Ints) -> "SprayedPart":
        """Return some of the flows."""
        taken = _members(self.crossings, chosen)
        return SprayedPart(
            src_nic=self.src_nic[chosen], dst_nic=self.dst_nic[chosen], demand_bps=self.demand_bps[chosen],
            crossings=self.crossings[chosen], link=self.link[taken], part=self.part[taken],
        )  # fmt: skip

    def shares(self, topology: Topology, headroom: float) -> Ints:
        """Return the max-min shares of these flows, all active at once, in bit/s."""
        capacity = topology.capacity.astype(np.float64)
        crowded = crowded_receivers(self.src_nic, self.dst_nic, self.demand_bps, topology.nic_capacity)
        capacity[topology.first_nic_link + topology.nics :] *= np.where(crowded, headroom, 1.0)
        return np.floor(self._filled(capacity) + 1e-6).astype(np.int64)

    def _filled(self, left: Floats) -> Floats:
        """Return max-min rates: raise all together, freeze flows at their demand or where a link is full, repeat."""
        cap, links = self.demand_bps.astype(np.float64), len(left)
        flow = np.repeat(np.arange(len(cap)), self.crossings)
        left, rates = left.copy(), np.full(len(cap), -1.0)
        weight, count = np.bincount(self.link, self.part, links), np.bincount(self.link, minlength=links)
        while (rates < 0).any():
            level = np.full(links, np.inf)
            level[count > 0] = np.maximum(left[count > 0], 0.0) / weight[count > 0]
            lowest = level.min()
            frozen = (rates < 0) & (cap <= lowest)
            if not frozen.any():
                full = level <= lowest * (1 + EQUAL)
                frozen[flow[full[self.link]]] = True
                frozen &= rates < 0
            rates[frozen] = np.minimum(cap[frozen], lowest)
            gone = _members(self.crossings, np.flatnonzero(frozen))
            left -= np.bincount(self.link[gone], self.part[gone] * rates[flow[gone]], links)
            weight -= np.bincount(self.link[gone], self.part[gone], links)
            count -= np.bincount(self.link[gone], minlength=links)
        return rates


def _members(size: Ints, chosen: Ints) -> Ints:
    """Return the places of the members of some groups, which follow each other by group."""
    begin = np.cumsum(size) - size
    return np.repeat(begin[chosen], size[chosen]) + places(size[chosen])

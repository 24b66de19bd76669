"""Path sets of sprayed flows as columns, and the loads that they put on links.

A NIC sends a flow round robin over a list of entries. An entry is a rotation (`rotations.py`) of the flow's planned
path, so a list of a few numbers serves a whole job, and the loads of links follow from those of the planned paths.
An entry that occurs twice carries twice as much: that is how a path has a weight.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from heddle.controller.model.job import Incast, JobRequest, Steering
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.loads import LinkLoads, layers_of
from heddle.controller.planner.ground.rotations import Rotations, rotations_of

ALONE: Ints = np.zeros(1, dtype=np.int64)
"""The list of a flow that is not sprayed: its planned path."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathSets:
    """The list of each flow: `lists[begin[f] : begin[f] + length[f]]`, rotations in the order of sending."""

    lists: Ints
    begin: Ints
    length: Ints

    @staticmethod
    def of(lists: Sequence[Ints], which: Ints) -> "PathSets":
        """Return the sets of flows of which flow f has the list `lists[which[f]]`."""
        lists = lists or [ALONE]
        lengths = np.array([len(each) for each in lists], dtype=np.int64)
        begins = np.cumsum(lengths) - lengths
        return PathSets(lists=np.concatenate(lists), begin=begins[which], length=lengths[which])

    def __len__(self) -> int:
        return len(self.begin)

    def entries(self, row: int) -> Ints:
        """Return the list of a flow."""
        return self.lists[self.begin[row] : self.begin[row] + self.length[row]]

    def rows(self, chosen: Ints | slice) -> "PathSets":
        """Return some of the rows, with the lists of these alone."""
        groups = list(self.rows_by_list(chosen))
        which = np.empty(sum(len(rows) for _, rows in groups), dtype=np.int64)
        for number, (_, rows) in enumerate(groups):
            which[rows] = number
        return PathSets.of([entries for entries, _ in groups], which)

    def rows_by_list(self, chosen: Ints | slice = slice(None)) -> Iterator[tuple[Ints, Ints]]:
        """Yield each list that some of the rows have, and these rows, counted within `chosen`."""
        begin, length = self.begin[chosen], self.length[chosen]
        if not len(begin):
            return
        order = np.lexsort((length, begin))
        begin, length = begin[order], length[order]
        other = np.flatnonzero((begin[1:] != begin[:-1]) | (length[1:] != length[:-1])) + 1
        for rows in np.split(order, other):
            yield self._list(chosen, int(rows[0])), rows

    def _list(self, chosen: Ints | slice, row: int) -> Ints:
        begin = int(self.begin[chosen][row])
        return self.lists[begin : begin + int(self.length[chosen][row])]

    def equals(self, other: "PathSets | None") -> bool:
        """Return whether every flow has the same list in both."""
        if other is None or len(self) != len(other) or not np.array_equal(self.length, other.length):
            return False
        if np.array_equal(self.begin, other.begin) and np.array_equal(self.lists, other.lists):
            return True
        return np.array_equal(self.flat(), other.flat())

    def differs(self, other: "PathSets | None") -> Flags:
        """Return which flows have another list in the other sets, or are not sprayed there."""
        if other is None or len(other) != len(self):
            return np.ones(len(self), dtype=np.bool_)
        found: Flags = self.length != other.length
        same = np.flatnonzero(~found)
        if len(same):
            unequal = self.flat(same) != other.flat(same)
            length = self.length[same]
            found[same] = np.logical_or.reduceat(unequal, np.cumsum(length) - length)
        return found

    def flat(self, chosen: Ints | slice = slice(None)) -> Ints:
        """Return the lists of all flows, or of some, one after the other."""
        length = self.length[chosen]
        found: Ints = self.lists[np.repeat(self.begin[chosen], length) + places(length)]
        return found


_nic_paths: WeakKeyDictionary[Topology, Ints] = WeakKeyDictionary()


def nic_paths(topology: Topology) -> Ints:
    """Return over how many paths each NIC sprays a queue pair where a collective leaves that open."""
    built = topology.built
    if built not in _nic_paths:
        nics = built.nics_at(np.arange(built.nics))
        _nic_paths[built] = np.array([nic.paths_per_flow for nic in nics], dtype=np.int64)
    return _nic_paths[built]


def asked_paths(topology: Topology, jobs: Sequence[JobRequest], flows: Flows) -> Ints:
    """Return over how many paths each flow shall be sprayed; 1 for one path. `flows.job` counts `jobs`.

    A collective that leaves it to the NICs has the number of each sender, or of the paths that there are where these
    are fewer; one path where its flows take turns or are pinned, or the fabric is irregular.
    """
    given = np.array([one.paths_per_flow for job in jobs for one in job.collectives], dtype=np.int64)
    first = np.cumsum([0, *(len(job.collectives) for job in jobs)])
    found: Ints = given[first[flows.job] + flows.collective] if len(flows) else np.empty(0, dtype=np.int64)
    of_nic = nic_paths(topology)
    if (of_nic > 1).any() and not found.all() and (rotations := rotations_of(topology)) is not None:
        single = np.array(
            [job.steering is Steering.PIN or job.incast is Incast.WINDOWS for job in jobs], dtype=np.bool_
        )
        may = (found == 0) & ~single[flows.job] & (flows.fixed_port == 0)
        found[may] = np.minimum(of_nic[flows.src_nic[may]], rotations.count)
    return np.maximum(found, 1)


def places(length: Ints) -> Ints:
    """Return 0, 1, … for each of these lengths, one after the other."""
    ends = np.cumsum(length)
    return np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64) - np.repeat(ends - length, length)


def set_loads(
    topology: Topology, rotations: Rotations, flows: Flows, hops: Ints, sets: PathSets,
    amount: Ints | Floats | None = None,
) -> Floats:  # fmt: skip
    """Return the load of every directed link in bit/s: the sum over jobs of the job's heaviest phase there.

    Each flow adds its demand, or `amount`, split over its list.
    """
    bps, total = (flows.demand_bps if amount is None else amount).astype(np.float64), np.zeros(len(topology.capacity))
    layers = layers_of(flows)
    order = np.argsort(layers.of_flow, kind="stable")
    begins = np.searchsorted(layers.of_flow[order], np.arange(len(layers.job) + 1))
    heaviest = np.zeros(len(total))
    for number in range(len(layers.job)):
        rows = order[begins[number] : begins[number + 1]]
        np.maximum(heaviest, _loads_at_once(topology, rotations, flows, hops, sets, bps, rows), out=heaviest)
        if number + 1 == len(layers.job) or layers.job[number + 1] != layers.job[number]:
            total += heaviest
            heaviest = np.zeros(len(total))
    return total


def _loads_at_once(
    topology: Topology, rotations: Rotations, flows: Flows, hops: Ints, sets: PathSets, bps: Floats, rows: Ints
) -> Floats:
    """Return the load of every link by flows that are all active at once."""
    first, found = topology.first_nic_link, np.zeros(len(topology.capacity))
    found[first:] = np.concatenate((
        np.bincount(flows.src_nic[rows], bps[rows], topology.nics),
        np.bincount(flows.dst_nic[rows], bps[rows], topology.nics),
    ))  # fmt: skip
    few = []
    for entries, mine in sets.rows_by_list(rows):
        if 4 * len(mine) >= first // 64:
            planned = _planned(hops[rows[mine]], bps[rows[mine]], first)
            numbers, count = np.unique(entries, return_counts=True)
            carried = np.zeros(first + 1)
            for rotation, times in zip(numbers.tolist(), count.tolist(), strict=True):
                carried[rotations.links(rotation)[:-1]] += times * planned
            found[:first] += carried[:first] / len(entries)
        else:
            few.append(rows[mine])
    if few:
        found[:first] += _by_entries(rotations, hops, sets, bps, np.concatenate(few), first)
    return found


def _planned(hops: Ints, bps: Floats, links: int) -> Floats:
    """Return the loads of links between switches with all flows on their planned paths."""
    found = np.zeros(links + 1)
    for column in range(hops.shape[1]):
        found += np.bincount(np.where(hops[:, column] < 0, links, hops[:, column]), bps, links + 1)
    return found[:links]


def _by_entries(rotations: Rotations, hops: Ints, sets: PathSets, bps: Floats, rows: Ints, links: int) -> Floats:
    """Return the loads of links between switches, entry by entry."""
    found, length = np.zeros(links + 1), sets.length[rows]
    row = np.repeat(rows, length)
    rotation = sets.flat(rows)
    part = bps[row] / sets.length[row]
    order = np.argsort(rotation, kind="stable")
    begins = np.flatnonzero(np.diff(rotation[order], prepend=-1))
    for mine in np.split(order, begins[1:]):
        taken = rotations.links(int(rotation[mine[0]]))[hops[row[mine]]]
        for column in range(hops.shape[1]):
            np.add.at(found, taken[:, column], part[mine])  # the padding, -1, is the last
    return found[:links]


class SprayedLoads(LinkLoads):
    """The load in bit/s of a job with sprayed flows, by link id."""

    def __init__(self, topology: Topology, flows: Flows, hops: Ints, sets: PathSets) -> None:
        super().__init__(topology, flows, hops)
        self._sets = sets

    @cached_property
    def _by_link(self) -> dict[str, int]:
        rotations = rotations_of(self._topology)
        assert rotations is not None
        loads = set_loads(self._topology, rotations, self._flows, self._hops, self._sets)
        used = np.flatnonzero(loads > 0)
        whole = np.rint(loads[used]).astype(np.int64).tolist()
        return {self._topology.link_ids[link]: load for link, load in zip(used.tolist(), whole, strict=True)}


def job_loads(topology: Topology, flows: Flows, hops: Ints, sets: PathSets | None) -> LinkLoads:
    """Return the loads of a job with these planned paths, sprayed where it has sets."""
    return LinkLoads(topology, flows, hops) if sets is None else SprayedLoads(topology, flows, hops, sets)

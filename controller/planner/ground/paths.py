"""The paths and ports of flows as columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heddle.controller.planner.ground.clos import MAX_HOPS, Live, Topology
from heddle.controller.planner.ground.expand import Flows, expand, joined_flows
from heddle.controller.planner.ground.jit import Flags, Ints, bare_kernel, kernel
from heddle.controller.planner.ground.streams import Streams


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paths:
    """Flows with their paths and ports; all columns have a row per flow."""

    flows: Flows
    hops: Ints
    ports: Ints
    reverse_hops: Ints
    reverse_ports: Ints

    def rows(self, chosen: Flags) -> "Paths":
        """Return some of the rows."""
        return Paths(
            flows=self.flows.rows(chosen), hops=self.hops[chosen], ports=self.ports[chosen],
            reverse_hops=self.reverse_hops[chosen], reverse_ports=self.reverse_ports[chosen],
        )  # fmt: skip

    def alive(self, live: Live) -> Flags:
        """Return which flows have live links only, on their own path and on that of their ACKs."""
        first, links = live.topology.first_nic_link, np.append(live.links, True)  # the padding, -1, is the last
        ends = links[first + self.flows.src_nic] & links[first + self.flows.dst_nic]
        return ends & links[self.hops].all(axis=1) & links[self.reverse_hops].all(axis=1)

    def streams(self, topology: Topology) -> Streams:
        """Return the streams of these flows in both directions."""
        return Streams.of(topology, self.flows, self.ports, self.hops, self.reverse_ports, self.reverse_hops)


def joined_paths(parts: Sequence[Paths], topology: Topology) -> Paths:
    """Join the paths of several sources, in order."""
    parts = [part for part in parts if len(part.flows)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none, hops = expand(topology, ()), np.empty((0, MAX_HOPS), dtype=np.int64)
        return Paths(flows=none, hops=hops, ports=none.job, reverse_hops=hops, reverse_ports=none.job)
    return Paths(
        flows=joined_flows([part.flows for part in parts]),
        hops=np.concatenate([part.hops for part in parts]),
        ports=np.concatenate([part.ports for part in parts]),
        reverse_hops=np.concatenate([part.reverse_hops for part in parts]),
        reverse_ports=np.concatenate([part.reverse_ports for part in parts]),
    )


def merged_paths(flows: Flows, first: Flags, one: Paths, other: Paths) -> Paths:
    """Merge two sources into the order of `flows`: the rows marked in `first` are those of `one`, in order."""

    def merged(a: Ints, b: Ints) -> Ints:
        column = np.empty((len(first), *a.shape[1:]), dtype=np.int64)
        column[first], column[~first] = a, b
        return column

    return Paths(
        flows=flows,
        hops=merged(one.hops, other.hops),
        ports=merged(one.ports, other.ports),
        reverse_hops=merged(one.reverse_hops, other.reverse_hops),
        reverse_ports=merged(one.reverse_ports, other.reverse_ports),
    )


def differing_rows(one: Ints, other: Ints) -> Flags:
    """Return for each row whether the two have other links."""
    differs: Flags = np.empty(len(one), dtype=np.bool_)
    _mark_differing(np.ascontiguousarray(one), np.ascontiguousarray(other), differs)
    return differs


@bare_kernel
def _mark_differing(one: Ints, other: Ints, differs: Flags) -> None:
    for f in range(one.shape[0]):
        differs[f] = False
        for step in range(one.shape[1]):
            if one[f, step] != other[f, step]:
                differs[f] = True


def packed(hops: Ints) -> Ints:
    """Return rows of links with the padding, -1, at the end, where links are at any step of a row."""
    return _packed(np.ascontiguousarray(hops))


@kernel
def _packed(hops: Ints) -> Ints:
    """Return `packed` of contiguous rows."""
    rows = np.full(hops.shape, -1, np.int64)
    for f in range(hops.shape[0]):
        length = 0
        for step in range(hops.shape[1]):
            if hops[f, step] >= 0:
                rows[f, length] = hops[f, step]
                length += 1
    return rows

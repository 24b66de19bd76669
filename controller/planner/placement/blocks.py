"""Arrange the free capacity for a job of one shape: seats on hosts, hosts in blocks of leaves, blocks in zones.

A seat is room for ranks behind one NIC. A block is a set of leaves that hosts join: one leaf where every host has all
its NICs on one leaf, a group of leaves where hosts are rail-optimised or on two leaves. A zone is a set of leaves that
all reach each other over live cables; a healthy fabric is one zone.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from heddle.controller.model.placement import WHOLE_GPU_MILLI
from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.placement.free import Gpus, taken_from

MAX_ZONES = 4
"""The limit of zones of a partitioned fabric, those first whose leaves reach the most others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Room for ranks behind a NIC: `snug` on partly used GPUs, `fresh` on idle GPUs, `each` on one idle GPU."""

    nic: int
    leaf: int
    snug: int
    fresh: int
    each: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host's seats in the order of its NICs; `place` is the leaf and port of the first of them."""

    seats: tuple[Seat, ...]
    size: int
    snug: int
    leaves: tuple[int, ...]
    place: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seats:
    """All seats of a zone that have room, as columns ordered by block, host and NIC."""

    nic: Ints
    leaf: Ints
    port: Ints
    host: Ints
    snug: Ints
    fresh: Ints
    each: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """A block with room for `size` ranks, `snug` of them on partly used GPUs.

    `pod` is that of the first leaf, `load` the utilisation of all uplinks of the fullest leaf together, and `untouched`
    is true if no GPU is in use.
    """

    leaves: tuple[int, ...]
    size: int
    snug: int
    pod: int
    load: float
    untouched: bool
    seats: Seats = field(repr=False)
    rows: slice

    @cached_property
    def hosts(self) -> tuple[Host, ...]:
        """Return the hosts with room, in order of leaf and port."""
        seats, rows = self.seats, self.rows
        columns = (seats.host, seats.nic, seats.leaf, seats.port, seats.snug, seats.fresh)
        table = zip(*(column[rows].tolist() for column in columns), strict=True)
        found = [_host(list(mine), seats.each) for _, mine in groupby(table, key=lambda seat: seat[0])]
        return tuple(sorted(found, key=lambda host: host.place))


Zone = tuple[Block, ...]


def _host(seats: list[tuple[int, ...]], each: int) -> Host:
    return Host(
        seats=tuple(
            Seat(nic=nic, leaf=leaf, snug=snug, fresh=fresh, each=each) for _, nic, leaf, _, snug, fresh in seats
        ),
        size=sum(snug + fresh for *_, snug, fresh in seats),
        snug=sum(snug for *_, snug, _ in seats),
        leaves=tuple(leaf for _, _, leaf, *_ in seats),
        place=min((leaf, port) for _, _, leaf, port, *_ in seats),
    )


def zones_of(
    topology: Topology, live: Live, gpus: Gpus, room_milli: Ints, share_milli: int, loads_bps: Floats
) -> tuple[Zone, ...]:
    """Return the zones with their blocks in order of leaves, the roomiest zone first.

    `loads_bps` is the load of running jobs on each directed link.
    """
    snug, fresh, each = _ranks_of_sets(gpus, room_milli, share_milli)
    idle = np.ones(len(gpus.nics_of_set), dtype=np.bool_)
    idle[gpus.set_of[room_milli < WHOLE_GPU_MILLI]] = False
    alive = live.links[topology.first_nic_link : topology.first_nic_link + topology.nics]
    fill, pod = _uplink_fill(topology, loads_bps), _pods(topology)
    zones = []
    for leaves in _mutual_reach(topology, live):
        nic = _nic_of_sets(topology, gpus, alive & leaves[topology.nic_leaf])
        zones.append(_blocks(topology, nic, (snug, fresh, each), idle, pod, fill))
    return tuple(sorted(zones, key=lambda zone: -sum(block.size for block in zone)))


def _ranks_of_sets(gpus: Gpus, room_milli: Ints, share_milli: int) -> tuple[Ints, Ints, int]:
    """Return how many ranks fit on the partly used GPUs of each set, on its idle ones, and on one idle GPU."""
    sets = len(gpus.nics_of_set)
    snug, fresh = np.zeros(sets, dtype=np.int64), np.zeros(sets, dtype=np.int64)
    if share_milli <= WHOLE_GPU_MILLI:
        fits, idle = room_milli // share_milli, room_milli == WHOLE_GPU_MILLI
        np.add.at(snug, gpus.set_of, np.where(idle, 0, fits))
        np.add.at(fresh, gpus.set_of, np.where(idle, fits, 0))
        return snug, fresh, WHOLE_GPU_MILLI // share_milli
    for number, mine in enumerate(gpus.gpus_of_set):
        room = room_milli[mine].tolist()
        while (taken := taken_from(room, share_milli)) is not None:
            room = [free - milli for free, milli in zip(room, taken, strict=True)]
            fresh[number] += 1
    return snug, fresh, 1


def _nic_of_sets(topology: Topology, gpus: Gpus, usable: Flags) -> Ints:
    """Return the NIC to use for each set, -1 where none is usable.

    Of several NICs it is the one whose leaf serves the most sets, so that similar hosts use the same leaf.
    """
    nic = np.where(usable[gpus.first_nic], gpus.first_nic, -1) if len(gpus.first_nic) else gpus.first_nic
    if gpus.shared:
        popular = Counter(
            int(topology.nic_leaf[n]) for number in gpus.shared for n in gpus.nics_of_set[number] if usable[n]
        )
    for number in gpus.shared:
        open_ones = [n for n in gpus.nics_of_set[number] if usable[n]]
        leaf = {n: int(topology.nic_leaf[n]) for n in open_ones}
        nic[number] = min(open_ones, key=lambda n: (-popular[leaf[n]], leaf[n], n), default=-1)
    return nic


def _blocks(
    topology: Topology, nic_of_set: Ints, ranks: tuple[Ints, Ints, int], idle: Flags, pod: Ints, fill: Floats
) -> Zone:
    """Join leaves that share a host, and sort the seats by block; blocks without room are left out."""
    sets = np.flatnonzero(nic_of_set >= 0)
    nic = nic_of_set[sets]
    block = _joined_leaves(topology, nic)[topology.nic_leaf[nic]]
    used = np.bincount(block[~idle[sets]], minlength=len(topology.switch_ids)) > 0
    snug, fresh = ranks[0][sets], ranks[1][sets]
    roomy = snug + fresh > 0
    nic, block, snug, fresh = nic[roomy], block[roomy], snug[roomy], fresh[roomy]
    order = np.lexsort((nic, topology.nic_host[nic], block))
    nic, block, snug, fresh = nic[order], block[order], snug[order], fresh[order]
    seats = Seats(
        nic=nic, leaf=topology.nic_leaf[nic], port=topology.nic_port[nic], host=topology.nic_host[nic], snug=snug,
        fresh=fresh, each=ranks[2],
    )  # fmt: skip
    begins = [*np.flatnonzero(np.diff(block, prepend=-1)).tolist(), len(block)]
    found = []
    for begin, end in pairwise(begins):
        leaves = np.unique(seats.leaf[begin:end])
        found.append(
            Block(
                leaves=tuple(leaves.tolist()),
                size=int((snug[begin:end] + fresh[begin:end]).sum()),
                snug=int(snug[begin:end].sum()),
                pod=int(pod[leaves[0]]),
                load=float(fill[leaves].max()),
                untouched=not used[block[begin]],
                seats=seats,
                rows=slice(begin, end),
            )
        )
    return tuple(sorted(found, key=lambda block: block.leaves))


def _joined_leaves(topology: Topology, nic: Ints) -> Ints:
    """Return a representative leaf per switch for the leaves that hosts with these NICs join."""
    leaf, host = topology.nic_leaf[nic], topology.nic_host[nic]
    first = np.full(int(topology.nic_host.max(initial=-1)) + 1, len(topology.switch_ids), dtype=np.int64)
    np.minimum.at(first, host, leaf)
    parent = list(range(len(topology.switch_ids)))
    for one, other in np.unique(np.column_stack((first[host], leaf)), axis=0).tolist():
        parent[_root(parent, other)] = _root(parent, one)
    return np.array([_root(parent, switch) for switch in range(len(parent))], dtype=np.int64)


def _root(parent: list[int], switch: int) -> int:
    while parent[switch] != switch:
        parent[switch] = switch = parent[parent[switch]]
    return switch


def _pods(topology: Topology) -> Ints:
    """Return the pod of each switch; a fabric of two tiers is one pod."""
    return topology.pod if bool((topology.tier == 1).any()) else np.zeros(len(topology.switch_ids), dtype=np.int64)


def _uplink_fill(topology: Topology, loads_bps: Floats) -> Floats:
    """Return the utilisation of all uplinks of each switch together, in the fuller direction."""
    size, cables = len(topology.switch_ids), topology.cables
    capacity = np.bincount(topology.lower, weights=topology.cable_capacity, minlength=size)
    up = np.bincount(topology.lower, weights=loads_bps[:cables], minlength=size)
    down = np.bincount(topology.lower, weights=loads_bps[cables : 2 * cables], minlength=size)
    return np.asarray(np.maximum(up, down) / np.maximum(capacity, 1))


def _mutual_reach(topology: Topology, live: Live) -> list[Flags]:
    """Partition the leaves greedily into sets in which each leaf reaches each other; a set is a flag per switch."""
    reach = _leaf_reach(topology, live)
    parts: list[Flags] = []
    left = list(reach)
    while left and len(parts) < MAX_ZONES:
        remaining = sum(1 << leaf for leaf in left)
        # Leaves that reach the same ones stay together; those that reach the most come first.
        kinds: dict[int, list[int]] = {}
        for leaf in left:
            kinds.setdefault(reach[leaf] & remaining, []).append(leaf)
        inside, part = 0, np.zeros(len(topology.switch_ids), dtype=np.bool_)
        for seen in sorted(kinds, key=lambda seen: (-seen.bit_count(), -len(kinds[seen]))):
            if not inside & ~seen:
                part[kinds[seen]] = True
                inside |= sum(1 << leaf for leaf in kinds[seen])
        parts.append(part)
        left = [leaf for leaf in left if not part[leaf]]
    return parts


def _leaf_reach(topology: Topology, live: Live) -> dict[int, int]:
    """Return the leaves that each leaf reaches upwards, then downwards, over live cables; bit i is switch i."""
    alive = live.links[: topology.cables]
    pairs = np.unique(np.column_stack((topology.lower[alive], topology.upper[alive])), axis=0)
    tier = topology.tier
    rising = pairs[np.argsort(tier[pairs[:, 0]], kind="stable")].tolist()
    falling = pairs[np.argsort(-tier[pairs[:, 1]], kind="stable")].tolist()
    leaves = np.flatnonzero(tier == 0).tolist()
    reach = [0] * len(tier)
    for leaf in leaves:
        reach[leaf] = 1 << leaf
    for lower, upper in rising:
        reach[upper] |= reach[lower]
    for lower, upper in falling:
        reach[lower] |= reach[upper]
    return {leaf: reach[leaf] for leaf in leaves}

"""A fabric as arrays of integers, and its live links.

Directed links are numbered: cable c upwards is c, downwards C + c, then each NIC's link into its leaf, then each
NIC's link out of it. The whole planner uses these numbers.
"""

import weakref
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from heddle.controller.model.fabric import Fabric, Nic
from heddle.controller.model.health import Health
from heddle.controller.model.planes import components
from heddle.controller.planner.ground.jit import Flags, Ints, kernel
from heddle.foundation.traffic_class import CLASS_OF_NETWORK, CLASSES

NO_LINK = -1
LEAST_PART = 1_000
"""A degraded cable keeps this part of its capacity at least, so that no load is divided by 0."""
MAX_HOPS = 4
"""A path goes up at most two tiers and down at most two."""


class Topology:
    """A fabric as immutable arrays."""

    def __init__(self, fabric: Fabric) -> None:
        """Number the switches, cables and NICs in the fabric's own order."""
        self.switch_ids = [switch.id for switch in fabric.switches]
        self.switch_index = {switch: index for index, switch in enumerate(self.switch_ids)}
        self.tier: Ints = np.array([switch.role.tier for switch in fabric.switches], dtype=np.int64)
        self.cable_ids = [cable.id for cable in fabric.cables]
        self.cable_index = {cable: index for index, cable in enumerate(self.cable_ids)}
        index = self.switch_index
        self.lower: Ints = np.array([index[cable.lower.switch] for cable in fabric.cables], dtype=np.int64)
        self.upper: Ints = np.array([index[cable.upper.switch] for cable in fabric.cables], dtype=np.int64)
        self.lower_port: Ints = np.array([cable.lower.number for cable in fabric.cables], dtype=np.int64)
        self.nic_ids = [nic.id for nic in fabric.nics]
        self.nic_index = {nic: number for number, nic in enumerate(self.nic_ids)}
        self.nic_leaf: Ints = np.array([index[nic.port.switch] for nic in fabric.nics], dtype=np.int64)
        self.nic_port: Ints = np.array([nic.port.number for nic in fabric.nics], dtype=np.int64)
        hosts: dict[str, int] = {}
        self.nic_host: Ints = np.array([hosts.setdefault(nic.host, len(hosts)) for nic in fabric.nics], dtype=np.int64)
        self.nic_ip: Ints = np.array([nic.ip for nic in fabric.nics], dtype=np.int64)
        self.cable_capacity: Ints = np.array([cable.capacity_bps for cable in fabric.cables], dtype=np.int64)
        self.nic_capacity: Ints = np.array([nic.capacity_bps for nic in fabric.nics], dtype=np.int64)
        both = (self.cable_capacity, self.cable_capacity, self.nic_capacity, self.nic_capacity)
        self.capacity: Ints = np.concatenate(both)
        self.ports_of_rank = fabric.ports_by_rank if any(nic.of for nic in fabric.nics) else None
        """The ports of each rank, where NICs have several; else a rank is the NIC of its id."""
        # A reference to the fabric would keep its own key in `_known` alive.
        self._cables, self._nics = fabric.cables, fabric.nics
        self._built: Topology | None = None

    @property
    def built(self) -> "Topology":
        """Return the fabric as built, whose numbers of links are the same: tables of flows refer to that one."""
        return self._built or self

    def lowered(self, degraded: Mapping[str, int]) -> "Topology":
        """Return the fabric with the rates in bit/s that degraded cables, by id, have left; itself where none is.

        Only loads, rates and bounds follow: the meaning of source ports is that of the fabric as built.
        """
        built = self.built
        if not degraded:
            return built
        found, capacity = copy(built), built.cable_capacity.copy()
        for cable, left_bps in degraded.items():
            at = built.cable_index[cable]
            capacity[at] = min(max(left_bps, built.cable_capacity[at] // LEAST_PART), built.cable_capacity[at])
        found.cable_capacity = capacity
        found.capacity = np.concatenate((capacity, capacity, built.nic_capacity, built.nic_capacity))
        found._built = built
        return found

    @property
    def cables(self) -> int:
        """Return the number of cables."""
        return len(self.cable_ids)

    @property
    def nics(self) -> int:
        """Return the number of NICs."""
        return len(self.nic_ids)

    def nics_at(self, numbers: Ints) -> list[Nic]:
        """Return the NICs of these numbers."""
        return [self._nics[number] for number in numbers.tolist()]

    @property
    def first_nic_link(self) -> int:
        """Return the number of the first NIC link; links of lower numbers join two switches."""
        return 2 * self.cables

    @cached_property
    def plane(self) -> Ints:
        """Return the plane of every switch: its connected component; 0 where no NIC has several ports."""
        if self.ports_of_rank is None:
            return np.zeros(len(self.switch_ids), dtype=np.int64)
        pairs = ((cable.lower.switch, cable.upper.switch) for cable in self._cables)
        return np.array(list(components(self.switch_ids, pairs).values()), dtype=np.int64)

    @cached_property
    def nic_class(self) -> Ints:
        """Return the class of the flows that each NIC sends, as a position in CLASSES."""
        number = {network: CLASSES.index(of) for network, of in CLASS_OF_NETWORK.items()}
        return np.array([number[nic.network] for nic in self._nics], dtype=np.int64)

    @cached_property
    def parallel(self) -> bool:
        """Return whether two cables join the same switches."""
        return len(np.unique(self.lower * len(self.switch_ids) + self.upper)) < self.cables

    @cached_property
    def link_ids(self) -> list[str]:
        """Return the id of every directed link."""
        down = [cable.down_link for cable in self._cables]
        return self.cable_ids + down + [nic.up_link for nic in self._nics] + [nic.down_link for nic in self._nics]

    @cached_property
    def link_index(self) -> dict[str, int]:
        """Return the number of every directed link by id."""
        return {link: number for number, link in enumerate(self.link_ids)}

    @cached_property
    def pod(self) -> Ints:
        """Return the pod of each switch: a component below the top tier; -1 for a switch of the top tier."""
        parent = list(range(len(self.switch_ids)))
        inside = np.flatnonzero(self.tier[self.upper] < 2)
        for low, high in zip(self.lower[inside].tolist(), self.upper[inside].tolist(), strict=True):
            parent[_root(parent, low)] = _root(parent, high)
        roots = np.array([_root(parent, switch) for switch in range(len(parent))], dtype=np.int64)
        return np.where(self.tier < 2, roots, -1)

    @cached_property
    def reach_when_whole(self) -> Flags | None:
        """Return `Live.reach` of the fabric without failures."""
        return _reach(self, np.ones(self.cables, dtype=np.bool_), MAX_REACH // 50)

    def mirrored(self, hops: Ints) -> Ints:
        """Return the reverse paths: rows of links, padded with -1 at the end."""
        return _mirrored(np.ascontiguousarray(hops), self.cables)


@kernel
def _mirrored(hops: Ints, cables: int) -> Ints:
    """Return each row of links reversed, with each link in the opposite direction."""
    reverse = np.empty(hops.shape, np.int64)
    for f in range(hops.shape[0]):
        length = 0
        while length < hops.shape[1] and hops[f, length] >= 0:
            length += 1
        for i in range(length):
            link = hops[f, length - 1 - i]
            reverse[f, i] = link + cables if link < cables else link - cables
        for i in range(length, hops.shape[1]):
            reverse[f, i] = -1
    return reverse


def _root(parent: list[int], switch: int) -> int:
    """Return the representative of a switch's component (union-find with path halving)."""
    while parent[switch] != switch:
        parent[switch] = parent[parent[switch]]
        switch = parent[switch]
    return switch


_known: dict[int, tuple[weakref.ref[Fabric], Topology]] = {}


def topology_of(fabric: Fabric) -> Topology:
    """Return the arrays of a fabric, built on the first call and kept as long as the fabric exists."""
    key = id(fabric)
    found = _known.get(key)
    if found is not None and found[0]() is fabric:
        return found[1]
    topology = Topology(fabric)
    _known[key] = (weakref.ref(fabric, lambda _: _known.pop(key, None)), topology)
    return topology


MAX_REACH = 200_000_000
"""The limit of cables times leaves for a table that sharpens a bound; half of it takes a second."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Live:
    """Which directed links can carry traffic: `links` has a flag for each."""

    topology: Topology
    links: Flags
    whole: bool
    switches: Flags | None = None
    """Which switches are up; None where that is not known."""

    @staticmethod
    def of(topology: Topology, health: Health) -> "Live":
        """Apply a fabric's health to its arrays."""
        alive = np.ones(len(topology.switch_ids), dtype=np.bool_)
        for switch in health.down_switches:
            alive[topology.switch_index[switch]] = False
        cables = alive[topology.lower] & alive[topology.upper]
        for cable in health.down_cables:
            cables[topology.cable_index[cable]] = False
        nics = alive[topology.nic_leaf]
        for nic in health.down_nics:
            nics[topology.nic_index[nic]] = False
        links = np.concatenate((cables, cables, nics, nics))
        return Live(topology=topology, links=links, whole=bool(links.all()), switches=alive)

    @cached_property
    def reach(self) -> Flags | None:
        """Return which switches (rows) reach which leaves (by switch number) going up, then down, over live cables.

        None where every upper switch reaches every leaf, or the table would be too large.
        """
        if self.whole:
            return self.topology.reach_when_whole
        return _reach(self.topology, self.links[: self.topology.cables], MAX_REACH)


def _reach(topology: Topology, alive: Flags, limit: int) -> Flags | None:
    """Return `Live.reach` over these cables; None where cables times leaves exceeds `limit`."""
    switches, leaves = len(topology.switch_ids), np.flatnonzero(topology.tier == 0)
    if topology.cables * len(leaves) > limit:
        return None
    start = np.zeros((switches, switches), dtype=np.bool_)
    start[leaves, leaves] = True
    packed = np.packbits(start, axis=1)  # a bit per leaf: an eighth of the memory to go through
    cables = np.flatnonzero(alive)
    lower, upper = topology.lower[cables], topology.upper[cables]
    for tier in (0, 1):
        rising = topology.tier[lower] == tier
        _join_rows(packed, upper[rising], lower[rising])
    for tier in (1, 0):
        falling = topology.tier[lower] == tier
        _join_rows(packed, lower[falling], upper[falling])
    reach = np.unpackbits(packed, axis=1, count=switches).astype(np.bool_)
    if topology.plane.any():  # no flow joins two planes, so no bound and no path depends on those
        reach |= topology.plane[:, None] != topology.plane
    return None if reach[np.unique(topology.upper)][:, leaves].all() else reach


def _join_rows(packed: npt.NDArray[np.uint8], into: Ints, of: Ints) -> None:
    """OR rows `of` into rows `into`; `ufunc.at` does the same many times slower."""
    pairs = np.sort(into * len(packed) + of)  # as one number: sorting rows takes ten times as long
    if len(pairs):
        first, second = np.divmod(pairs, len(packed))
        begins = np.flatnonzero(np.diff(first, prepend=-1))
        packed[first[begins]] |= np.bitwise_or.reduceat(packed[second], begins, axis=0)

"""Describe the fabric as built: switches, cables between tiers, NICs on leaves.

A NIC with several ports, one a plane, is as many `Nic`s, which name it in `of`.

A fabric is immutable; failures are separate, in `Health`. Ids, port numbers and the direction of link ids are those of
the public contract. Invariants (enforced by `controller.config`): ids are unique, a port is used once, a cable joins
different tiers, every NIC is on a leaf.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

from heddle.controller.model.health import Health
from heddle.controller.model.planes import components
from heddle.controller.model.port_layout import NO_RESERVE, Reserve, SteeringLayout
from heddle.controller.model.srv6_settings import DEFAULT_SRV6, Srv6
from heddle.foundation.network import Network
from heddle.foundation.traffic_class import CLASS_OF_NETWORK, TrafficClass


class Role(StrEnum):
    """The role of a switch; tiers from below: leaf, agg, spine or core."""

    LEAF = "leaf"
    AGG = "agg"
    SPINE = "spine"
    CORE = "core"

    @property
    def tier(self) -> int:
        """Return 0 for a leaf, 1 for an aggregation switch, 2 for a spine or core."""
        return {"leaf": 0, "agg": 1}.get(self.value, 2)


class SteeredBy(StrEnum):
    """What makes a flow take its planned path."""

    OPENFLOW = "openflow"
    """Rules in switches, which read the path from the flow's source port, or are pins."""
    HASH = "hash"
    """The hashes of switches that have routes only: probes find a source port that leads over the path."""
    SRV6 = "srv6"
    """The packets: each names its path by SRv6 uSIDs, and switches have constant entries for them."""


DEFAULT_STEERING = SteeredBy.OPENFLOW
"""The steering of a fabric file that names none; files and journals leave it out."""


class PortRef(NamedTuple):
    """A switch port, written `switch:number`."""

    switch: str
    number: int

    def __str__(self) -> str:
        return f"{self.switch}:{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch; `rule_budget` is its maximum number of flow rules, None for no limit."""

    id: str
    role: Role
    datapath_id: int
    rule_budget: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """A cable between two switches of different tiers; both directions have `capacity_bps`."""

    lower: PortRef
    upper: PortRef
    capacity_bps: int

    @property
    def id(self) -> str:
        """Return the name of the whole cable: the id of its link upwards."""
        return f"{self.lower}>{self.upper}"

    @property
    def up_link(self) -> str:
        """Return the directed link id from the lower tier to the upper."""
        return f"{self.lower}>{self.upper}"

    @property
    def down_link(self) -> str:
        """Return the directed link id from the upper tier to the lower."""
        return f"{self.upper}>{self.lower}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A NIC, its host and the leaf port it is plugged into; `ip` and `mac` are integers."""

    id: str
    host: str
    ip: int
    mac: int
    port: PortRef
    capacity_bps: int
    rail: int = 0
    network: Network = Network.COMPUTE
    gpus: tuple[int, ...] = ()
    nvlink_domain: str = ""
    """The NVLink domain of its host, which hosts may share; empty where the fabric file names none."""
    of: str = ""
    """The id of the NIC whose port this is, where a NIC has several; each is a `Nic` of its own. Else empty."""
    plane: int = 0
    """The plane that it is in, where a NIC has several ports: it sends to others of this plane alone. Else 0."""
    paths_per_flow: int = 1
    """The paths over which it sprays each queue pair of a collective whose `paths_per_flow` is 0."""

    @property
    def rank(self) -> str:
        """Return the id by which jobs name the NIC, with all its ports."""
        return self.of or self.id

    @property
    def traffic_class(self) -> TrafficClass:
        """Return the class of the flows that it sends."""
        return CLASS_OF_NETWORK[self.network]

    @property
    def up_link(self) -> str:
        """Return the directed link id from the NIC into its leaf."""
        return f"{self.id}>{self.port}"

    @property
    def down_link(self) -> str:
        """Return the directed link id from the leaf to the NIC."""
        return f"{self.port}>{self.id}"


class DirectedLink(NamedTuple):
    """One direction of a cable; `src` and `dst` are names of ports (`switch:number`) or ids of NICs."""

    id: str
    src: str
    dst: str
    capacity_bps: int


class DownGroup(NamedTuple):
    """Cables of one switch that lead down to the same set of leaves, in order of the switch's port numbers."""

    leaves: tuple[str, ...]
    cables: tuple[Cable, ...]


def _place(port: PortRef, of_spare: Mapping[PortRef, int]) -> int:
    """Return the number by which a port is in order among those of its switch."""
    return of_spare.get(port, port.number)


@dataclass(frozen=True, kw_only=True, repr=False)
class Fabric:
    """A whole fabric, with indices that are built on first use."""

    name: str
    switches: tuple[Switch, ...]
    cables: tuple[Cable, ...]
    nics: tuple[Nic, ...]
    failed: Health = field(default_factory=Health)
    steered_by: SteeredBy = DEFAULT_STEERING
    port_addresses: tuple[tuple[PortRef, int], ...] = ()
    """IPv4 addresses of switch ports, where the fabric file lists them; `model.port_addresses` has those that count."""
    reserve: Reserve = NO_RESERVE
    port_layout: SteeringLayout | None = None
    """What source ports mean, where a journal or recording says so; `model.steering.layout_of` returns it."""
    described: tuple[Cable, ...] = ()
    """All cables of the fabric file, where `cables` are as they were found instead (`model.found_cabling`)."""
    srv6: Srv6 = DEFAULT_SRV6
    """How packets name paths with `steering: srv6`; `model.srv6` has the addresses."""

    def __repr__(self) -> str:
        """Return one line: a fabric may have a million NICs."""
        parts = f"{len(self.switches):,} switches, {len(self.cables):,} cables, {len(self.nics):,} NICs"
        return f"<Fabric {self.name}: {parts}>"

    @cached_property
    def paths_up(self) -> int:
        """Return how many paths up from a leaf a flow has at most: the product of the choices of leaf and agg."""
        choices = dict.fromkeys(Role, 1)
        for switch in self.switches:
            choices[switch.role] = max(choices[switch.role], len(self.up_choices[switch.id]))
        return choices[Role.LEAF] * choices[Role.AGG]

    @cached_property
    def max_paths(self) -> int:
        """Return how many paths a flow has at most, parallel cables on the way down included."""
        choices = dict.fromkeys((1, 2), 1)
        for switch, groups in self.down_groups.items():
            tier = self.switch_by_id[switch].role.tier
            choices[tier] = max(choices[tier], *(len(group.cables) for group in groups), 1)
        return self.paths_up * choices[1] * choices[2]

    @cached_property
    def digest(self) -> str:
        """Return a digest of what a plan depends on: switches, cables and NICs as built, without failures."""
        # The ports' and cables' own texts would take three times as long.
        cables = ((*cable.lower, *cable.upper, cable.capacity_bps) for cable in self.cables)
        nics = ((nic.id, nic.host, *nic.port, nic.capacity_bps) for nic in self.nics)
        switches = ((switch.id, switch.role.value) for switch in self.switches)
        rails = ((nic.id, nic.rail, nic.nvlink_domain) for nic in self.nics if nic.nvlink_domain)
        ports = ((nic.id, nic.of, nic.plane) for nic in self.nics if nic.of)
        paths = ((nic.id, nic.paths_per_flow) for nic in self.nics if nic.paths_per_flow > 1)
        parts = map(repr, chain(switches, cables, nics, rails, ports, paths))
        return sha256("\n".join(parts).encode()).hexdigest()

    @cached_property
    def switch_by_id(self) -> dict[str, Switch]:
        """Return every switch under its id."""
        return {switch.id: switch for switch in self.switches}

    @cached_property
    def nic_by_id(self) -> dict[str, Nic]:
        """Return every NIC under its id."""
        return {nic.id: nic for nic in self.nics}

    @cached_property
    def ports_by_rank(self) -> Mapping[str, tuple[Nic, ...]]:
        """Return the ports of each NIC, and each port alone, under the ids by which jobs name them."""
        alone = {nic.id: (nic,) for nic in self.nics}
        return alone | self.ports_of if any(nic.of for nic in self.nics) else alone

    @cached_property
    def ports_of(self) -> dict[str, tuple[Nic, ...]]:
        """Return the ports of every NIC under its id, by which jobs name it; a NIC with one port is its own."""
        found: dict[str, list[Nic]] = {}
        for nic in self.nics:
            found.setdefault(nic.rank, []).append(nic)
        return {name: tuple(ports) for name, ports in found.items()}

    @cached_property
    def plane_of_switch(self) -> dict[str, int]:
        """Return the plane of every switch; all are in plane 0 where no NIC has several ports."""
        if not any(nic.of for nic in self.nics):
            return dict.fromkeys(self.switch_by_id, 0)
        return components(self.switch_by_id, ((cable.lower.switch, cable.upper.switch) for cable in self.cables))

    @cached_property
    def cable_by_link(self) -> dict[str, Cable]:
        """Return the cable under each of its two directed link ids."""
        return {link: cable for cable in self.cables for link in (cable.up_link, cable.down_link)}

    @cached_property
    def cable_by_port(self) -> dict[PortRef, Cable]:
        """Return the cable plugged into each switch port."""
        return {port: cable for cable in self.cables for port in (cable.lower, cable.upper)}

    @cached_property
    def nic_by_port(self) -> dict[PortRef, Nic]:
        """Return the NIC plugged into each leaf port."""
        return {nic.port: nic for nic in self.nics}

    @cached_property
    def peer_by_name(self) -> dict[str, str]:
        """Return the port or NIC at the other end of each switch port and NIC, by the names of links and samples."""
        ends = [(str(cable.lower), str(cable.upper)) for cable in self.cables]
        ends += [(nic.id, str(nic.port)) for nic in self.nics]
        return dict(ends) | {second: first for first, second in ends}

    @cached_property
    def directed_links(self) -> tuple[DirectedLink, ...]:
        """Return every directed link: of each cable up and down, then of each NIC out of it and into it."""
        found = []
        for cable in self.cables:
            lower, upper = str(cable.lower), str(cable.upper)
            found.append(DirectedLink(cable.up_link, lower, upper, cable.capacity_bps))
            found.append(DirectedLink(cable.down_link, upper, lower, cable.capacity_bps))
        for nic in self.nics:
            port = str(nic.port)
            found.append(DirectedLink(nic.up_link, nic.id, port, nic.capacity_bps))
            found.append(DirectedLink(nic.down_link, port, nic.id, nic.capacity_bps))
        return tuple(found)

    @cached_property
    def nics_of_leaf(self) -> dict[str, tuple[Nic, ...]]:
        """Return the NICs of each leaf that has any, in order of port number."""
        found: dict[str, list[Nic]] = {}
        for nic in self.nics:
            found.setdefault(nic.port.switch, []).append(nic)
        return {leaf: tuple(sorted(nics, key=lambda nic: nic.port.number)) for leaf, nics in found.items()}

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Return the ids of all leaves, in the fabric's order."""
        return tuple(switch.id for switch in self.switches if switch.role is Role.LEAF)

    @cached_property
    def up_choices(self) -> dict[str, tuple[Cable, ...]]:
        """Return each switch's cables upwards in order of its port numbers: choice i is the i-th of them.

        A cable that was found in a spare port, or in one that such a cable left, has the place that the file gives it.
        """
        found: dict[str, list[Cable]] = {switch.id: [] for switch in self.switches}
        for cable in self.cables:
            found[cable.lower.switch].append(cable)
        at = self.place_of_spare
        return {
            name: tuple(sorted(cables, key=lambda cable: _place(cable.lower, at))) for name, cables in found.items()
        }

    @cached_property
    def down_cables(self) -> dict[str, tuple[Cable, ...]]:
        """Return each switch's cables downwards in order of its port numbers; of those in spare ports as upwards."""
        found: dict[str, list[Cable]] = {switch.id: [] for switch in self.switches}
        for cable in self.cables:
            found[cable.upper.switch].append(cable)
        at = self.place_of_spare
        return {
            name: tuple(sorted(cables, key=lambda cable: _place(cable.upper, at))) for name, cables in found.items()
        }

    @cached_property
    def place_of_spare(self) -> dict[PortRef, int]:
        """Return, for each port that the file leaves free and where a cable was found, the number of that cable's port.

        The same for each port that such a cable left, where another one of its switch was found, and so on. So source
        ports keep their meaning for all cables of the switch that are not exchanged.
        """
        of_file = {port for cable in self.described for port in (cable.lower, cable.upper)}
        pairs = zip(self.described, self.cables, strict=True) if self.described else ()
        ends = [(one, two) for was, now in pairs for one, two in ((was.lower, now.lower), (was.upper, now.upper))]
        came_from = {now: was for was, now in ends if was != now}
        left = {now for now in came_from if now not in of_file}
        found: dict[PortRef, int] = {}
        while left:
            found |= {now: came_from[now].number for now in left}
            vacated = ((came_from[now], came_from.get(came_from[now])) for now in left)
            left = {now for now, was in vacated if was is not None and was.switch == now.switch and now not in found}
        return found

    @cached_property
    def leaves_below(self) -> dict[str, frozenset[str]]:
        """Return the leaves that each switch reaches by going down only (a leaf reaches itself)."""
        below: dict[str, frozenset[str]] = {}
        for switch in sorted(self.switches, key=lambda switch: switch.role.tier):
            if switch.role is Role.LEAF:
                below[switch.id] = frozenset((switch.id,))
            else:
                children = {cable.lower.switch for cable in self.down_cables[switch.id]}
                below[switch.id] = frozenset().union(*(below[child] for child in children))
        return below

    @cached_property
    def down_groups(self) -> dict[str, tuple[DownGroup, ...]]:
        """Return, per switch, which cables lead down to which leaves; every leaf below is in one group."""
        return {switch.id: self._groups_of(switch.id) for switch in self.switches if switch.role is not Role.LEAF}

    def _groups_of(self, switch: str) -> tuple[DownGroup, ...]:
        by_leaves: dict[frozenset[str], list[Cable]] = {}
        for cable in self.down_cables[switch]:
            by_leaves.setdefault(self.leaves_below[cable.lower.switch], []).append(cable)
        if sum(map(len, by_leaves)) == len(self.leaves_below[switch]):
            # The sets are disjoint, as in any regular fabric: each set of leaves is a group.
            found = (DownGroup(tuple(sorted(leaves)), tuple(cables)) for leaves, cables in by_leaves.items())
            return tuple(sorted(found, key=lambda group: group.leaves))
        return self._groups_by_leaf(switch)

    def _groups_by_leaf(self, switch: str) -> tuple[DownGroup, ...]:
        """Return the groups of a switch whose cables lead to overlapping sets of leaves."""
        cables_of: dict[str, list[Cable]] = {}
        for cable in self.down_cables[switch]:
            for leaf in self.leaves_below[cable.lower.switch]:
                cables_of.setdefault(leaf, []).append(cable)
        leaves_of: dict[tuple[str, ...], list[str]] = {}
        for leaf in sorted(cables_of):
            leaves_of.setdefault(tuple(cable.id for cable in cables_of[leaf]), []).append(leaf)
        return tuple(DownGroup(tuple(leaves), tuple(cables_of[leaves[0]])) for leaves in leaves_of.values())

"""Addresses and equal-cost routes of a routed fabric, as lines for `ip -batch`.

The ports of a cable have the addresses of the fabric file (`port_addresses`), else those of a /31 (RFC 3021) of
100.64.0.0/10 (RFC 6598). Every NIC is a /32 route, towards its leaf over all cables of equal distance: down where the
leaf is below, else up.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from heddle.controller.model.address import ip_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Cable, Fabric, PortRef
from heddle.controller.model.next_hops import next_hops
from heddle.controller.model.port_addresses import FIRST_ADDRESS, MAX_CABLES, links_by_address, numbered_addresses

GROUP_BASE = 1 << 20
"""Ids of nexthop groups begin here; those of single next hops are the cables' numbers."""


class Routing(StrEnum):
    """How a router gets and holds the next hops of a route (ip-route(8), ip-nexthop(8)); those of BGP are in routes."""

    ROUTE = "route"
    GROUP = "group"
    RESILIENT = "resilient"
    BGP = "bgp"


class Hop(NamedTuple):
    """A next hop of a router: its own port, and the neighbour's address."""

    port: PortRef
    address: int


class Routes:
    """The routes of all routers of a fabric."""

    def __init__(self, fabric: Fabric, routing: Routing) -> None:
        """Number the cables; raises InputError for more than there are addresses."""
        if len(fabric.cables) > MAX_CABLES:
            raise InputError(f"{len(fabric.cables):,} cables are more than the {MAX_CABLES:,} that have addresses")
        self._fabric, self._routing = fabric, routing

    @cached_property
    def address_of(self) -> Mapping[PortRef, int]:
        """Return the address of every port of a cable; as numbered the even one is below, the odd one above."""
        return numbered_addresses(self._fabric) | dict(self._fabric.port_addresses)

    @cached_property
    def _nexthop_id(self) -> Mapping[int, int]:
        """Return by address of a port the id of the nexthop to it."""
        numbered = numbered_addresses(self._fabric)
        return {self.address_of[port]: number - FIRST_ADDRESS + 1 for port, number in numbered.items()}

    @cached_property
    def link_at(self) -> Mapping[int, str]:
        """Return by address the directed link that ends at the port with this address: where a probe came in."""
        return links_by_address(self._fabric)

    def lines(self, switch: str, names: Mapping[PortRef, str], failed: Collection[str] = ()) -> list[str]:
        """Return the lines that replace all routes of a router around failed cables; a leaf without a path has none.

        `names` are the interfaces of ports, `failed` ids of cables.
        """
        made: dict[tuple[Hop, ...], int] = {}
        found: list[str] = []
        for leaf, nics in self._fabric.nics_of_leaf.items():
            if leaf == switch:
                continue
            hops = self.hops(switch, leaf, failed)
            if hops and self._routing is not Routing.ROUTE and hops not in made:
                made[hops] = GROUP_BASE + len(made)
                found += self._group(made[hops], hops, names)
            next_hops = " ".join(f"nexthop via {ip_text(hop.address)} dev {names[hop.port]}" for hop in hops)
            to = next_hops if self._routing is Routing.ROUTE else f"nhid {made.get(hops)}"
            for nic in nics:
                route = f"{ip_text(nic.ip)}/32"
                found.append(f"route replace {route} {to}" if hops else f"route replace unreachable {route}")
        return found

    def _group(self, number: int, hops: tuple[Hop, ...], names: Mapping[PortRef, str]) -> list[str]:
        ids = {hop: self._nexthop_id[hop.address] for hop in hops}
        kind = " type resilient buckets 64 idle_timer 5" if self._routing is Routing.RESILIENT else ""
        single = [f"nexthop replace id {ids[hop]} via {ip_text(hop.address)} dev {names[hop.port]}" for hop in hops]
        return [*single, f"nexthop replace id {number} group {'/'.join(map(str, ids.values()))}{kind}"]

    def hops(self, switch: str, leaf: str, failed: Collection[str] = ()) -> tuple[Hop, ...]:
        """Return the next hops of a router towards a leaf over live cables, by port number."""
        found = next_hops(self._fabric, switch, leaf, failed)
        return tuple(Hop(hop.own, self.address_of[hop.far]) for hop in found)


def cables_of(fabric: Fabric, switch: str) -> list[tuple[Cable, PortRef]]:
    """Return the cables of a switch with its own end of each."""
    ends = ((cable, port) for cable in fabric.cables for port in (cable.lower, cable.upper))
    return [(cable, port) for cable, port in ends if port.switch == switch]

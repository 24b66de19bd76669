"""The routes of all VPCs, in one table."""

from collections.abc import Sequence
from ipaddress import IPv4Network

import numpy as np

from heddle.dataplane.config.addresses import contains, gateway_mac, link_local, wide, wide_length
from heddle.dataplane.config.network import Address, Prefix, Vpc
from heddle.dataplane.jit import Grid
from heddle.dataplane.tables import schema
from heddle.dataplane.tables.compiler.hops import NETWORKS, Hops, words_of
from heddle.dataplane.tables.compiler.incarnations import Incarnations
from heddle.dataplane.tables.compiler.index import indexed
from heddle.dataplane.tables.compiler.links import Links, signed

HOST_BITS = 128
LENGTH_SHIFT = 8
EVERYWHERE = IPv4Network("0.0.0.0/0")


class Routes:
    """Collects routes; of two routes of a VPC for the same prefix, the first counts."""

    def __init__(self) -> None:
        self._vnis: list[int] = []
        self._lengths: list[int] = []
        self._prefixes: list[int] = []
        self._hops: list[int] = []

    def prefix(self, vni: int, prefix: Prefix, hop: int) -> tuple[int, int]:
        """Add a route to a prefix; return the IP version and the prefix length's bit for the VPC's row."""
        self._add(vni, wide_length(prefix), wide(prefix.network_address), hop)
        return prefix.version, 1 << prefix.prefixlen

    def host(self, vni: int, address: Address, hop: int) -> tuple[int, int]:
        """Add a route to one address."""
        self._add(vni, HOST_BITS, wide(address), hop)
        return address.version, 1 << address.max_prefixlen

    def _add(self, vni: int, length: int, prefix: int, hop: int) -> None:
        self._vnis.append(vni)
        self._lengths.append(length)
        self._prefixes.append(prefix)
        self._hops.append(hop)

    def table(self) -> Grid:
        """Return `Tables.routes`."""
        first = np.array(self._vnis, dtype=np.int64) << LENGTH_SHIFT | np.array(self._lengths, dtype=np.int64)
        return indexed(np.stack([first, *words_of(self._prefixes)], axis=1), np.array(self._hops, dtype=np.int64))


def route_vpc(
    routes: Routes,
    hops: Hops,
    links: Links,
    row: int,
    vpcs: Sequence[Vpc],
    peers: Sequence[int],
    incarnations: Incarnations,
) -> list[int]:
    """Add the routes of the VPC in row `row`; the rows of its peers are `peers`.

    Returns:
        The masks of prefix lengths for its row: IPv4; IPv6 below 64; IPv6 from 64 on.
    """
    vpc = vpcs[row]
    found = [*_own(routes, hops, row, vpc), *_customers(routes, hops, links, vpc, incarnations)]
    for peer in peers:
        hop = hops.peer(peer, vpcs[peer].vni, incarnations.peering(vpc.id, vpcs[peer].id))
        found += [routes.prefix(vpc.vni, subnet.prefix, hop) for subnet in vpcs[peer].subnets]
    taken = [subnet.prefix for each in (row, *peers) for subnet in vpcs[each].subnets]
    taken += [connect.customer for connect in vpc.direct_connects]
    found += _provider(routes, hops, links, vpc, taken)
    found += _external(routes, hops, links, vpc, taken)
    masks = {4: 0, 6: 0}
    for version, bit in found:
        masks[version] |= bit
    return [masks[4], signed(masks[6]), signed(masks[6] >> 64)]  # length 128 has no bit: it is always searched


def _own(routes: Routes, hops: Hops, row: int, vpc: Vpc) -> list[tuple[int, int]]:
    """Route to the gateway's own addresses, and discard unassigned addresses of the VPC's subnets."""
    here = hops.local(row, vpc.vni)
    found = [routes.host(vpc.vni, subnet.gateway, here) for subnet in vpc.subnets]
    if any(subnet.prefix.version == 6 for subnet in vpc.subnets):
        found.append(routes.host(vpc.vni, link_local(gateway_mac(vpc.vni)), here))
    return found + [routes.prefix(vpc.vni, subnet.prefix, hops.discard()) for subnet in vpc.subnets]


def _customers(routes: Routes, hops: Hops, links: Links, vpc: Vpc, incarnations: Incarnations) -> list[tuple[int, int]]:
    if links.customer is None:
        return []
    found = []
    for connect in vpc.direct_connects:
        router = links.to(links.customer, connect.next_hop, connect.vlan)
        word = incarnations.connect(vpc, connect)
        hop = hops.neighbour(schema.CUSTOMER, router, vlan=connect.vlan, incarnation=word)
        found.append(routes.prefix(vpc.vni, connect.customer, hop))
    return found


def _provider(routes: Routes, hops: Hops, links: Links, vpc: Vpc, taken: Sequence[Prefix]) -> list[tuple[int, int]]:
    """Route to the provider's networks, past the border firewall."""
    if links.provider is None:
        return []
    found = []
    for network in links.providers:
        realm = NETWORKS.index(network.realm)
        for prefix in network.prefixes:
            if any(contains(mine, prefix) for mine in taken):
                continue
            for address, neighbour in links.on_link(links.provider):
                if address in prefix and not any(address in mine for mine in taken):
                    hop = hops.neighbour(schema.PROVIDER, neighbour, realm=realm)
                    found.append(routes.host(vpc.vni, address, hop))
            hop = hops.neighbour(schema.PROVIDER, links.to_router(links.provider), realm=realm)
            found.append(routes.prefix(vpc.vni, prefix, hop))
    return found


def _external(routes: Routes, hops: Hops, links: Links, vpc: Vpc, taken: Sequence[Prefix]) -> list[tuple[int, int]]:
    """Route to the internet, if the VPC has a public address."""
    if links.external is None or not (vpc.nat or vpc.floating_ips):
        return []
    kept = [*taken, *(prefix for network in links.providers for prefix in network.prefixes)]
    found = []
    for address, neighbour in links.on_link(links.external):
        if not any(address in prefix for prefix in kept):
            found.append(routes.host(vpc.vni, address, hops.neighbour(schema.EXTERNAL, neighbour)))
    hop = hops.neighbour(schema.EXTERNAL, links.to_router(links.external))
    return [*found, routes.prefix(vpc.vni, EVERYWHERE, hop)]

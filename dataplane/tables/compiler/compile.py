"""Compile a gateway's configuration into the tables that its data process reads. Pure: the same input, the same arrays.

Decisions beyond the configuration itself:

- Each VPC's own addresses have precedence: its subnets (an unassigned address in them is discarded, never routed on),
  its customers' networks and its peers' subnets hide prefixes of the provider within them.
- The gateway's addresses in a VPC are routes of full length, kind LOCAL; with an IPv6 subnet also the link-local one.
- A border rule becomes one row for each prefix of its network that it overlaps, so that a row matches nothing outside
  of its network; prefixes of different networks do not overlap (`config.check_local`).
- The MAC of a VTEP, router or customer is `neighbours[link, address]`, with the link number of `link_of(port, vlan)`;
  while it is missing, `resolved` is 0. Towards the internet and the provider's networks, each neighbour on the port's
  own network has a host route; all other traffic goes to the router. Without a router the hop's `address` is 0: the
  packet's own target is resolved.
- All underlay ports are used; of the other sides the first port of each.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address

import numpy as np

from heddle.dataplane.cache_lines import at_a_line
from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.config.balancers import VirtualIp
from heddle.dataplane.config.check_local import local_problems
from heddle.dataplane.config.check_served import served_problems
from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.config.network import Address, NetworkConfig, Vpc
from heddle.dataplane.jit import Grid, Ints, Rows
from heddle.dataplane.tables import schema
from heddle.dataplane.tables.compiler.hops import NETWORKS, Hops
from heddle.dataplane.tables.compiler.incarnations import Incarnations
from heddle.dataplane.tables.compiler.index import indexed
from heddle.dataplane.tables.compiler.links import Links, link_of
from heddle.dataplane.tables.compiler.outside import Outside, grid
from heddle.dataplane.tables.compiler.routes import Routes, route_vpc
from heddle.dataplane.tables.compiler.rules import Rules
from heddle.dataplane.tables.schema import Tables

__all__ = ["compile_tables", "link_of"]


def compile_tables(
    local: LocalConfig,
    network: NetworkConfig,
    *,
    neighbours: Mapping[tuple[int, Address], int],
    generation: int,
    active: bool = True,
    partners: Sequence[IPv4Address] = (),
    virtual_ips: Sequence[VirtualIp] = (),
    taken_vtep: IPv4Address | None = None,
) -> Tables:
    """Return one generation of tables.

    Args:
        local: the gateway itself.
        network: the network that it serves; valid (`config.check`), as the controller sends no other.
        neighbours: MACs by link and address.
        generation: the number that the data process reports while it uses the tables.
        active: whether this gateway of a pair serves.
        partners: VTEPs of other gateways, from which packets of every VNI are accepted.
        virtual_ips: endpoints of the VPCs from whose addresses their back ends may reply.
        taken_vtep: the partner's VTEP, while this gateway serves for it.

    Raises:
        ValueError: `local` is not valid, or `network` not beside it; one line for each reason.
    """
    problems = [*local_problems(local), *served_problems(local, network)]
    if problems:
        raise ValueError("\n".join(problems))
    links = Links(local, neighbours)
    hops = Hops(links, network.vpcs)
    rules = Rules(local, network)
    routes = Routes()
    incarnations = Incarnations(network)
    outside = Outside(links, network.vpcs, incarnations)
    lengths = _routed(routes, hops, links, network, incarnations)
    found = Tables(
        generation=np.array([generation], dtype=np.int64),
        own=_own(local, links, active, taken_vtep, network.generation),
        vnis=indexed(grid([(vpc.vni,) for vpc in network.vpcs], 1), np.arange(len(network.vpcs))),
        vpcs=_vpcs(local, network, rules, lengths),
        vpc_incarnations=incarnations.vpcs(),
        incarnations=incarnations.table(),
        vteps=_vteps(hops, network.vpcs, partners),
        endpoints=indexed(hops.endpoint_keys(), np.arange(hops.endpoints)),
        routes=routes.table(),
        next_hops=hops.rows(),
        templates=hops.templates,
        endpoint_vteps=hops.endpoint_vteps(),
        replies=_replies(network.vpcs, virtual_ips),
        rules=rules.rows(),
        floating_in=outside.floating_in(),
        floating_out=outside.floating_out(),
        floating=outside.floating(),
        nat_in=outside.nat_in(),
        vlans=outside.vlans(),
        customers=outside.customers(),
        ports=grid([links.port_row(port) for port in range(len(local.interfaces))], 4),
    )
    return Tables(*(at_a_line(array) for array in found))


def _routed(
    routes: Routes, hops: Hops, links: Links, network: NetworkConfig, incarnations: Incarnations
) -> list[list[int]]:
    """Add all routes; return the masks of prefix lengths, by row of a VPC."""
    row_of = {vpc.id: row for row, vpc in enumerate(network.vpcs)}
    peers: list[list[int]] = [[] for _ in network.vpcs]
    for peering in sorted(network.peerings):
        a, b = row_of[peering.a], row_of[peering.b]
        peers[a].append(b)
        peers[b].append(a)
    return [
        route_vpc(routes, hops, links, row, network.vpcs, peers[row], incarnations) for row in range(len(network.vpcs))
    ]


def _vpcs(local: LocalConfig, network: NetworkConfig, rules: Rules, lengths: Sequence[Sequence[int]]) -> Rows:
    """Return VPC rows."""
    found = np.zeros(len(network.vpcs), dtype=schema.VPC)
    ports = local.nat_ports
    users = Counter(vpc.nat for vpc in network.vpcs)
    rows = []
    for vpc, masks in zip(network.vpcs, lengths, strict=True):
        inward, outward, border = rules.of(vpc)
        nat = (int(vpc.nat), ports.first, ports.last) if vpc.nat is not None else (0, 0, 0)
        realm = NETWORKS.index(vpc.realm)
        shared = vpc.nat is not None and users[vpc.nat] > 1
        rows.append((vpc.vni, gateway_mac(vpc.vni), *masks, *inward, *outward, *nat, *border, realm, shared))
    if rows:
        found[:] = rows
    return found


def _vteps(hops: Hops, vpcs: Sequence[Vpc], partners: Sequence[IPv4Address]) -> Grid:
    """Return `Tables.vteps`."""
    others = grid([(vpc.vni, int(partner)) for vpc in vpcs for partner in partners], 2)
    keys = np.concatenate([hops.vtep_keys(), others])
    return indexed(keys, np.zeros(len(keys), dtype=np.int64))


def _replies(vpcs: Sequence[Vpc], virtual_ips: Sequence[VirtualIp]) -> Grid:
    """Return `Tables.replies`; the rows of endpoints are in the order of the VPCs (`compiler.hops`)."""
    by_vpc: dict[str, list[VirtualIp]] = {}
    for each in virtual_ips:
        by_vpc.setdefault(each.vpc, []).append(each)
    keys, first = [], 0
    for vpc in vpcs:
        if mine := by_vpc.get(vpc.id):
            found = {endpoint.ip: (row, endpoint.vtep) for row, endpoint in enumerate(vpc.endpoints, first)}
            for each in mine:
                vteps = {found[ip][1] for ip in each.back_ends if ip in found}
                keys += [(found[each.ip][0] << 32 | int(vtep),) for vtep in vteps if each.ip in found]
        first += len(vpc.endpoints)
    return indexed(grid(sorted(keys), 1), np.zeros(len(keys), dtype=np.int64))


def _own(local: LocalConfig, links: Links, active: bool, taken_vtep: IPv4Address | None, generation: int) -> Ints:
    """Return `Tables.own`."""
    timeouts = local.timeouts
    found = np.zeros(schema.OWN_WORDS, dtype=np.int64)
    found[schema.OWN_VTEP] = int(links.vtep)
    found[schema.OWN_ACTIVE] = active
    found[schema.OWN_TAKEN_VTEP] = int(taken_vtep or 0)
    found[schema.OWN_NETWORK_GENERATION] = generation
    found[schema.OWN_PORTLESS] = 1
    found[schema.OWN_UDP_TIMEOUT_S] = timeouts.udp_s
    found[schema.OWN_UDP_UNANSWERED_S] = timeouts.udp_unanswered_s
    found[schema.OWN_UDP_EXCHANGE_S] = timeouts.udp_exchange_s
    found[schema.OWN_TCP_TIMEOUT_S] = timeouts.tcp_established_s
    found[schema.OWN_TCP_TRANSITORY_S] = timeouts.tcp_transitory_s
    found[schema.OWN_ICMP_TIMEOUT_S] = timeouts.icmp_s
    found[schema.OWN_OTHER_TIMEOUT_S] = timeouts.other_s
    found[schema.OWN_FRAGMENT_TIMEOUT_S] = timeouts.fragment_s
    found[schema.OWN_PER_ENDPOINT] = local.limits.connections_per_endpoint
    found[schema.OWN_VPC_PERCENT] = local.limits.vpc_percent
    found[schema.OWN_ENDPOINT_PERCENT] = local.limits.endpoint_ports_percent
    found[schema.OWN_NAT_FIRST], found[schema.OWN_NAT_LAST] = local.nat_ports.first, local.nat_ports.last
    return found

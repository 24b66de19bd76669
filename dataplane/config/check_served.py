"""Validate virtual networks against the networks around gateways: no VPC has an address that something else there has.

Addresses in use are those of gateways' ports and their routers, and the first and last one of each network; `Reserved`
has them with their owners. The controller knows those of the gateways that have attached, a gateway its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address

from heddle.dataplane.config.addresses import contains
from heddle.dataplane.config.balancers import LoadBalancer, Mode
from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.config.network import Address, BorderRule, GatewayPort, NetworkConfig, Vpc

SMALL_PREFIX = 31
"""From this length on a prefix has no network and no broadcast address (RFC 3021)."""
Reserved = Mapping[Address, str]
"""What has an address, such as "the router of gateway gw1 on wan"."""
REMEDY = "choose an address that nothing else has"


def ports_of(local: LocalConfig) -> tuple[GatewayPort, ...]:
    """Return a gateway's ports with the addresses that are in use on their networks."""
    return tuple(
        GatewayPort(name=each.name, address=each.address, network=each.network, router=each.router)
        for each in local.interfaces
        if each.address is not None
    )


def reserved_by(gateways: Mapping[str, Iterable[GatewayPort]]) -> Reserved:
    """Return the addresses in use on the networks of these gateways, by id."""
    found: dict[Address, str] = {}
    for gateway, ports in gateways.items():
        for port in ports:
            for address, what in _in_use(port):
                found.setdefault(address, f"{what} of gateway {gateway} on {port.name}")
    return found


def _in_use(port: GatewayPort) -> Iterator[tuple[IPv4Address, str]]:
    if port.router is not None:
        yield port.router, "the router"
    if port.address is not None:
        yield port.address, "an own address"
    if port.network is not None and port.network.prefixlen < SMALL_PREFIX:
        for edge in (port.network.network_address, port.network.broadcast_address):
            yield edge, f"the network's or broadcast address of {port.network},"


def public_addresses(vpc: Vpc) -> Iterator[tuple[str, IPv4Address]]:
    """Yield the public addresses of a VPC, each with its field."""
    if vpc.nat is not None:
        yield "nat.public_ip", vpc.nat
    for i, floating in enumerate(vpc.floating_ips):
        yield f"floating_ips[{i}].public_ip", floating.public


def reserved_problems(vpc: Vpc, reserved: Reserved) -> Iterator[str]:
    """Yield one line per public address of a VPC that something else has, without the name of the VPC."""
    for field, address in public_addresses(vpc):
        if (owner := reserved.get(address)) is not None:
            yield f"{field}: {address} is {owner}; {REMEDY}"


def without_reserved(vpc: Vpc, reserved: Reserved) -> Vpc:
    """Return a VPC without the public addresses that something else has."""
    floating = tuple(each for each in vpc.floating_ips if each.public not in reserved)
    return replace(vpc, nat=None if vpc.nat in reserved else vpc.nat, floating_ips=floating)


def border_reserved_problems(rules: Sequence[BorderRule], vpcs: Mapping[str, Vpc], reserved: Reserved) -> Iterator[str]:
    """Check what border rules open: no address that a gateway, router, VTEP or VPC has, and no subnet of their VPC.

    A prefix around such an address is accepted: the gateway's tables keep the address itself apart.
    """
    for i, rule in enumerate(rules):
        if not rule.allow:
            continue
        place, remote = f"border: rules[{i}].remote_cidr: {rule.remote}", rule.remote
        if remote.prefixlen == remote.max_prefixlen and (owner := reserved.get(remote.network_address)) is not None:
            yield f"{place} is {owner}; a border rule opens addresses of the provider's networks"
        subnets = vpcs[rule.vpc].subnets if rule.vpc in vpcs else ()
        if any(contains(subnet.prefix, remote) for subnet in subnets):
            yield f"{place} is within a subnet of vpc {rule.vpc}, which has precedence; the rule would never match"


def back_end_reserved_problems(each: LoadBalancer, reserved: Reserved) -> Iterator[str]:
    """Check the back ends in the underlay: none has an address of something else."""
    if each.mode is not Mode.IP_IN_IP:
        return
    for i, end in enumerate(each.back_ends):
        if (owner := reserved.get(end.ip)) is not None:
            yield f"load balancer {each.id}: backends[{i}].ip: {end.ip} is {owner}; a back end is a machine of its own"


def served_problems(local: LocalConfig, network: NetworkConfig) -> Iterator[str]:
    """Yield one line per public address that something else on the gateway's networks has."""
    reserved = reserved_by({local.gateway_id: ports_of(local)})
    for vpc in network.vpcs:
        yield from (f"vpc {vpc.id}: {line}" for line in reserved_problems(vpc, reserved))

"""Check load balancers, VPCs and the balancers' own addresses against each other: in a VPC an address has one owner."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address

from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.model.event import GatewayUp
from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.check import floating_problems
from heddle.dataplane.config.check_balancers import load_balancer_problems
from heddle.dataplane.config.check_served import (
    Reserved,
    back_end_reserved_problems,
    border_reserved_problems,
    public_addresses,
    reserved_by,
    reserved_problems,
)
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import Address, BorderRule, Vpc

_PUBLIC = ("nat", "floating")
"""The kinds of claims that are public addresses."""


def of_vpc(networks: Networks, vpc: str) -> list[LoadBalancer]:
    """Return a VPC's load balancers."""
    return [each for each in networks.load_balancers.values() if each.vpc == vpc]


def pools_in(networks: Networks, vpc: str) -> Sequence[tuple[Address, ...]] | None:
    """Return the source addresses of each balancer in a VPC; None where no balancer is known."""
    balancers = [each for each in networks.gateways.values() if each.kind is Kind.BALANCER]
    return [each.pools.get(vpc, ()) for each in balancers] if balancers else None


def vpc_problems(networks: Networks, vpc: Vpc) -> Iterator[str]:
    """Check a changed VPC against its load balancers, and against the balancers' addresses in it."""
    pools = pools_in(networks, vpc.id)
    for each in of_vpc(networks, vpc.id):
        yield from (f"vpc {vpc.id}: {line}" for line in load_balancer_problems(each, vpc, pools))
    yield from (f"vpc {vpc.id}: {line}" for pool in pools or () for line in _taken(pool, vpc))
    yield from floating_problems(vpc, {each.vip for each in of_vpc(networks, vpc.id)})
    yield from _reserved_vpc_problems(networks, vpc)


def reserved_in(networks: Networks) -> Reserved:
    """Return the addresses in use on the networks of all known gateways."""
    return reserved_by({name: each.ports for name, each in networks.gateways.items() if each.ports})


def _reserved_vpc_problems(networks: Networks, vpc: Vpc) -> Iterator[str]:
    """Check a VPC against what gateways have, what the border opens, and what balancers send to."""
    public: Reserved = {address: "a public address of the VPC" for _, address in public_addresses(vpc)}
    lines = [*reserved_problems(vpc, reserved_in(networks) if public else {})]
    lines += border_reserved_problems(networks.border, {vpc.id: vpc}, public)
    lines += (line for each in networks.load_balancers.values() for line in back_end_reserved_problems(each, public))
    yield from (f"vpc {vpc.id}: {line}" for line in lines)


def reserved_border_problems(networks: Networks, rules: Sequence[BorderRule]) -> Iterator[str]:
    """Check the border against what gateways, hosts and VPCs have."""
    vteps: Reserved = {vtep: "a VTEP's" for each in networks.vteps.values() for vtep in each}
    return border_reserved_problems(rules, networks.vpcs, {**vteps, **_public_in(networks), **reserved_in(networks)})


def reserved_balancer_problems(networks: Networks, each: LoadBalancer) -> Iterator[str]:
    """Check a load balancer's back ends in the underlay against what gateways and VPCs have."""
    return back_end_reserved_problems(each, {**_public_in(networks), **reserved_in(networks)})


def _public_in(networks: Networks) -> Reserved:
    """Return the public addresses of all VPCs."""
    return {IPv4Address(number): "a public address of a VPC" for kind, number in networks.claims if kind in _PUBLIC}


def lost_floating_ips(networks: Networks, vpc: str) -> list[str]:
    """Return the problems of a VPC's floating IPs after a change of its load balancers."""
    known = networks.vpcs.get(vpc)
    return [] if known is None else list(floating_problems(known, {each.vip for each in of_vpc(networks, vpc)}))


def pool_problems(networks: Networks, event: GatewayUp) -> Iterator[str]:
    """Check the pools of a balancer that attaches; the members of a pair may have the same ones."""
    others = {name: each for name, each in networks.gateways.items() if name not in (event.gateway_id, event.partner)}
    for vpc_id, pool in event.pools.items():
        for name, other in others.items():
            for address in set(pool) & set(other.pools.get(vpc_id, ())):
                yield f"source_pools: vpc {vpc_id}: {address} is of the pool of {name} (forget it if it is gone)"
        vpc = networks.vpcs.get(vpc_id)
        if vpc is not None:
            yield from (f"source_pools: vpc {vpc_id}: {line}" for line in _taken(pool, vpc))
        virtual = {each.vip: each.id for each in of_vpc(networks, vpc_id)}
        for address in pool:
            if address in virtual:
                yield f"source_pools: vpc {vpc_id}: {address} is the virtual IP of load balancer {virtual[address]}"


def _taken(pool: Sequence[Address], vpc: Vpc) -> Iterator[str]:
    mine = set(pool)
    if not mine:
        return
    for i, endpoint in enumerate(vpc.endpoints):
        if endpoint.ip in mine:
            yield f"endpoints[{i}].ip: {endpoint.ip} is an address of the pool of a balancer"
    for i, subnet in enumerate(vpc.subnets):
        if subnet.gateway in mine:
            yield f"subnets[{i}].gateway_ip: {subnet.gateway} is an address of the pool of a balancer"

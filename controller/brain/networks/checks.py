"""Check changes of virtual networks, and the balancers' own addresses: in a VPC an address has one owner."""

from collections.abc import Iterator

from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.model.network_event import GatewayUp
from heddle.dataplane.config import check_change
from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.check import floating_problems
from heddle.dataplane.config.check_change import NetworkChange, Pools, View, Whole
from heddle.dataplane.config.check_served import Reserved, reserved_by
from heddle.dataplane.config.desired import Kind


def whole_of(networks: Networks) -> Whole:
    """Return what of the state is judged together."""
    return Whole(
        vpcs=networks.vpcs,
        claims=networks.claims,
        endpoints=networks.endpoints,
        peerings=networks.peerings,
        peers=networks.peers,
        load_balancers=networks.load_balancers,
        border=networks.border,
    )


def problems(before: Networks, change: NetworkChange, after: Networks, view: View) -> Iterator[str]:
    """Check the state `after` a change; that `before` it is valid."""
    yield from check_change.change_problems(whole_of(before), change, whole_of(after), view)


def of_vpc(networks: Networks, vpc: str) -> list[LoadBalancer]:
    """Return a VPC's load balancers."""
    return [each for each in networks.load_balancers.values() if each.vpc == vpc]


def pools_of(networks: Networks) -> Pools | None:
    """Return the source addresses of each balancer by VPC; None where no balancer is known."""
    return [each.pools for each in networks.gateways.values() if each.kind is Kind.BALANCER] or None


def reserved_of(networks: Networks) -> Reserved:
    """Return the addresses in use on the networks of all known gateways."""
    return reserved_by({name: each.ports for name, each in networks.gateways.items() if each.ports})


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
            yield from (
                f"source_pools: vpc {vpc_id}: {line}" for line in check_change.pool_problems(frozenset(pool), vpc)
            )
        virtual = {each.vip: each.id for each in of_vpc(networks, vpc_id)}
        for address in pool:
            if address in virtual:
                yield f"source_pools: vpc {vpc_id}: {address} is the virtual IP of load balancer {virtual[address]}"

"""Check load balancers, VPCs and the balancers' own addresses against each other: in a VPC an address has one owner."""

from collections.abc import Iterator, Sequence

from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.model.event import GatewayUp
from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.check import floating_problems
from heddle.dataplane.config.check_balancers import load_balancer_problems
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import Address, Vpc


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

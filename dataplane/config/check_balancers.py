"""Validate load balancers: each by itself and with its VPC, and against others."""

from collections.abc import Collection, Iterator, Sequence, Set
from ipaddress import IPv4Address

from heddle.dataplane.config import limit
from heddle.dataplane.config.balancers import BackEnd, BalancerConfig, HealthCheck, LoadBalancer, Mode, Service
from heddle.dataplane.config.check import NAME, holds, is_edge, is_unicast
from heddle.dataplane.config.check_served import public_addresses
from heddle.dataplane.config.network import Address, Vpc
from heddle.dataplane.config.refusal import shown

ROCE_PORT = 4791
MAX_INTERVAL_MS = 3_600_000
Served = tuple[str, Address, int, str]
"""What only one load balancer may have: VPC, virtual IP, port and transport protocol."""


def balancer_problems(config: BalancerConfig) -> tuple[str, ...]:
    """Return one line per problem of what one balancer serves; its `network` is checked by `config.check`."""
    return tuple(_all(config))


def _all(config: BalancerConfig) -> Iterator[str]:
    vpcs = {vpc.id: vpc for vpc in config.network.vpcs}
    pools = {site.vpc: site.pool for site in config.sites}
    yield from total_problems(config.balancers)
    for site in config.sites:
        if site.vpc not in vpcs:
            yield f"sites: there is no VPC {site.vpc}"
    ids, places = set[str](), dict[Served, str]()
    for each in config.balancers:
        if each.id in ids:
            yield f"{name_of(each)}: id: it is there twice"
        elif served_by(each) in places:
            yield taken_text(each, places[served_by(each)])
        ids.add(each.id)
        places.setdefault(served_by(each), each.id)
        yield from load_balancer_problems(each, vpcs.get(each.vpc), [pools.get(each.vpc, ())])


def total_problems(balancers: Collection[LoadBalancer]) -> Iterator[str]:
    """Check the number of load balancers and of their back ends."""
    if len(balancers) > limit.MAX_LOAD_BALANCERS:
        yield f"load_balancers: {len(balancers)}; at most {limit.MAX_LOAD_BALANCERS}"
    ends = sum(len(each.back_ends) for each in balancers)
    if ends > limit.MAX_BACK_ENDS:
        yield f"load_balancers: {ends} back ends of all together; at most {limit.MAX_BACK_ENDS}"


def name_of(each: LoadBalancer) -> str:
    """Return a load balancer's name in messages."""
    return f"load balancer {each.id if NAME.fullmatch(each.id) else shown(each.id)}"


def served_by(each: LoadBalancer) -> Served:
    """Return what a load balancer serves: RoCEv2 is UDP on the wire."""
    return each.vpc, each.vip, each.port, "tcp" if each.protocol is Service.TCP else "udp"


def taken_text(each: LoadBalancer, owner: str) -> str:
    """Return the refusal of a load balancer whose port of its virtual IP another one serves."""
    return f"{name_of(each)}: vip: {each.vip} port {each.port} of vpc {each.vpc} is served by {owner} already"


def load_balancer_problems(
    each: LoadBalancer, vpc: Vpc | None, pools: Sequence[Sequence[Address]] | None
) -> Iterator[str]:
    """Check a load balancer by itself and with its VPC, None for an unknown one.

    `pools` are the source addresses that balancers have in the VPC, for each balancer; None where none is known yet.
    """
    place = name_of(each)
    if not NAME.fullmatch(each.id):
        line = f"1 to {limit.MAX_NAME_LENGTH} letters, digits, '.', '_' or '-', the first a letter or digit"
        yield f"{place}: id: must be {line}"
    if len(each.tenant) > limit.MAX_NAME_LENGTH:
        yield f"{place}: tenant: longer than {limit.MAX_NAME_LENGTH} characters"
    if vpc is None:
        yield f"{place}: vpc_id: there is no vpc {shown(each.vpc)}"
    yield from (f"{place}: {line}" for line in _one(each, vpc, pools))


def _one(each: LoadBalancer, vpc: Vpc | None, pools: Sequence[Sequence[Address]] | None) -> Iterator[str]:
    yield from _service(each)
    if vpc is not None:
        yield from _vip(each, vpc, pools or ())
        if each.mode is Mode.FULL_NAT and pools is not None and not _can_translate(each, pools):
            yield f"mode: full_nat needs source addresses of IPv{each.vip.version} in the pool of {vpc.id}"
    if not 1 <= len(each.back_ends) <= limit.MAX_BACK_ENDS_OF_ONE:
        yield f"backends: {len(each.back_ends)}; 1 to {limit.MAX_BACK_ENDS_OF_ONE}"
    else:
        yield from _back_ends(each, None if vpc is None else {endpoint.ip for endpoint in vpc.endpoints})
    if each.health is not None:
        yield from _health(each.health)
        if each.health.passive and (each.mode is not Mode.FULL_NAT or each.protocol is not Service.TCP):
            yield "health_check.passive: of TCP by full_nat only; the balancer sees no other replies"


def _can_translate(each: LoadBalancer, pools: Sequence[Sequence[Address]]) -> bool:
    return any(address.version == each.vip.version for pool in pools for address in pool)


def _service(each: LoadBalancer) -> Iterator[str]:
    if not is_unicast(each.vip):
        yield f"vip: {each.vip} is no address of a host"
    if not 1 <= each.port <= limit.LAST_PORT:
        yield f"port: {each.port} is not within 1 to {limit.LAST_PORT}"
    if each.protocol is Service.ROCE and each.port != ROCE_PORT:
        yield f"port: {each.port}; RoCEv2 has UDP port {ROCE_PORT}"
    if each.protocol is Service.UDP and each.port == ROCE_PORT:
        yield f"port: {ROCE_PORT} is RoCEv2's; use the protocol roce"
    if each.protocol is Service.ROCE and each.mode is Mode.FULL_NAT:
        yield "mode: RoCEv2 in direct return only; its ICRC covers the addresses"


def _vip(each: LoadBalancer, vpc: Vpc, pools: Sequence[Sequence[Address]]) -> Iterator[str]:
    if any(endpoint.ip == each.vip for endpoint in vpc.endpoints):
        yield f"vip: {each.vip} is in use in {vpc.id}, by an endpoint"
    elif any(subnet.gateway == each.vip for subnet in vpc.subnets):
        yield f"vip: {each.vip} is in use in {vpc.id}, as a gateway's address"
    elif any(each.vip == address for _, address in public_addresses(vpc)):
        yield f"vip: {each.vip} is in use in {vpc.id}, as a public address"
    elif any(each.vip in pool for pool in pools):
        yield f"vip: {each.vip} is in use in {vpc.id}, in the pool of a balancer"
    elif vpc.subnets:  # a balancer's own file need not have them
        home = next((subnet.prefix for subnet in vpc.subnets if holds(subnet.prefix, each.vip)), None)
        if home is None:
            yield f"vip: {each.vip} is in no subnet of {vpc.id}"
        elif is_edge(home, each.vip):
            yield f"vip: {each.vip} is the network's or broadcast address of {home}"


def _back_ends(each: LoadBalancer, endpoints: Set[Address] | None) -> Iterator[str]:
    seen = dict[tuple[Address, int], int]()
    for i, end in enumerate(each.back_ends):
        first = seen.setdefault((end.ip, end.port), i)
        if first != i:
            yield f"backends[{i}].ip: {end.ip} port {end.port} is backends[{first}] already"
        if end.ip == each.vip:
            yield f"backends[{i}].ip: {end.ip} is the virtual IP itself"
        elif each.mode is Mode.IP_IN_IP:
            if not isinstance(end.ip, IPv4Address):
                yield f"backends[{i}].ip: {end.ip}: IP-in-IP leads to IPv4 addresses of the underlay"
        elif endpoints is not None and end.ip not in endpoints:
            yield f"backends[{i}].ip: {end.ip} is no endpoint of {each.vpc}"
        elif end.ip.version != each.vip.version:
            yield f"backends[{i}].ip: {end.ip} and the virtual IP {each.vip} are of different IP versions"
        yield from (f"backends[{i}].{line}" for line in _numbers(each, end))


def _numbers(each: LoadBalancer, end: BackEnd) -> Iterator[str]:
    if not 1 <= end.port <= limit.LAST_PORT:
        if end.port != each.port:  # the load balancer's own is named already
            yield f"port: {end.port} is not within 1 to {limit.LAST_PORT}"
    elif each.mode is not Mode.FULL_NAT and end.port != each.port:
        yield f"port: {end.port}; with direct return a back end has the port {each.port} itself"
    if not 0 <= end.weight <= limit.MAX_WEIGHT:
        yield f"weight: {end.weight} is not within 0 to {limit.MAX_WEIGHT}"


def _health(check: HealthCheck) -> Iterator[str]:
    if not 1 <= check.timeout_ms <= check.interval_ms <= MAX_INTERVAL_MS:
        times = f"timeout_ms {check.timeout_ms}, interval_ms {check.interval_ms}"
        yield f"health_check: {times}: from 1 up to the interval, and that up to an hour"
    if not (1 <= check.rise <= 100 and 1 <= check.fall <= 100):
        yield f"health_check: rise {check.rise}, fall {check.fall}: 1 to 100"
    if not check.path.startswith("/") or any(c.isspace() or not c.isprintable() for c in check.path):
        yield f"health_check.path: {shown(check.path)} is no path of HTTP"

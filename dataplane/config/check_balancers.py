"""Validate what a balancer is to serve."""

from collections.abc import Iterator, Set
from ipaddress import IPv4Address

from dataplane.config.balancers import BalancerConfig, HealthCheck, LoadBalancer, Mode, Service
from dataplane.config.network import Vpc

MAX_BALANCERS = 4_096
MAX_BACK_ENDS = 1_000
MAX_WEIGHT = 1_000
ROCE_PORT = 4791
MAX_INTERVAL_MS = 3_600_000


def balancer_problems(config: BalancerConfig) -> tuple[str, ...]:
    """Return one line per problem; empty for a valid configuration, whose `network` is checked by `config.check`."""
    return tuple(_all(config))


def _all(config: BalancerConfig) -> Iterator[str]:
    vpcs = {vpc.id: vpc for vpc in config.network.vpcs}
    pools = {site.vpc: site.pool for site in config.sites}
    if len(config.balancers) > MAX_BALANCERS:
        yield f"load_balancers: {len(config.balancers)}; at most {MAX_BALANCERS}"
    for site in config.sites:
        if site.vpc not in vpcs:
            yield f"sites: there is no VPC {site.vpc}"
    ids, places = set[str](), set[tuple[object, ...]]()
    for each in config.balancers:
        place = f"load balancer {each.id or '?'}"
        served = (each.vpc, each.vip, each.port, _transport(each))
        if not each.id or each.id in ids:
            yield f"{place}: id: it is empty, or there twice"
        if served in places:
            yield f"{place}: {each.vip} port {each.port} of {each.vpc} is served by another one"
        ids.add(each.id)
        places.add(served)
        vpc = vpcs.get(each.vpc)
        if vpc is None:
            yield f"{place}: vpc_id: there is no VPC {each.vpc!r}"
        else:
            yield from (f"{place}: {line}" for line in _one(each, vpc, pools.get(each.vpc, ())))


def _transport(each: LoadBalancer) -> str:
    return "tcp" if each.protocol is Service.TCP else "udp"


def _one(each: LoadBalancer, vpc: Vpc, pool: tuple[object, ...]) -> Iterator[str]:
    endpoints = {endpoint.ip for endpoint in vpc.endpoints}
    taken = endpoints | {subnet.gateway for subnet in vpc.subnets}
    if each.vip in taken:
        yield f"vip: {each.vip} is in use in {vpc.id}"
    if each.vip in pool:
        yield f"vip: {each.vip} is an address of the pool"
    if not 1 <= each.port <= 65_535:
        yield f"port: {each.port} is not within 1 to 65535"
    if each.protocol is Service.ROCE and each.port != ROCE_PORT:
        yield f"port: {each.port}; RoCEv2 has UDP port {ROCE_PORT}"
    if each.protocol is Service.UDP and each.port == ROCE_PORT:
        yield f"port: {ROCE_PORT} is RoCEv2's; use the protocol roce"
    if each.protocol is Service.ROCE and each.mode is Mode.FULL_NAT:
        yield "mode: RoCEv2 in direct return only; its ICRC covers the addresses"
    if each.mode is Mode.FULL_NAT and not any(getattr(a, "version", 0) == each.vip.version for a in pool):
        yield f"mode: full_nat needs source addresses of IPv{each.vip.version} in the pool of {vpc.id}"
    if not 1 <= len(each.back_ends) <= MAX_BACK_ENDS:
        yield f"backends: {len(each.back_ends)}; 1 to {MAX_BACK_ENDS}"
    yield from _back_ends(each, endpoints)
    if each.health is not None:
        yield from _health(each.health)


def _back_ends(each: LoadBalancer, endpoints: Set[object]) -> Iterator[str]:
    seen = set[tuple[object, int]]()
    for end in each.back_ends:
        if (end.ip, end.port) in seen:
            yield f"backends: {end.ip} port {end.port} is there twice"
        seen.add((end.ip, end.port))
        if end.ip == each.vip:
            yield f"backends: {end.ip} is the virtual IP itself"
        elif each.mode is Mode.IP_IN_IP:
            if not isinstance(end.ip, IPv4Address):
                yield f"backends: {end.ip}: IP-in-IP leads to IPv4 addresses of the underlay"
        elif end.ip not in endpoints:
            yield f"backends: {end.ip} is no endpoint of {each.vpc}"
        elif end.ip.version != each.vip.version:
            yield f"backends: {end.ip} and the virtual IP {each.vip} are of different IP versions"
        if not 1 <= end.port <= 65_535:
            yield f"backends: {end.ip}: port {end.port} is not within 1 to 65535"
        elif each.mode is not Mode.FULL_NAT and end.port != each.port:
            yield f"backends: {end.ip}: port {end.port}; with direct return a back end has the port {each.port} itself"
        if not 0 <= end.weight <= MAX_WEIGHT:
            yield f"backends: {end.ip}: weight {end.weight} is not within 0 to {MAX_WEIGHT}"


def _health(check: HealthCheck) -> Iterator[str]:
    if not 1 <= check.timeout_ms <= check.interval_ms <= MAX_INTERVAL_MS:
        times = f"timeout_ms {check.timeout_ms}, interval_ms {check.interval_ms}"
        yield f"health_check: {times}: from 1 up to the interval, and that up to an hour"
    if not (1 <= check.rise <= 100 and 1 <= check.fall <= 100):
        yield f"health_check: rise {check.rise}, fall {check.fall}: 1 to 100"
    if not check.path.startswith("/") or any(c.isspace() or not c.isprintable() for c in check.path):
        yield f"health_check: path: {check.path!r} is no path of HTTP"

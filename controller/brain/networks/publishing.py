"""Select the part of all virtual networks that each gateway, host and balancer is sent. Pure.

Virtual IPs and pool addresses are endpoints behind balancers. A gateway sends a VPC's virtual IPs to one balancer,
chosen by VNI. A host spreads each virtual IP over all balancers that serve it, and reaches a pool address at its
balancer alone. A balancer gets the VPCs that it can serve.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from ipaddress import IPv4Address

from heddle.controller.brain.virtual_networks import Gateway, Networks
from heddle.dataplane.config.balancers import LoadBalancer, Mode, VirtualIp, balancer_mac, pool_mac
from heddle.dataplane.config.desired import Desired, Kind, for_host
from heddle.dataplane.config.network import Address, Endpoint, NetworkConfig, Vpc


def desired_of(networks: Networks) -> Desired:
    """Return the whole wanted configuration, without what follows from balancers."""
    network = NetworkConfig(
        generation=networks.generation,
        vpcs=tuple(networks.vpcs.values()),
        peerings=networks.peerings,
        border=networks.border,
    )
    gateways = {name: each.vtep for name, each in networks.gateways.items() if each.kind is Kind.GATEWAY}
    return Desired(network=network, gateways=gateways, load_balancers=tuple(networks.load_balancers.values()))


def update_for(networks: Networks, name: str, sent: Desired | None) -> Desired | None:
    """Return the configuration to send to one that is attached and was last `sent` another; None for no change."""
    known = networks.gateways.get(name)
    if known is None or not networks.generation:
        return None
    serves = known.unknown & networks.vpcs.keys()
    if sent is not None and sent.network.generation >= networks.generation and not _to_end(serves, sent):
        return None
    newest = _FOR[known.kind](networks, name, known)
    newest = replace(
        newest,
        known_since=known.known_since or networks.known_since,
        has_border=networks.has_border or not networks.known_since,
        ended=_to_end(serves, newest),
    )
    if known.kind is not Kind.GATEWAY and sent is not None and _content(newest) == _content(sent):
        return None
    return newest


def _to_end(serves: frozenset[str], sent: Desired) -> frozenset[str]:
    """Return the VPCs that one serves without having been sent them or their end."""
    return serves.difference(sent.ended, (vpc.id for vpc in sent.network.vpcs)) if serves else serves


def balancers_of(networks: Networks, vpc: str) -> tuple[str, ...]:
    """Return the balancers that serve a VPC: the attached ones, or all known ones while none is attached.

    Hosts spread one MAC per VPC, so a balancer serves all load balancers of a VPC or none: without source addresses
    for those that translate, none.
    """
    mine = [each for each in networks.load_balancers.values() if each.vpc == vpc]
    return _serving(_balancers(networks), vpc, mine) if mine else ()


def balancers_by_vpc(networks: Networks) -> dict[str, tuple[str, ...]]:
    """Return `balancers_of` each VPC that has load balancers, in one pass over the load balancers."""
    by_vpc: dict[str, list[LoadBalancer]] = {}
    for each in networks.load_balancers.values():
        by_vpc.setdefault(each.vpc, []).append(each)
    balancers = _balancers(networks)
    return {vpc: _serving(balancers, vpc, mine) for vpc, mine in by_vpc.items()}


def _balancers(networks: Networks) -> list[tuple[str, Gateway]]:
    return sorted((name, each) for name, each in networks.gateways.items() if each.kind is Kind.BALANCER)


def _serving(balancers: Iterable[tuple[str, Gateway]], vpc: str, mine: Iterable[LoadBalancer]) -> tuple[str, ...]:
    needed = {each.vip.version for each in mine if each.mode is Mode.FULL_NAT}
    able = [one for one in balancers if needed <= {address.version for address in one[1].pools.get(vpc, ())}]
    attached = [one for one in able if one[1].session is not None]
    return tuple(name for name, _ in attached or able)


def served_vteps(networks: Networks, vpc: str) -> tuple[IPv4Address, ...]:
    """Return the VTEPs to which hosts send for a VPC's virtual IPs, in order; a pair may serve one together."""
    return tuple(sorted({networks.gateways[name].served_vtep for name in balancers_of(networks, vpc)}))


def for_gateway(networks: Networks, name: str, known: Gateway) -> Desired:
    """Return the configuration of a gateway: virtual IPs and pool addresses are endpoints of their VPCs.

    Back ends of direct return reply to clients outside of the subnet through it.
    """
    newest = desired_of(networks)
    vpcs = tuple(
        _with(vpc, (*_virtual_endpoints(networks, vpc), *_pool_endpoints(networks, vpc))) for vpc in newest.network.vpcs
    )
    replying = tuple(each for vpc in vpcs for each in virtual_ips(networks, vpc.id) if each.back_ends)
    return replace(newest, network=replace(newest.network, vpcs=vpcs), load_balancers=(), virtual_ips=replying)


def _for_host(networks: Networks, name: str, known: Gateway) -> Desired:
    newest = for_host(desired_of(networks), known.vtep, networks.vteps)
    vpcs = tuple(_with(vpc, tuple(_pool_endpoints(networks, vpc))) for vpc in newest.network.vpcs)
    return Desired(
        network=replace(newest.network, vpcs=vpcs),
        gateways={each: networks.gateways[each].served_vtep for each in newest.gateways},
        virtual_ips=tuple(each for vpc in vpcs for each in virtual_ips(networks, vpc.id)),
    )


def for_balancer(networks: Networks, name: str, known: Gateway) -> Desired:
    """Return the configuration of a balancer: the VPCs that it serves, with their load balancers."""
    newest = desired_of(networks)
    served = {vpc for vpc, balancers in balancers_by_vpc(networks).items() if name in balancers}
    vpcs = tuple(vpc for vpc in newest.network.vpcs if vpc.id in served)
    return Desired(
        network=NetworkConfig(generation=networks.generation, vpcs=vpcs),
        gateways=newest.gateways,
        load_balancers=tuple(each for each in newest.load_balancers if each.vpc in served),
    )


_FOR = {Kind.GATEWAY: for_gateway, Kind.HOST: _for_host, Kind.BALANCER: for_balancer}


def _content(desired: Desired) -> tuple[object, ...]:
    return (
        desired.network.vpcs, desired.gateways, desired.load_balancers, desired.virtual_ips, desired.known_since,
        desired.ended,
    )  # fmt: skip


def virtual_ips(networks: Networks, vpc: str) -> list[VirtualIp]:
    """Return a VPC's virtual IPs with the VTEPs that serve them."""
    vteps = served_vteps(networks, vpc)
    by_ip: dict[Address, list[LoadBalancer]] = {}
    for each in networks.load_balancers.values():
        if each.vpc == vpc:
            by_ip.setdefault(each.vip, []).append(each)
    return [
        VirtualIp(
            vpc=vpc,
            ip=ip,
            vteps=vteps,
            back_ends=tuple(
                dict.fromkeys(end.ip for each in mine if each.mode is Mode.DIRECT_RETURN for end in each.back_ends)
            ),
        )
        for ip, mine in by_ip.items()
    ]


def _virtual_endpoints(networks: Networks, vpc: Vpc) -> Iterator[Endpoint]:
    """Yield a VPC's virtual IPs as gateways see them: behind one balancer."""
    for each in virtual_ips(networks, vpc.id):
        if each.vteps:
            yield Endpoint(ip=each.ip, mac=balancer_mac(vpc.vni), vtep=each.vteps[vpc.vni % len(each.vteps)])


def _pool_endpoints(networks: Networks, vpc: Vpc) -> Iterator[Endpoint]:
    """Yield the pool addresses of all known balancers in a VPC; of one that is gone, its partner serves the VTEP."""
    if not any(each.vpc == vpc.id for each in networks.load_balancers.values()):
        return
    seen = set[Address]()
    for known in sorted(networks.gateways.values(), key=lambda each: (each.session is None, each.vtep)):
        for address in known.pools.get(vpc.id, ()):
            if address not in seen:
                seen.add(address)
                yield Endpoint(ip=address, mac=pool_mac(known.served_vtep), vtep=known.served_vtep)


def _with(vpc: Vpc, more: tuple[Endpoint, ...]) -> Vpc:
    return replace(vpc, endpoints=vpc.endpoints + more) if more else vpc

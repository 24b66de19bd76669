"""A gateway with two tenants of equal addresses on all its sides: NAT, floating IPs, customers, storage, a peer."""

from dataclasses import replace
from ipaddress import IPv4Address as V4
from ipaddress import IPv4Network as Net4
from ipaddress import IPv6Network as Net6

from heddle.dataplane.config.network import (
    BorderRule,
    DirectConnect,
    Direction,
    FloatingIp,
    NetworkConfig,
    Peering,
    Protocol,
    SecurityRule,
    Vpc,
)
from heddle.dataplane.tables.compiler.compile import compile_tables, link_of
from heddle.dataplane.tables.schema import Tables
from heddle.foundation.network import Network
from tests.fakes.gateway import gateway_site as site
from tests.fakes.gateway.gateway_site import CUSTOMER, HOST_A, HOST_B, HOST_C, UNDERLAY, endpoint

RED, BLUE, GREEN = 100, 200, 300
VLANS = {RED: 7, BLUE: 8}
NAT = {RED: V4("203.0.113.10"), BLUE: V4("203.0.113.11")}
FLOATING = {RED: V4("203.0.113.20"), BLUE: V4("203.0.113.21")}
HOST_C_MAC = 0x02AA00000013
ANYONE = (Net4("0.0.0.0/0"), Net6("::/0"))
LOCAL = site.LOCAL


def _allow(protocol: Protocol, prefix: Net4 | Net6, first: int = 0, last: int = 65535) -> SecurityRule:
    return SecurityRule(
        allow=True, direction=Direction.IN, protocol=protocol, remote=prefix, port_min=first, port_max=last
    )


_RULES = (
    *(_allow(Protocol.TCP, prefix, 443, 443) for prefix in ANYONE),
    *(_allow(Protocol.UDP, prefix, 5000, 5999) for prefix in ANYONE),
    *(_allow(Protocol.ICMP, prefix) for prefix in ANYONE),
    _allow(Protocol.ANY, Net4("10.99.0.0/16")),
    _allow(Protocol.ANY, Net4("10.3.0.0/24")),
    _allow(Protocol.ANY, Net4("10.0.0.0/24")),
    _allow(Protocol.ANY, Net6("fd00::/64")),
)


def _tenant(name: str, vni: int, first_mac: int, host: V4) -> Vpc:
    return Vpc(
        id=name,
        vni=vni,
        subnets=site.SUBNETS,
        endpoints=(
            endpoint("10.0.0.10", first_mac + 0x10, host),
            endpoint("10.0.0.11", first_mac + 0x11, host),
            endpoint("10.0.0.12", first_mac + 0x12, HOST_C),
            endpoint("fd00::10", first_mac + 0x10, host),
            endpoint("fd00::12", first_mac + 0x12, HOST_C),
        ),
        nat=NAT[vni],
        floating_ips=(FloatingIp(public=FLOATING[vni], endpoint=V4("10.0.0.10")),),
        direct_connects=(DirectConnect(vlan=VLANS[vni], customer=Net4("10.99.0.0/16"), next_hop=site.CUSTOMER_ROUTER),),
        rules=_RULES,
    )


MACS = {RED: 0x021000000000, BLUE: 0x022000000000, GREEN: 0x023000000000}
HOSTS = {RED: HOST_A, BLUE: HOST_B, GREEN: HOST_C}
"""Each tenant's own host; HOST_C has endpoints of all three."""
NETWORK = NetworkConfig(
    generation=1,
    vpcs=(
        _tenant("red", RED, MACS[RED], HOST_A),
        _tenant("blue", BLUE, MACS[BLUE], HOST_B),
        replace(site.NETWORK.vpcs[2], vni=GREEN, endpoints=(endpoint("10.3.0.10", MACS[GREEN] + 0x10, HOST_C),),
                rules=_RULES),
    ),
    peerings=frozenset({Peering(a="green", b="red")}),
    border=tuple(
        BorderRule(allow=True, vpc=vpc, realm=Network.STORAGE, remote=Net4("172.16.0.0/16"), port_min=2049,
                   port_max=2049)
        for vpc in ("red", "blue")
    ),
)  # fmt: skip
NEIGHBOURS = {
    **site.NEIGHBOURS,
    (link_of(UNDERLAY), HOST_C): HOST_C_MAC,
    (link_of(CUSTOMER, VLANS[BLUE]), site.CUSTOMER_ROUTER): site.CUSTOMER_MAC + 1,
}


def tenants_tables(generation: int = 1, network: NetworkConfig = NETWORK) -> Tables:
    """Return the tables of this gateway."""
    return compile_tables(LOCAL, network, neighbours=NEIGHBOURS, generation=generation)

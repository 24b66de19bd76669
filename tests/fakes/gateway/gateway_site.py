"""A small gateway: two tenants with equal addresses, a peered third, a customer and the provider's storage."""

from ipaddress import IPv4Address as V4
from ipaddress import IPv4Network as Net4
from ipaddress import IPv6Address as V6
from ipaddress import IPv6Network as Net6

from heddle.dataplane.config.local import Interface, LocalConfig, ProviderNetwork, Side
from heddle.dataplane.config.network import (
    Address,
    DirectConnect,
    Endpoint,
    FloatingIp,
    NetworkConfig,
    Peering,
    Subnet,
    Vpc,
)
from heddle.dataplane.tables.compiler.compile import compile_tables, link_of
from heddle.dataplane.tables.schema import Tables
from heddle.foundation.network import Network

UNDERLAY, EXTERNAL, CUSTOMER, PROVIDER = range(4)
"""Port numbers."""
PORT_MACS = (0x020000000001, 0x020000000002, 0x020000000003, 0x020000000004)
VTEP, HOST_A, HOST_B, HOST_C = V4("192.168.0.1"), V4("192.168.0.11"), V4("192.168.0.12"), V4("192.168.0.13")
HOST_MACS = {HOST_A: 0x02AA00000011, HOST_B: 0x02AA00000012}
"""HOST_C's is not known."""
ROUTER, ROUTER_MAC = V4("203.0.113.1"), 0x02BB00000001
CUSTOMER_ROUTER, CUSTOMER_MAC = V4("10.99.0.1"), 0x02CC00000001
STORAGE_ROUTER, STORAGE_MAC = V4("172.31.0.1"), 0x02DD00000001
RED, BLUE, GREEN = 100, 200, 0xFFFFFF
VLAN = 7

LOCAL = LocalConfig(
    gateway_id="gw-1",
    interfaces=(
        Interface(
            name="u0",
            side=Side.UNDERLAY,
            mac=PORT_MACS[0],
            address=VTEP,
            network=Net4("192.168.0.0/24"),
            mtu_bytes=4300,
        ),
        Interface(
            name="x0",
            side=Side.EXTERNAL,
            mac=PORT_MACS[1],
            address=V4("203.0.113.2"),
            network=Net4("203.0.113.0/24"),
            router=ROUTER,
        ),
        Interface(name="c0", side=Side.CUSTOMER, mac=PORT_MACS[2]),
        Interface(
            name="p0",
            side=Side.PROVIDER,
            mac=PORT_MACS[3],
            address=V4("172.31.0.2"),
            network=Net4("172.31.0.0/24"),
            router=STORAGE_ROUTER,
        ),
    ),
    provider_networks=(ProviderNetwork(realm=Network.STORAGE, prefixes=(Net4("172.16.0.0/16"),)),),
)


def endpoint(ip: str, mac: int, vtep: V4) -> Endpoint:
    return Endpoint(ip=V6(ip) if ":" in ip else V4(ip), mac=mac, vtep=vtep)


SUBNETS = (
    Subnet(prefix=Net4("10.0.0.0/24"), gateway=V4("10.0.0.1")),
    Subnet(prefix=Net6("fd00::/64"), gateway=V6("fd00::1")),
)
NETWORK = NetworkConfig(
    generation=1,
    vpcs=(
        Vpc(
            id="red",
            vni=RED,
            subnets=SUBNETS,
            endpoints=(
                endpoint("10.0.0.10", 0x021000000010, HOST_A),
                endpoint("10.0.0.11", 0x021000000011, HOST_B),
                endpoint("10.0.0.12", 0x021000000012, HOST_C),
                endpoint("fd00::10", 0x021000000010, HOST_A),
                endpoint("fd00::11", 0x021000000011, HOST_B),
            ),
            nat=V4("203.0.113.10"),
            floating_ips=(FloatingIp(public=V4("203.0.113.20"), endpoint=V4("10.0.0.10")),),
            direct_connects=(DirectConnect(vlan=VLAN, customer=Net4("10.99.0.0/16"), next_hop=CUSTOMER_ROUTER),),
        ),
        Vpc(
            id="blue",
            vni=BLUE,
            subnets=SUBNETS,
            endpoints=(
                endpoint("10.0.0.10", 0x022000000010, HOST_B),
                endpoint("10.0.0.11", 0x022000000011, HOST_B),
                endpoint("fd00::10", 0x022000000010, HOST_B),
            ),
        ),
        Vpc(
            id="green",
            vni=GREEN,
            subnets=(Subnet(prefix=Net4("10.3.0.0/24"), gateway=V4("10.3.0.1")),),
            endpoints=(endpoint("10.3.0.10", 0x023000000010, HOST_B),),
        ),
    ),
    peerings=frozenset({Peering(a="green", b="red")}),
)
NEIGHBOURS: dict[tuple[int, Address], int] = {
    (link_of(UNDERLAY), HOST_A): HOST_MACS[HOST_A],
    (link_of(UNDERLAY), HOST_B): HOST_MACS[HOST_B],
    (link_of(EXTERNAL), ROUTER): ROUTER_MAC,
    (link_of(CUSTOMER, VLAN), CUSTOMER_ROUTER): CUSTOMER_MAC,
    (link_of(PROVIDER), STORAGE_ROUTER): STORAGE_MAC,
}


def site_tables(*, active: bool = True, taken_vtep: V4 | None = None) -> Tables:
    """Return the tables of this gateway."""
    return compile_tables(LOCAL, NETWORK, neighbours=NEIGHBOURS, generation=1, active=active, taken_vtep=taken_vtep)

"""A gateway with a port on each side and two tenants with equal addresses, for tests of the slow path."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import numpy as np

from heddle.dataplane.config.local import Interface, LocalConfig, Side
from heddle.dataplane.config.network import DirectConnect, Endpoint, FloatingIp, NetworkConfig, Subnet, Vpc
from heddle.dataplane.control.slow.directory import Directory, Duty
from heddle.dataplane.control.slow.next_hops import NextHops
from heddle.dataplane.control.slow.slow_path import Allowance, SlowPath
from heddle.dataplane.engine.reasons import Punt
from heddle.dataplane.engine.rings import Punted
from heddle.dataplane.tables import schema

UNDERLAY, EXTERNAL, CUSTOMER, PROVIDER = range(4)
RED, BLUE = 100, 200
"""VNIs."""
PORT_MACS = ("02:00:00:00:00:10", "02:00:00:00:00:11", "02:00:00:00:00:12", "02:00:00:00:00:13")
VTEP, EXTERNAL_ADDRESS, PROVIDER_ADDRESS = "10.0.0.1", "203.0.113.2", "172.16.0.2"
HOST_VTEP, OTHER_VTEP, HOST_MAC = "10.0.0.7", "10.0.0.8", "02:00:00:00:07:00"
NAT, FLOATING, ROUTER = "203.0.113.10", "203.0.113.20", "203.0.113.1"
ROUTER_MAC = "02:00:00:00:99:01"
RED_MAC, BLUE_MAC = "02:48:00:00:00:64", "02:48:00:00:00:c8"
GATEWAY, GATEWAY_6 = "192.168.1.1", "fd00:1::1"
A, A_MAC, A_6 = "192.168.1.5", "02:aa:00:00:00:05", "fd00:1::5"
B, B_MAC, B_6 = "192.168.1.6", "02:aa:00:00:00:06", "fd00:1::6"
"""Endpoints of both: A at HOST_VTEP, B at OTHER_VTEP."""
VLAN, CUSTOMER_ROUTER, CUSTOMER_ROUTER_6 = 42, "192.168.1.250", "fd00:1::fa"
TUNNEL_HOP, EXTERNAL_HOP, ON_LINK_HOP, CUSTOMER_HOP = range(4)


def number_of(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


def local_config() -> LocalConfig:
    sides = (
        (Side.UNDERLAY, VTEP, "10.0.0.0/24", None, 1550),
        (Side.EXTERNAL, EXTERNAL_ADDRESS, "203.0.113.0/24", ROUTER, 1500),
        (Side.CUSTOMER, None, None, None, 1500),
        (Side.PROVIDER, PROVIDER_ADDRESS, "172.16.0.0/16", "172.16.0.1", 1500),
    )
    return LocalConfig(
        gateway_id="gw1",
        interfaces=tuple(
            Interface(
                name=f"port{number}",
                side=side,
                mac=number_of(PORT_MACS[number]),
                address=IPv4Address(address) if address else None,
                network=IPv4Network(network) if network else None,
                router=IPv4Address(router) if router else None,
                mtu_bytes=mtu,
            )
            for number, (side, address, network, router, mtu) in enumerate(sides)
        ),
    )


def vpc(name: str, vni: int, **more: object) -> Vpc:
    homes = ((A, A_MAC, HOST_VTEP), (A_6, A_MAC, HOST_VTEP), (B, B_MAC, OTHER_VTEP), (B_6, B_MAC, OTHER_VTEP))
    return Vpc(
        id=name,
        vni=vni,
        subnets=(
            Subnet(prefix=IPv4Network("192.168.1.0/24"), gateway=IPv4Address(GATEWAY)),
            Subnet(prefix=IPv6Network("fd00:1::/64"), gateway=IPv6Address(GATEWAY_6)),
        ),
        endpoints=tuple(
            Endpoint(ip=ip_address(ip), mac=number_of(mac), vtep=IPv4Address(vtep)) for ip, mac, vtep in homes
        ),
        **more,  # type: ignore[arg-type]
    )


def network_config() -> NetworkConfig:
    connects = (DirectConnect(vlan=VLAN, customer=ip_network("10.9.0.0/16"), next_hop=ip_address(CUSTOMER_ROUTER)),)
    floating = (FloatingIp(public=IPv4Address(FLOATING), endpoint=IPv4Address(A)),)
    return NetworkConfig(
        vpcs=(
            vpc("red", RED, nat=IPv4Address(NAT), direct_connects=connects, floating_ips=floating),
            vpc("blue", BLUE),
        )
    )


def hops() -> np.ndarray:
    rows = np.zeros(4, schema.NEXT_HOP)
    fields = (
        (schema.TUNNEL, UNDERLAY, 1500, int(IPv4Address(OTHER_VTEP)), 0, 0),
        (schema.EXTERNAL, EXTERNAL, 1400, int(IPv4Address(ROUTER)), 0, 0),
        (schema.EXTERNAL, EXTERNAL, 1500, 0, 0, 0),
        (schema.CUSTOMER, CUSTOMER, 1500, int(IPv6Address(CUSTOMER_ROUTER_6)) & (1 << 64) - 1, VLAN, 0xFD00_0001 << 32),
    )
    for row, (kind, port, mtu, address, vlan, high) in enumerate(fields):
        rows[row]["kind"], rows[row]["port"], rows[row]["mtu_bytes"] = kind, port, mtu
        rows[row]["address"], rows[row]["vlan"] = address, vlan
        rows[row]["address_hi"] = high - (1 << 64) if high >> 63 else high
    rows[TUNNEL_HOP]["target_mac"], rows[TUNNEL_HOP]["source_mac"] = number_of(B_MAC), number_of(RED_MAC)
    rows[TUNNEL_HOP]["template_bytes"] = 50
    rows[EXTERNAL_HOP]["target_mac"], rows[EXTERNAL_HOP]["resolved"] = number_of(ROUTER_MAC), 1
    for row in (EXTERNAL_HOP, ON_LINK_HOP, CUSTOMER_HOP):
        rows[row]["source_mac"] = number_of(PORT_MACS[int(rows[row]["port"])])
    return rows


def template() -> np.ndarray:
    """Return the outer headers of the tunnel, without the unresolved MAC."""
    ends = bytes(6) + number_of(PORT_MACS[UNDERLAY]).to_bytes(6, "big")
    addresses = IPv4Address(VTEP).packed + IPv4Address(OTHER_VTEP).packed
    return np.frombuffer(ends + bytes(14) + addresses + bytes(12) + RED.to_bytes(3, "big") + b"\0", np.uint8)


def directory(duty: Duty | None = None) -> Directory:
    return Directory(local_config(), network_config(), duty)


def next_hops_of_tables() -> NextHops:
    return NextHops(hops(), template())


def slow_path(limits: Allowance | None = None, duty: Duty | None = None) -> SlowPath:
    return SlowPath(directory(duty), next_hops_of_tables(), limits)


def punted(reason: Punt, frame: bytes, port: int = UNDERLAY, vni: int = RED, hop: int = -1, missing: int = 0) -> Punted:
    return Punted(
        reason=reason,
        in_port=port,
        vni=vni,
        vpc=0,
        outer_source=0,
        inner=0,
        l3=-1,
        out_port=-1,
        next_hop=hop,
        source_hop=-1,
        family=0,
        protocol=0,
        length=len(frame) + missing,
        time_ns=0,
        frame=frame,
    )

r"""Description of the VPC lab as values: nodes, segments, machines, addresses, and the desired network.

     red1 blue1      red2 blue2 green1      red3 blue3
        host h1           host h2             host h3            internet 198.51.100.10
           \                 |                  /                     |
       lb1--+----------- underlay ------------+---- gw1, gw2 ------- wan 203.0.113.0/24
                                                       |  |
                        site 172.16.0.0/16 -- customer +  + provider -- storage, management

Red and blue have the same subnets, addresses and MACs; green is red's peer; blue's site is behind VLAN 10.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, ip_address, ip_network

from heddle.dataplane.config.network import (
    BorderRule,
    DirectConnect,
    Direction,
    Endpoint,
    FloatingIp,
    NetworkConfig,
    Peering,
    Protocol,
    SecurityRule,
    Subnet,
    Vpc,
)
from heddle.foundation.network import Network

UNDERLAY_MTU_BYTES = 4300
"""Large enough for a RoCEv2 packet with 4096 bytes of payload and VXLAN headers."""
VPC_MTU_BYTES = UNDERLAY_MTU_BYTES - 50
WAN_MTU_BYTES = 1500
HOSTS = {"h1": IPv4Address("192.168.100.1"), "h2": IPv4Address("192.168.100.2"), "h3": IPv4Address("192.168.100.3")}
GATEWAYS = {"gw1": IPv4Address("192.168.100.101"), "gw2": IPv4Address("192.168.100.102")}
UNDERLAY, WAN = IPv4Network("192.168.100.0/24"), IPv4Network("203.0.113.0/24")
PROVIDER = IPv4Network("192.0.2.0/24")
BALANCER, BALANCER_VTEP = "lb1", IPv4Address("192.168.100.111")
PARTNERS = IPv4Network("192.168.101.0/30")
PARTNER_ADDRESS = {"gw1": IPv4Address("192.168.101.1"), "gw2": IPv4Address("192.168.101.2")}
INTERNET_ROUTER, INTERNET_SERVER = IPv4Address("203.0.113.1"), IPv4Address("198.51.100.10")
STORAGE_SERVER, MANAGEMENT_SERVER = IPv4Address("192.0.2.10"), IPv4Address("192.0.2.200")
SITE_VLAN, SITE_PREFIX = 10, IPv4Network("172.16.0.0/16")
SITE_REACHES = ("10.0.0.0/24", "10.0.1.0/24")
"""Blue's subnets: the gateway answers for their addresses on the VLAN."""
SITE_ROUTER, SITE_SERVER = IPv4Address("172.16.0.1"), IPv4Address("172.16.0.10")
FLOATING = IPv4Address("203.0.113.20")
NAT = {"red": IPv4Address("203.0.113.10"), "blue": IPv4Address("203.0.113.11"), "green": IPv4Address("203.0.113.10")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A virtual machine of a tenant, or another node's interface in a VPC."""

    name: str
    vpc: str
    host: str
    mac: int
    addresses: tuple[str, ...]
    """With prefix lengths."""
    gateways: tuple[str, ...]
    node: str = ""
    """The node that has the interface; "" for a node of its own, with the machine's name."""
    device: str = "eth0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """An interface of a node on one of the segments."""

    node: str
    segment: str
    device: str
    addresses: tuple[IPv4Interface, ...] = ()
    mac: int | None = None
    vlan: int | None = None
    """Access port of that VLAN; None for a port that carries frames unchanged."""
    mtu_bytes: int = WAN_MTU_BYTES


VTEP_KINDS = {
    "kernel": dict.fromkeys(HOSTS, "kernel"),
    "ovs": dict.fromkeys(HOSTS, "ovs"),
    "mixed": {"h1": "kernel", "h2": "ovs", "h3": "kernel"},
}
"""Kinds of the hosts' VTEPs: the kernel's VXLAN, Open vSwitch, or both in one lab to test that they interoperate."""
SUBNETS = {
    "red": (("10.0.0.0/24", "10.0.0.254"), ("10.0.1.0/24", "10.0.1.254"), ("fd00:10::/64", "fd00:10::fe")),
    "blue": (("10.0.0.0/24", "10.0.0.254"), ("10.0.1.0/24", "10.0.1.254"), ("fd00:10::/64", "fd00:10::fe")),
    "green": (("10.9.0.0/24", "10.9.0.254"), ("fd00:9::/64", "fd00:9::fe")),
}
VNIS = {"red": 100, "blue": 200, "green": 300}


def _machine(vpc: str, number: int, host: str, mac: int, v4: str, v6: str | None) -> Machine:
    addresses = (f"{v4}/24", *((f"{v6}/64",) if v6 else ()))
    gateways = tuple(
        gateway
        for prefix, gateway in SUBNETS[vpc]
        if any(ip_address(a.split("/")[0]) in ip_network(prefix) for a in addresses)
    )
    return Machine(name=f"{vpc}{number}", vpc=vpc, host=host, mac=mac, addresses=addresses, gateways=gateways)


MACHINES = (
    *(_machine(vpc, 1, "h1", 0x0200_0000_0001, "10.0.0.1", "fd00:10::1") for vpc in ("red", "blue")),
    *(_machine(vpc, 2, "h2", 0x0200_0000_0002, "10.0.0.2", "fd00:10::2") for vpc in ("red", "blue")),
    *(_machine(vpc, 3, "h3", 0x0200_0000_0003, "10.0.1.3", None) for vpc in ("red", "blue")),
    _machine("green", 1, "h2", 0x0200_0000_0009, "10.9.0.1", "fd00:9::1"),
)

PROBERS = tuple(
    Machine(name=f"probe-{vpc}", vpc=vpc, host="h3", mac=0x0200_0000_00FA, addresses=("10.0.0.250/24",), gateways=(),
            node=BALANCER, device=vpc)
    for vpc in ("red", "blue")
)  # fmt: skip
"""The balancer's interfaces in the VPCs, by which it probes back ends."""
PORTS = (*MACHINES, *PROBERS)


def vpc(name: str) -> Vpc:
    """Return a tenant's VPC."""
    machines = [machine for machine in PORTS if machine.vpc == name]
    endpoints = tuple(
        Endpoint(ip=ip_address(address.split("/")[0]), mac=machine.mac, vtep=HOSTS[machine.host])
        for machine in machines
        for address in machine.addresses
    )
    subnets = tuple(Subnet(prefix=ip_network(prefix), gateway=ip_address(gate)) for prefix, gate in SUBNETS[name])
    direct = DirectConnect(vlan=SITE_VLAN, customer=SITE_PREFIX, next_hop=SITE_ROUTER)
    floating = FloatingIp(public=FLOATING, endpoint=IPv4Address("10.0.0.2"))
    return Vpc(
        id=name, tenant=f"tenant-{name}", vni=VNIS[name], subnets=subnets, endpoints=endpoints, rules=_rules(name),
        nat=NAT[name], direct_connects=(direct,) if name == "blue" else (),
        floating_ips=(floating,) if name == "red" else (),
    )  # fmt: skip


def ports_of(host: str) -> dict[tuple[int, int], str]:
    """Return the interfaces of a host's machines by (VNI, MAC), as VTEP drivers take them."""
    return {(VNIS[machine.vpc], machine.mac): machine.name for machine in PORTS if machine.host == host}


def _rules(name: str) -> tuple[SecurityRule, ...]:
    """Return a VPC's inward rules; traffic within the VPC and outwards is allowed by default."""
    into = Direction.IN
    ssh = SecurityRule(
        allow=True, direction=into, remote=ip_network("0.0.0.0/0"), protocol=Protocol.TCP, port_min=22, port_max=22
    )
    if name == "red":
        return (
            SecurityRule(allow=True, direction=into, remote=ip_network("10.9.0.0/24"), protocol=Protocol.ICMP),
            ssh,
        )
    if name == "blue":
        return (SecurityRule(allow=True, direction=into, remote=SITE_PREFIX),)
    return (SecurityRule(allow=True, direction=into, remote=ip_network("10.0.0.0/23"), protocol=Protocol.ICMP),)


def network() -> NetworkConfig:
    """Return the desired network: the VPCs, the peering of red and green, red's access to storage by NFS only."""
    storage = BorderRule(
        allow=True, vpc="red", realm=Network.STORAGE, remote=ip_network(f"{STORAGE_SERVER}/32"),
        protocol=Protocol.TCP, port_min=2049, port_max=2049,
    )  # fmt: skip
    return NetworkConfig(
        generation=1, vpcs=tuple(vpc(name) for name in VNIS),
        peerings=frozenset((Peering(a="green", b="red"),)), border=(storage,),
    )  # fmt: skip


def _on(prefix: IPv4Network, *addresses: IPv4Address) -> tuple[IPv4Interface, ...]:
    return tuple(IPv4Interface(f"{address}/{prefix.prefixlen}") for address in addresses)


ATTACHMENTS = (
    *(
        Attachment(
            node=host, segment="underlay", device="underlay", addresses=_on(UNDERLAY, ip), mtu_bytes=UNDERLAY_MTU_BYTES
        )
        for host, ip in HOSTS.items()
    ),
    *(
        Attachment(node=gateway, segment=segment, device=segment, mac=0x0200_00AA_0000 | number << 8 | place,
                   mtu_bytes=UNDERLAY_MTU_BYTES if segment == "underlay" else WAN_MTU_BYTES)
        for number, gateway in enumerate(GATEWAYS, 1)
        for place, segment in enumerate(("underlay", "wan", "customer", "provider"))
    ),
    *(
        Attachment(node=gateway, segment="heartbeats", device="heartbeats", addresses=_on(PARTNERS, ip))
        for gateway, ip in PARTNER_ADDRESS.items()
    ),
    Attachment(
        node=BALANCER, segment="underlay", device="underlay", mac=0x0200_00AA_0300, mtu_bytes=UNDERLAY_MTU_BYTES
    ),
    Attachment(node="internet", segment="wan", device="wan", addresses=_on(WAN, INTERNET_ROUTER)),
    Attachment(
        node="site", segment="customer", device="gateway", vlan=SITE_VLAN,
        addresses=_on(SITE_PREFIX, SITE_ROUTER, SITE_SERVER),
    ),
    Attachment(
        node="storage", segment="provider", device="provider", addresses=_on(PROVIDER, STORAGE_SERVER)
    ),
    Attachment(
        node="management", segment="provider", device="provider", addresses=_on(PROVIDER, MANAGEMENT_SERVER)
    ),
)  # fmt: skip
STRANGERS = {"internet": "203.0.113.2", "storage": "192.0.2.1", "management": "192.0.2.1"}
"""Nodes that route VPC addresses to gw1, which must drop these packets."""
SEGMENTS = ("underlay", "wan", "customer", "provider", "heartbeats")
NODES = tuple(dict.fromkeys(attachment.node for attachment in ATTACHMENTS))

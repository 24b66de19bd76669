"""Virtual networks as frozen values: VPCs, their peerings, and the border rules.

`incarnation` distinguishes what was made again from what was removed (`incarnations`). It is no part of what a user
wants, so values that differ in nothing else are equal.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from heddle.foundation.network import Network

Address = IPv4Address | IPv6Address
Prefix = IPv4Network | IPv6Network


class Direction(StrEnum):
    """Direction of a connection, as the VPC's endpoints see it."""

    IN = "in"
    OUT = "out"


class Protocol(IntEnum):
    """IP protocol of a rule, IANA number; ICMP includes ICMPv6."""

    ANY = 0
    ICMP = 1
    TCP = 6
    UDP = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A prefix of a VPC and the address of its gateway."""

    prefix: Prefix
    gateway: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address of a virtual machine or container, and the VTEP behind which it is."""

    ip: Address
    mac: int
    """48 bits."""
    vtep: IPv4Address


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityRule:
    """One rule of a VPC's security group; the first match decides."""

    allow: bool
    direction: Direction
    protocol: Protocol = Protocol.ANY
    remote: Prefix
    port_min: int = 0
    """Destination port range; 0 to 65535 for all. Ignored for ICMP."""
    port_max: int = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectConnect:
    """A customer's network, reached by a VLAN of the customer port."""

    vlan: int
    customer: Prefix
    next_hop: Address
    incarnation: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatingIp:
    """A public address mapped to one endpoint (1:1 NAT)."""

    public: IPv4Address
    endpoint: IPv4Address
    incarnation: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vpc:
    """A tenant's network; VPCs may use overlapping addresses."""

    id: str
    tenant: str = ""
    vni: int
    """1 to 2^24 - 1 (RFC 7348, 5)."""
    subnets: tuple[Subnet, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    rules: tuple[SecurityRule, ...] = ()
    nat: IPv4Address | None = None
    direct_connects: tuple[DirectConnect, ...] = ()
    floating_ips: tuple[FloatingIp, ...] = ()
    realm: Network = Network.BUSINESS
    incarnation: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Peering:
    """Two VPCs, ids in order, whose prefixes are routed to each other; security groups still apply."""

    a: str
    b: str
    incarnation: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BorderRule:
    """Rule for connections from a VPC to a provider network; the first match decides, the default is deny."""

    allow: bool
    vpc: str
    """Id of the VPC, or "*" for all."""
    realm: Network
    remote: Prefix
    """Addresses in that network."""
    protocol: Protocol = Protocol.ANY
    port_min: int = 0
    port_max: int = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPort:
    """A port of a gateway on a network that VPCs do not own, with the addresses that are in use there."""

    name: str
    address: IPv4Address | None = None
    """The gateway's own."""
    network: IPv4Network | None = None
    router: IPv4Address | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """All virtual networks of one generation."""

    generation: int = 0
    vpcs: tuple[Vpc, ...] = ()
    peerings: frozenset[Peering] = field(default_factory=frozenset)
    border: tuple[BorderRule, ...] = ()

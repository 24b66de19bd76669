"""Virtual networks as a gateway is told of them: VPCs, their peerings, and what may pass the border."""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Prefix = IPv4Network | IPv6Network


class Direction(StrEnum):
    """As the VPC's endpoints see it."""

    IN = "in"
    OUT = "out"


class Protocol(IntEnum):
    """What a rule speaks of, by IANA's number; ICMP stands for ICMPv6 as well."""

    ANY = 0
    ICMP = 1
    TCP = 6
    UDP = 17


class Realm(StrEnum):
    """The four networks of a GPU cluster, between which nothing passes that no rule allows."""

    COMPUTE = "compute"
    STORAGE = "storage"
    BUSINESS = "business"
    MANAGEMENT = "management"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A prefix of a VPC and the address at which its gateway answers."""

    prefix: Prefix
    gateway: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A virtual machine's or container's address, and the VTEP behind which it lives."""

    ip: Address
    mac: int
    """48 bits."""
    vtep: IPv4Address


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityRule:
    """One line of a VPC's security group; the first that matches decides."""

    allow: bool
    direction: Direction
    protocol: Protocol = Protocol.ANY
    remote: Prefix
    port_min: int = 0
    """Of the destination; 0 and 65,535 for all. For ICMP no ports are looked at."""
    port_max: int = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectConnect:
    """A customer's own network behind a VLAN of the customer port."""

    vlan: int
    customer: Prefix
    next_hop: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatingIp:
    """A public address that is one endpoint's alone."""

    public: IPv4Address
    endpoint: IPv4Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Vpc:
    """A tenant's network: its addresses may be those of any other VPC as well."""

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
    realm: Realm = Realm.BUSINESS


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Peering:
    """Two VPCs, by id in order, whose prefixes are routed to each other; security groups still decide."""

    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BorderRule:
    """What a VPC may open towards a network of the provider's; the first that matches decides, the rest is denied."""

    allow: bool
    vpc: str
    """Its id, or "*" for all."""
    realm: Realm
    remote: Prefix
    """Addresses in that network."""
    protocol: Protocol = Protocol.ANY
    port_min: int = 0
    port_max: int = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """All that a gateway serves, in one piece."""

    generation: int = 0
    vpcs: tuple[Vpc, ...] = ()
    peerings: frozenset[Peering] = field(default_factory=frozenset)
    border: tuple[BorderRule, ...] = ()

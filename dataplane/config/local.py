"""What one gateway process knows of itself: its interfaces, its limits, its share of a pair's work."""

from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network

from dataplane.config.network import Prefix, Realm


class Side(StrEnum):
    """What a port leads to."""

    UNDERLAY = "underlay"  # hosts and other gateways, by VXLAN
    EXTERNAL = "external"  # the internet: source NAT and floating IPs
    CUSTOMER = "customer"  # customers' routers, a VLAN each
    PROVIDER = "provider"  # the provider's storage and management networks, behind the border firewall


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """A port of the gateway. Port numbers count interfaces in the order in which they are given."""

    name: str
    side: Side
    mac: int
    address: IPv4Address | None = None
    """Underlay: the gateway's VTEP. External and provider: its own address there. Customer: none."""
    network: IPv4Network | None = None
    router: IPv4Address | None = None
    """Next hop for what is not in `network`."""
    mtu_bytes: int = 1500
    """Of IP packets, as everywhere in Linux; the VXLAN overhead of 50 bytes is taken from the underlay's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderNetwork:
    """Prefixes of one of the provider's own networks, reached by the provider port."""

    realm: Realm
    prefixes: tuple[Prefix, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """When an idle connection or mapping ends, in seconds, each with the RFC that asks for at least this."""

    udp_s: int = 300  # RFC 4787, REQ-5: not less than 120, 300 recommended
    udp_unanswered_s: int = 120  # the same, the least
    tcp_established_s: int = 7440  # RFC 5382, REQ-5: 2 hours 4 minutes
    tcp_transitory_s: int = 240  # RFC 5382, REQ-5: 4 minutes while opening or closing
    icmp_s: int = 60  # RFC 5508, REQ-2
    other_s: int = 600  # Linux's nf_conntrack_generic_timeout
    fragment_s: int = 30  # Linux's ipfrag_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes of the tables that fill by traffic, each a power of two; full means: new ones are refused and counted."""

    connections: int = 1 << 18
    """Two rows each: one a direction."""
    mappings: int = 1 << 16
    fragments: int = 1 << 12
    connections_per_endpoint: int = 1 << 16
    """So that one endpoint's flood leaves room for the others."""
    vpc_percent: int = 50
    """How much of each table one VPC may fill if it is alone; where n want more than there is, each gets as much, and
    for s % a part of 100 - s in 100 + (n - 1) s of it stays free for others. 100: as much as there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortShare:
    """The NAT ports that this gateway of a pair may give away; the others are its partner's."""

    first: int = 1024
    last: int = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalConfig:
    """One gateway."""

    gateway_id: str
    interfaces: tuple[Interface, ...]
    provider_networks: tuple[ProviderNetwork, ...] = ()
    nat_ports: PortShare = field(default_factory=PortShare)
    limits: Limits = field(default_factory=Limits)
    timeouts: Timeouts = field(default_factory=Timeouts)
    receive_frames: int = 1 << 14
    """That can wait in each receive queue while the gateway does not get to run; a power of two."""

"""Local configuration of one gateway: interfaces, provider networks, NAT ports, limits and timeouts."""

from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network

from heddle.dataplane.config.network import Prefix
from heddle.foundation.network import Network


class Side(StrEnum):
    """The network to which a port is attached."""

    UNDERLAY = "underlay"  # hosts and other gateways, by VXLAN
    EXTERNAL = "external"  # the internet: source NAT and floating IPs
    CUSTOMER = "customer"  # customers' routers, a VLAN each
    PROVIDER = "provider"  # the provider's storage and management networks, behind the border firewall


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """A port of the gateway. Port numbers are the indices of interfaces in configuration order."""

    name: str
    side: Side
    mac: int
    address: IPv4Address | None = None
    """Underlay: the gateway's VTEP. External and provider: its own address there. Customer: none."""
    network: IPv4Network | None = None
    router: IPv4Address | None = None
    """Next hop for addresses outside of `network`."""
    mtu_bytes: int = 1500
    """Of IP packets, as in Linux; on the underlay VXLAN uses 50 bytes of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderNetwork:
    """Prefixes of one of the provider's own networks, reached by the provider port."""

    realm: Network
    prefixes: tuple[Prefix, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Idle timeouts of connections and mappings in seconds, with the RFC that requires at least this."""

    udp_s: int = 300  # RFC 4787, REQ-5: not less than 120, 300 recommended
    udp_exchange_s: int = 10  # RFC 4787, REQ-5 a: below 120 for the well-known ports; a request and its reply, no more
    udp_unanswered_s: int = 120  # RFC 4787, REQ-5: the minimum
    tcp_established_s: int = 7440  # RFC 5382, REQ-5: 2 hours 4 minutes
    tcp_transitory_s: int = 240  # RFC 5382, REQ-5: 4 minutes while opening or closing
    icmp_s: int = 60  # RFC 5508, REQ-2
    other_s: int = 600  # Linux's nf_conntrack_generic_timeout
    fragment_s: int = 30  # Linux's ipfrag_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes of the tables that traffic fills, powers of two. A full table refuses new entries, which are counted."""

    connections: int = 1 << 20
    """Each takes two rows, one per direction."""
    mappings: int = 1 << 20
    fragments: int = 1 << 12
    connections_per_endpoint: int = 1 << 16
    """Keeps room for other endpoints when one floods the table."""
    vpc_percent: int = 50
    """Maximum percentage s of each table that one VPC may fill alone. If n VPCs compete they get equal parts, and a
    fraction (100 - s) / (100 + (n - 1) s) of the table stays free for others. 100: no limit."""
    endpoint_ports_percent: int = 94
    """Maximum percentage of the ports of a public address, for each protocol, that one endpoint alone may have: of all
    64,512 it gets 60,641, and others find the rest. 100: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortShare:
    """Range of NAT ports that this gateway of a pair may allocate; the partner uses others."""

    first: int = 1024
    last: int = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalConfig:
    """The local configuration of one gateway."""

    gateway_id: str
    interfaces: tuple[Interface, ...]
    provider_networks: tuple[ProviderNetwork, ...] = ()
    nat_ports: PortShare = field(default_factory=PortShare)
    limits: Limits = field(default_factory=Limits)
    timeouts: Timeouts = field(default_factory=Timeouts)
    receive_frames: int = 1 << 14
    """Capacity of each receive queue, frames; a power of two."""

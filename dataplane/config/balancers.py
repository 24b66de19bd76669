"""Load balancers as frozen values: virtual IPs, their back ends and health checks, and what one balancer serves."""

from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address

from heddle.dataplane.config.network import Address, NetworkConfig


class Service(StrEnum):
    """Protocol of a virtual IP."""

    TCP = "tcp"
    UDP = "udp"
    ROCE = "roce"


class Mode(StrEnum):
    """How a back end gets its packets."""

    DIRECT_RETURN = "direct_return"  # through VXLAN; it has the virtual IP, and replies to the client itself
    IP_IN_IP = "ip_in_ip"  # the same, at an address of the underlay, by RFC 2003
    FULL_NAT = "full_nat"  # it sees an address of the pool, and knows nothing of the virtual IP


class Probe(StrEnum):
    """Kind of a health check."""

    TCP = "tcp"
    HTTP = "http"
    UDP = "udp"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """When a back end counts as up."""

    kind: Probe = Probe.TCP
    path: str = "/"
    """Of an HTTP GET, whose status must be 200 to 399."""
    interval_ms: int = 1000
    timeout_ms: int = 500
    rise: int = 2
    """Successes in a row until a back end that was down is up; a new one needs only one."""
    fall: int = 3
    """Failures in a row until it is down."""
    passive: bool = False
    """Whether a back end is closed that answers none of its new connections (`balancer.silence`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEnd:
    """A back end of a virtual IP's port."""

    ip: Address
    port: int
    weight: int = 1
    draining: bool = False
    """No new connections; the old ones go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancer:
    """One port of a virtual IP in a VPC."""

    id: str
    tenant: str = ""
    vpc: str
    """Id of the VPC; virtual IPs of different VPCs may be equal."""
    vip: Address
    port: int
    protocol: Service = Service.TCP
    mode: Mode = Mode.DIRECT_RETURN
    back_ends: tuple[BackEnd, ...] = ()
    health: HealthCheck | None = None
    """None: every back end counts as up."""
    panic_when_all_down: bool = False
    """Use all back ends rather than refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualIp:
    """A virtual IP as hosts see it."""

    vpc: str
    ip: Address
    vteps: tuple[IPv4Address, ...]
    """VTEPs of the balancers that serve it, in order."""
    back_ends: tuple[Address, ...] = ()
    """Endpoints that send from it: the back ends of direct return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEndState:
    """The health of a back end, as one balancer's probes see it."""

    balancer: str
    """Id of the load balancer."""
    ip: Address
    port: int
    is_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What else a balancer must know of a VPC."""

    vpc: str
    pool: tuple[Address, ...] = ()
    """Source addresses of full NAT, which hosts reach at this balancer."""
    probe_device: str | None = None
    """The device of this host by which probes reach the VPC's back ends; None: by the host's routes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerConfig:
    """All that one balancer serves, as one generation."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    """The VPCs with their endpoints: clients and back ends."""
    balancers: tuple[LoadBalancer, ...] = ()
    sites: tuple[Site, ...] = ()
    gateways: tuple[IPv4Address, ...] = ()
    """VTEPs of the VPCs' gateways, from which clients outside of a VPC come."""


def balancer_mac(vni: int) -> int:
    """Return the MAC of a VPC's virtual IPs, 02:49:00 and the VNI; one for all balancers, and not the gateways'."""
    return 0x0249_0000_0000 | vni


POOL_MAC_BASE = 0x024A_0000_0000
"""Locally administered, unicast: 02:4a and the 32 bits of a VTEP."""


def pool_mac(vtep: IPv4Address) -> int:
    """Return the MAC of the pool addresses behind a balancer's VTEP.

    Back ends reply to a pool address at the balancer that translated: where hosts spread the MAC of virtual IPs over
    several balancers, it must not be that one.
    """
    return POOL_MAC_BASE | int(vtep)

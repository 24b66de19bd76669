"""A gateway's reachability in one form for both sides of the comparison: installed tables and intended network.

Addresses are 128-bit numbers, IPv4 as IPv4-mapped; a prefix is its first address and its length of 128.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

BITS = 128
V4_BITS = 96
ANY_PROTOCOL = 0
ANY_REALM = -1


class Span(NamedTuple):
    """A prefix."""

    first: int
    length: int

    def holds(self, address: int) -> bool:
        """Return whether an address is in the prefix; the family is not compared."""
        return not (address ^ self.first) >> (BITS - self.length)


class Rule(NamedTuple):
    """A rule of a list in which the first match decides."""

    allow: bool
    protocol: int
    family: int
    remote: Span
    low: int
    high: int

    def matches(self, address: int) -> bool:
        """Return whether the rule's remote prefix contains an address of its family."""
        return family_of(address) == self.family and self.remote.holds(address)


class Route(NamedTuple):
    """Destination of a route: none, the gateway itself, or a side and its number."""

    kind: str
    """"none", "discard", "gateway", "vpc" (VNI), "internet", "network" (realm), "customer" (VLAN)."""
    number: int = 0
    cause: str = ""
    """The route as text, for findings."""

    @property
    def is_out(self) -> bool:
        """Whether packets leave the VPC by this route."""
        return self.kind not in ("none", "discard", "gateway")


class Delivery(NamedTuple):
    """VNI, VTEP and MAC to which a packet for an endpoint is sent."""

    vni: int
    vtep: int
    mac: int


@dataclass(slots=True)
class VpcView:
    """Reachability of one VPC."""

    vni: int
    realm: int
    routes: dict[Span, Route] = field(default_factory=dict)
    deliveries: dict[int, Delivery] = field(default_factory=dict)
    """The VPC's endpoints, by address."""
    homes: dict[int, int] = field(default_factory=dict)
    """VTEP from which packets with this inner source address are accepted, by address."""
    replying: dict[int, frozenset[int]] = field(default_factory=dict)
    """Further VTEPs from which routed packets with this inner source address are accepted: of back ends that reply from
    a virtual IP, by its address."""
    speakers: frozenset[int] = frozenset()
    """VTEPs from which packets of this VNI are accepted."""
    inward: tuple[Rule, ...] = ()
    outward: tuple[Rule, ...] = ()
    border: Mapping[int, tuple[Rule, ...]] = field(default_factory=dict)
    """Border rules by realm of the provider network; under ANY_REALM if one list holds all of them."""
    nat: int = 0
    floating: dict[int, int] = field(default_factory=dict)
    """Public address by endpoint, for outgoing packets."""
    _lengths: tuple[int, ...] = ()

    def route(self, address: int) -> Route:
        """Return the longest-prefix route of an address that is no endpoint."""
        for length in self._lengths:
            found = self.routes.get(Span(address >> (BITS - length) << (BITS - length), length))
            if found is not None and (length >= V4_BITS or family_of(address) == 6):
                return found
        return Route("none")

    def at_border(self, realm: int) -> tuple[Rule, ...]:
        """Return the border rules for one provider network."""
        return self.border.get(realm, self.border.get(ANY_REALM, ()))

    def settle(self) -> None:
        """Index the routes by length; call it once all of them are added."""
        self._lengths = tuple(sorted({span.length for span in self.routes}, reverse=True))


@dataclass(slots=True)
class View:
    """Reachability of a whole gateway."""

    vpcs: dict[int, VpcView] = field(default_factory=dict)
    """By VNI."""
    floating_in: dict[int, tuple[int, int]] = field(default_factory=dict)
    """VNI and endpoint by public address, for incoming packets."""
    nat_in: frozenset[int] = frozenset()
    """NAT addresses: packets to them pass if they match a mapping."""
    customers: dict[tuple[int, int], tuple[int, Span]] = field(default_factory=dict)
    """VNI and prefix by VLAN and family of the packet; a family without a connection has that of the other one."""


def family_of(address: int) -> int:
    """Return 4 for an IPv4-mapped address, else 6."""
    return 4 if address >> 32 == 0xFFFF else 6


def shown(address: int) -> str:
    """Return an address as text."""
    return str(IPv4Address(address & 0xFFFF_FFFF) if family_of(address) == 4 else IPv6Address(address))


def span_text(span: Span) -> str:
    """Return a prefix as text."""
    is_v4 = span.length >= V4_BITS and family_of(span.first) == 4
    return f"{shown(span.first)}/{span.length - V4_BITS if is_v4 else span.length}"

"""What a gateway lets through, in one form for both sides: what its tables say (`installed`) and what was wanted.

Addresses are numbers of 128 bits, IPv4 as IPv4-mapped; so a prefix is a length of 128 and its first address.
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
        """Say whether an address is in it, of whichever family."""
        return not (address ^ self.first) >> (BITS - self.length)


class Rule(NamedTuple):
    """A line of a list whose first match decides."""

    allow: bool
    protocol: int
    family: int
    remote: Span
    low: int
    high: int

    def speaks_of(self, address: int) -> bool:
        """Say whether an address is one that it means."""
        return family_of(address) == self.family and self.remote.holds(address)


class Way(NamedTuple):
    """Where a route leads: nowhere, the gateway itself, or the side and its number."""

    kind: str
    """"none", "discard", "gateway", "vpc" (VNI), "internet", "network" (realm), "customer" (VLAN)."""
    number: int = 0
    cause: str = ""
    """The route, for people."""

    @property
    def is_out(self) -> bool:
        """Say whether packets leave by it."""
        return self.kind not in ("none", "discard", "gateway")


class Delivery(NamedTuple):
    """What becomes of a packet to an endpoint: the VNI, VTEP and MAC that it is sent to."""

    vni: int
    vtep: int
    mac: int


@dataclass(slots=True)
class VpcView:
    """One VPC."""

    vni: int
    realm: int
    routes: dict[Span, Way] = field(default_factory=dict)
    deliveries: dict[int, Delivery] = field(default_factory=dict)
    """By address: its own endpoints."""
    homes: dict[int, int] = field(default_factory=dict)
    """By address: the VTEP from which packets may come that say they are that endpoint."""
    speakers: frozenset[int] = frozenset()
    """VTEPs whose packets of this VNI are looked at."""
    inward: tuple[Rule, ...] = ()
    outward: tuple[Rule, ...] = ()
    border: Mapping[int, tuple[Rule, ...]] = field(default_factory=dict)
    """By realm of the provider's network; under ANY_REALM where rules speak of all of them."""
    nat: int = 0
    floating: dict[int, int] = field(default_factory=dict)
    """Public addresses by endpoint: on the way out."""
    _lengths: tuple[int, ...] = ()

    def way(self, address: int) -> Way:
        """Return where the longest route of an address that is no endpoint leads."""
        for length in self._lengths:
            found = self.routes.get(Span(address >> (BITS - length) << (BITS - length), length))
            if found is not None and (length >= V4_BITS or family_of(address) == 6):
                return found
        return Way("none")

    def at_border(self, realm: int) -> tuple[Rule, ...]:
        """Return the rules for packets to one of the provider's networks."""
        return self.border.get(realm, self.border.get(ANY_REALM, ()))

    def settle(self) -> None:
        """Say that all routes are there."""
        self._lengths = tuple(sorted({span.length for span in self.routes}, reverse=True))


@dataclass(slots=True)
class View:
    """A whole gateway."""

    vpcs: dict[int, VpcView] = field(default_factory=dict)
    """By VNI."""
    floating_in: dict[int, tuple[int, int]] = field(default_factory=dict)
    """VNI and endpoint by public address: on the way in."""
    nat_in: frozenset[int] = frozenset()
    """Public addresses whose mappings let answers in."""
    customers: dict[int, tuple[int, Span]] = field(default_factory=dict)
    """VNI and prefix by VLAN."""


def family_of(address: int) -> int:
    """Return 4 for an IPv4-mapped address, else 6."""
    return 4 if address >> 32 == 0xFFFF else 6


def shown(address: int) -> str:
    """Return an address as people write it."""
    return str(IPv4Address(address & 0xFFFF_FFFF) if family_of(address) == 4 else IPv6Address(address))


def span_text(span: Span) -> str:
    """Return a prefix as people write it."""
    is_v4 = span.length >= V4_BITS and family_of(span.first) == 4
    return f"{shown(span.first)}/{span.length - V4_BITS if is_v4 else span.length}"

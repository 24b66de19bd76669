"""Evaluate one packet against a gateway's tables: may it open a connection, and if not, for which reason is it dropped?

The verdict is computed independently of the packet kernels, so that tests can compare the two. It is about packets that
open a connection; packets of an established connection always pass.
"""

from dataclasses import dataclass

from heddle.dataplane.config.network import Address
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.verify.intended import number
from heddle.dataplane.verify.traffic import ICMP, ROCE_PORT, UDP
from heddle.dataplane.verify.view import ANY_PROTOCOL, Rule, View, VpcView, family_of

ICMPV6 = 58
LOW_32 = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class FromEndpoint:
    """A packet received by VXLAN: its VNI, outer and inner source address."""

    vni: int
    vtep: Address
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class FromCustomer:
    """A packet received on a VLAN of the customer port."""

    vlan: int
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class FromInternet:
    """A packet received on the external port."""

    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class FromProvider:
    """A packet received on the provider port."""

    address: Address


Source = FromEndpoint | FromCustomer | FromInternet | FromProvider


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a packet is sent, or the reason why it is dropped; `drop` is None if it passes."""

    drop: Drop | None
    where: str = ""
    """"vpc", "customer", "internet", "network" or "gateway"."""
    vni: int = 0
    """VNI of the destination VPC."""

    @property
    def passes(self) -> bool:
        """Whether the packet passes."""
        return self.drop is None


class Judge:
    """Evaluates packets against one view; create it once for many packets."""

    def __init__(self, view: View) -> None:
        self._view = view

    def verdict(self, source: Source, target: Address, protocol: int, port: int = 0) -> Verdict:
        """Return the verdict on the first packet of a connection."""
        packet = _Packet(number(source.address), number(target), ICMP if protocol == ICMPV6 else protocol, port)
        match source:
            case FromEndpoint():
                return self._from_endpoint(source, packet)
            case FromCustomer():
                return self._from_customer(source, packet)
            case FromInternet():
                return self._from_internet(packet)
        return Verdict(Drop.DENIED_BORDER)

    def _from_endpoint(self, source: FromEndpoint, packet: "_Packet") -> Verdict:
        vpc = self._view.vpcs.get(source.vni)
        if vpc is None:
            return Verdict(Drop.UNKNOWN_VNI)
        if int(source.vtep) not in vpc.speakers:
            return Verdict(Drop.UNKNOWN_VTEP)
        if vpc.homes.get(packet.source) != int(source.vtep):
            return Verdict(Drop.SPOOFED_SOURCE)
        if packet.target in vpc.deliveries:
            return self._into(vpc, vpc, packet, default=True)
        route = vpc.route(packet.target)
        if route.kind == "vpc":
            peer = self._view.vpcs.get(route.number)
            if peer is None or packet.target not in peer.deliveries:
                return Verdict(Drop.NO_ROUTE)
            return self._into(vpc, peer, packet, default=False)
        if not route.is_out:
            stops = {"none": Drop.NO_ROUTE, "discard": Drop.DISCARD_ROUTE, "gateway": None}
            return Verdict(stops[route.kind], route.kind)
        if route.kind != "customer" and packet.is_roce:
            return Verdict(Drop.ROCE_NOT_TRANSLATED)
        if not packet.passes(vpc.outward, packet.target, default=True):
            return Verdict(Drop.DENIED_OUT)
        if route.kind == "customer":
            return Verdict(None, "customer")
        if route.kind == "network" and not packet.passes(vpc.at_border(route.number), packet.target, default=False):
            return Verdict(Drop.DENIED_BORDER)
        if family_of(packet.target) != 4:
            return Verdict(Drop.NO_NAT)
        return Verdict(None, "network") if route.kind == "network" else self._to_internet(vpc, packet)

    def _to_internet(self, vpc: VpcView, packet: "_Packet") -> Verdict:
        public = vpc.floating.get(packet.source & LOW_32, vpc.nat)
        if not public:
            return Verdict(Drop.NO_NAT)
        target = packet.target & LOW_32
        if target in self._view.floating_in or target in self._view.nat_in:
            return self._by_public_address(_Packet(0xFFFF << 32 | public, packet.target, packet.protocol, packet.port))
        return Verdict(None, "internet")

    def _into(self, vpc: VpcView, there: VpcView, packet: "_Packet", *, default: bool) -> Verdict:
        if not packet.passes(vpc.outward, packet.target, default=True):
            return Verdict(Drop.DENIED_OUT)
        if not packet.passes(there.inward, packet.source, default=default):
            return Verdict(Drop.DENIED_IN)
        return Verdict(None, "vpc", there.deliveries[packet.target].vni)

    def _from_customer(self, source: FromCustomer, packet: "_Packet") -> Verdict:
        known = self._view.customers.get((source.vlan, family_of(packet.source)))
        vpc = self._view.vpcs.get(known[0]) if known else None
        if known is None or vpc is None:
            return Verdict(Drop.UNKNOWN_VLAN)
        if not known[1].holds(packet.source):
            return Verdict(Drop.SPOOFED_SOURCE)
        if packet.target not in vpc.deliveries:
            kind = vpc.route(packet.target).kind
            stops = {"gateway": None, "discard": Drop.DISCARD_ROUTE}
            return Verdict(stops.get(kind, Drop.NO_ROUTE), kind)
        if not packet.passes(vpc.inward, packet.source, default=False):
            return Verdict(Drop.DENIED_IN)
        return Verdict(None, "vpc", vpc.vni)

    def _from_internet(self, packet: "_Packet") -> Verdict:
        source = packet.source & LOW_32
        if family_of(packet.source) != 4 or family_of(packet.target) != 4:
            return Verdict(Drop.NO_MAPPING)
        if source in self._view.nat_in or source in self._view.floating_in:
            return Verdict(Drop.SPOOFED_SOURCE)
        return self._by_public_address(packet)

    def _by_public_address(self, packet: "_Packet") -> Verdict:
        known = self._view.floating_in.get(packet.target & LOW_32)
        vpc = self._view.vpcs.get(known[0]) if known else None
        if vpc is None:
            return Verdict(Drop.NO_MAPPING)
        if packet.is_roce:
            return Verdict(Drop.ROCE_NOT_TRANSLATED)
        if vpc.route(packet.source).kind != "internet":
            return Verdict(Drop.MARTIAN)
        if not packet.passes(vpc.inward, packet.source, default=False):
            return Verdict(Drop.DENIED_IN)
        return Verdict(None, "vpc", vpc.vni)


@dataclass(frozen=True, slots=True)
class _Packet:
    source: int
    target: int
    protocol: int
    port: int

    @property
    def is_roce(self) -> bool:
        return self.protocol == UDP and self.port == ROCE_PORT

    def passes(self, rules: tuple[Rule, ...], remote: int, *, default: bool) -> bool:
        """Return the decision of the first rule that matches, else `default`."""
        for rule in rules:
            same = rule.matches(remote) and rule.protocol in (ANY_PROTOCOL, self.protocol)
            if same and (self.protocol == ICMP or rule.low <= self.port <= rule.high):
                return rule.allow
        return default

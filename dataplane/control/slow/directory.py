"""Addresses for which a gateway answers ARP and neighbour solicitations: by port, by VPC and by customer VLAN.

A directory is built for each generation of the configuration; a VPC is indexed when it is first looked up.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from typing import NamedTuple

from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.config.local import LocalConfig, Side
from heddle.dataplane.config.network import Address, NetworkConfig, Prefix, Vpc
from heddle.dataplane.control.slow.discovery import link_local
from heddle.dataplane.control.slow.neighbours import Place

MAX_ANNOUNCED = 1024
"""Addresses announced on one customer's VLAN; other cache entries are refreshed when they age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """Groups of addresses for which this gateway of a pair answers at present."""

    own: bool = True
    """Its own interfaces' addresses."""
    public: bool = True
    """NAT and floating addresses, and customers' VLANs."""
    taken: Mapping[int, IPv4Address] = field(default_factory=dict)
    """Addresses taken over from the partner, by port number."""

    @property
    def serves(self) -> bool:
        """Whether the gateway answers for any address."""
        return self.own or bool(self.taken)


class Port(NamedTuple):
    """An interface; MAC and address are bytes in network order."""

    side: Side
    mac: bytes
    own: bytes | None


class Station(NamedTuple):
    """An endpoint's MAC and the VTEP behind which it is."""

    mac: bytes
    vtep: bytes


class Tenant:
    """A VPC's endpoints and gateways, indexed by address."""

    def __init__(self, vpc: Vpc) -> None:
        self.vni = vpc.vni
        self.mac = gateway_mac(vpc.vni).to_bytes(6, "big")
        self.endpoints = {
            each.ip.packed: Station(each.mac.to_bytes(6, "big"), each.vtep.packed) for each in vpc.endpoints
        }
        self.stations = set(self.endpoints.values())
        self._subnets: tuple[tuple[Prefix, bytes], ...] = tuple((s.prefix, s.gateway.packed) for s in vpc.subnets)
        self.gateways = {gateway for _, gateway in self._subnets}
        if any(len(gateway) == 16 for gateway in self.gateways):
            self.gateways.add(link_local(self.mac))

    def gateway_towards(self, address: bytes) -> bytes | None:
        """Return the gateway address to send from towards an address: of its subnet, else the first of its family."""
        number = int.from_bytes(address, "big")
        first = None
        for prefix, gateway in self._subnets:
            if len(gateway) == len(address):
                if int(prefix.network_address) == number & int(prefix.netmask):
                    return gateway
                first = first or gateway
        return first

    def is_broadcast(self, address: bytes) -> bool:
        """Return whether an address is the broadcast address of a subnet (RFC 1812, 5.3.5)."""
        return len(address) == 4 and any(
            prefix.version == 4 and prefix.prefixlen < 31 and prefix.broadcast_address.packed == address
            for prefix, _ in self._subnets
        )


class Directory:
    """The addresses of one generation of the configuration."""

    def __init__(self, local: LocalConfig, network: NetworkConfig, duty: Duty | None = None) -> None:
        self.duty = duty or Duty()
        self.ports = tuple(
            Port(each.side, each.mac.to_bytes(6, "big"), each.address.packed if each.address else None)
            for each in local.interfaces
        )
        self._vpcs = {vpc.vni: vpc for vpc in network.vpcs}
        self._vlans = {connect.vlan: vpc.vni for vpc in network.vpcs for connect in vpc.direct_connects}
        self._tenants: dict[int, Tenant] = {}
        self._floating = frozenset(floating.public.packed for vpc in network.vpcs for floating in vpc.floating_ips)
        self._public = self._floating.union(vpc.nat.packed for vpc in network.vpcs if vpc.nat)
        self._held = self._held_by_duty()

    def on_duty(self, duty: Duty) -> "Directory":
        """Return a directory of the same addresses for another duty."""
        made = copy(self)
        made.duty = duty
        made._held = made._held_by_duty()
        return made

    def _held_by_duty(self) -> tuple[frozenset[bytes], ...]:
        public = self._public if self.duty.public else frozenset[bytes]()
        return tuple(self._held_on(number, public) for number in range(len(self.ports)))

    def _held_on(self, number: int, public: frozenset[bytes]) -> frozenset[bytes]:
        port, found = self.ports[number], set[bytes]()
        if self.duty.own and port.own:
            found.add(port.own)
        if number in self.duty.taken:
            found.add(self.duty.taken[number].packed)
        if port.side is Side.EXTERNAL:
            found |= public
        return frozenset(found)

    def port(self, number: int) -> Port | None:
        """Return a port by number; None if there is none."""
        return self.ports[number] if 0 <= number < len(self.ports) else None

    def tenant(self, vni: int) -> Tenant | None:
        """Return a VPC by its VNI; None if there is none."""
        found = self._tenants.get(vni)
        if found is None and vni in self._vpcs:
            found = self._tenants[vni] = Tenant(self._vpcs[vni])
        return found

    def customer(self, vlan: int) -> Tenant | None:
        """Return the VPC of a customer's VLAN; None if there is none."""
        return self.tenant(self._vlans.get(vlan, 0))

    def holds(self, number: int, address: bytes) -> bool:
        """Return whether the gateway answers requests for an address on a port."""
        return address in self._held[number]

    def answers_ping(self, number: int, address: bytes) -> bool:
        """Return whether the gateway itself replies to pings of an address; a floating IP belongs to its endpoint."""
        return address in self._held[number] and address not in self._floating

    def source_for(self, place: Place) -> bytes | None:
        """Return the source address of an ARP request for a neighbour; None for a probe without one.

        A gateway that does not serve sends probes: a source address would attract its partner's packets.
        """
        if len(place.address) == 16:
            return None
        port = self.ports[place.port]
        if port.side is not Side.CUSTOMER:
            return port.own if self.duty.own else None
        tenant = self.customer(place.vlan)
        return tenant.gateway_towards(place.address) if tenant and self.duty.public else None

    def to_announce(self) -> Iterator[Place]:
        """Yield all addresses for which the gateway answers, to be announced after a takeover."""
        for number, port in enumerate(self.ports):
            for address in sorted(self._held[number]):
                yield Place(number, 0, address)
            if port.side is Side.CUSTOMER and self.duty.public:
                for vlan in sorted(self._vlans):
                    tenant = self.customer(vlan)
                    if tenant is not None:
                        addresses = [*sorted(tenant.gateways), *tenant.endpoints][:MAX_ANNOUNCED]
                        yield from (Place(number, vlan, address) for address in addresses)


def neighbour_key(place: Place) -> tuple[int, Address]:
    """Return the table compiler's key of a neighbour: link (VLAN and port number) and address."""
    return place.vlan << 16 | place.port, ip_address(place.address)

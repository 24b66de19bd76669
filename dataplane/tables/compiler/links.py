"""A gateway's own ports, and the adjacencies that packets leave by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from heddle.dataplane.config.local import LocalConfig, Side
from heddle.dataplane.config.network import Address
from heddle.dataplane.tables.schema import SIDES

VXLAN_OVERHEAD_BYTES = 50
"""Bytes around an inner IP packet: Ethernet 14, VXLAN 8, UDP 8, IPv4 20 (RFC 7348, 5)."""


def link_of(port: int, vlan: int = 0) -> int:
    """Return the number of a link: the port itself, or one VLAN of it."""
    return vlan << 16 | port


@dataclass(frozen=True, slots=True)
class Adjacency:
    """A neighbour on a port. `mac` is 0 while the neighbour's `address` is not resolved."""

    port: int
    address: Address | None
    mac: int


class Links:
    """The gateway's interfaces by side, and its known neighbours."""

    def __init__(self, local: LocalConfig, neighbours: Mapping[tuple[int, Address], int]) -> None:
        self.interfaces = local.interfaces
        self.providers = local.provider_networks
        self._neighbours = neighbours
        by_side: dict[Side, list[int]] = {side: [] for side in Side}
        for port, interface in enumerate(local.interfaces):
            by_side[interface.side].append(port)
        self.underlays = by_side[Side.UNDERLAY]
        self.external, self.customer, self.provider = (
            next(iter(by_side[side]), None) for side in (Side.EXTERNAL, Side.CUSTOMER, Side.PROVIDER)
        )
        self._on_link = {port: self._known_on(port) for port in (self.external, self.provider) if port is not None}

    @property
    def vtep(self) -> IPv4Address:
        """The gateway's own VTEP: the address of the first underlay port."""
        return self.interfaces[self.underlays[0]].address or IPv4Address(0)

    @property
    def inner_mtu_bytes(self) -> int:
        """The largest IP packet that fits into a VXLAN packet on the first underlay port."""
        return self.interfaces[self.underlays[0]].mtu_bytes - VXLAN_OVERHEAD_BYTES

    def to_vtep(self, vtep: IPv4Address) -> Adjacency:
        """Return the adjacency towards a VTEP: on the underlay port with its network, otherwise the first router."""
        for port in self.underlays:
            network = self.interfaces[port].network
            if network is not None and vtep in network:
                return self.to(port, vtep)
        with_router = [port for port in self.underlays if self.interfaces[port].router]
        port = with_router[0] if with_router else self.underlays[0]
        return self.to(port, self.interfaces[port].router or vtep)

    def to_router(self, port: int) -> Adjacency:
        """Return the router for addresses beyond a port's own network; its address is None if none is configured."""
        router = self.interfaces[port].router
        return self.to(port, router) if router else Adjacency(port, None, 0)

    def to(self, port: int, address: Address, vlan: int = 0) -> Adjacency:
        """Return the adjacency of an address on a link."""
        return Adjacency(port, address, self._neighbours.get((link_of(port, vlan), address), 0))

    def on_link(self, port: int) -> Sequence[tuple[IPv4Address, Adjacency]]:
        """Return the known neighbours on a port's own network, without its router, sorted by address."""
        return self._on_link[port]

    def _known_on(self, port: int) -> Sequence[tuple[IPv4Address, Adjacency]]:
        interface = self.interfaces[port]
        found = [
            (address, Adjacency(port, address, mac))
            for (link, address), mac in self._neighbours.items()
            if link == port and isinstance(address, IPv4Address) and interface.network and address in interface.network
        ]
        return sorted((each for each in found if each[0] != interface.router), key=lambda each: each[0])

    def port_row(self, port: int) -> tuple[int, int, int, int]:
        """Return a row of `Tables.ports`."""
        interface = self.interfaces[port]
        return SIDES.index(interface.side), interface.mac, int(interface.address or 0), interface.mtu_bytes


def address_words(address: Address | None) -> tuple[int, int]:
    """Return `address_hi` and `address` of a hop: an IPv4 address is the low word alone."""
    if isinstance(address, IPv6Address):
        return signed(int(address) >> 64), signed(int(address))
    return 0, int(address or 0)


def signed(word: int) -> int:
    """Return the low 64 bits of a number as an int64."""
    word &= (1 << 64) - 1
    return word - (1 << 64) if word >> 63 else word

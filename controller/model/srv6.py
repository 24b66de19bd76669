"""Name paths by SRv6 uSIDs (RFC 9800, NEXT-C-SID): a pure function of the fabric and the links of a path.

A destination address holds a path:

    block 32 | uSID 16 | uSID 16 | … six at most | 0

Each plane has a block of its own: that of the fabric file, and the number of the plane. A switch reads the first uSID;
one of its own it shifts away, so that the next one follows the block. Numbers follow
from datapath ids and port numbers, so they stay when the fabric grows. The style `cable` is the exception: a port
number past a power of two renumbers every switch.

    0x0001 … 0xdfff   a switch: its datapath id; in the style `cable` also the end of a cable
    0xe001 … 0xfffe   a port: 0xe000 and its number, the same at every switch
    0xffff            every host, after a uA at its leaf's port
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cached_property
from typing import NamedTuple

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, SteeredBy
from heddle.controller.model.srv6_settings import LastHop, Style

BLOCK_BITS, USID_BITS, ADDRESS_BITS = 32, 16, 128
MAX_USIDS = (ADDRESS_BITS - BLOCK_BITS) // USID_BITS
MAX_NODE = 0xDFFF
"""The highest uSID of a switch: lower ones are of the global block, higher ones local to a switch."""
PORT_USIDS = 0xE000
MAX_PORT = 0x1FFE
HOST_USID = 0xFFFF


class Action(Enum):
    """What a switch does with a packet whose first uSID it has an entry of."""

    NODE = auto()
    """uN: shift the uSID away and look up the next one."""
    ADJACENCY = auto()
    """uA: shift the uSID away and send by the entry's port."""
    ROUTE = auto()
    """Send by the entry's port, as the packet is."""


class Entry(NamedTuple):
    """An entry of a switch for one uSID; `port` is its own port by which it sends, None for its own uSIDs."""

    usid: int
    action: Action
    port: PortRef | None = None


def address_of(block: int, usids: Iterable[int]) -> int:
    """Return the IPv6 address that holds up to six uSIDs; raises ValueError for more."""
    found = tuple(usids)
    if len(found) > MAX_USIDS:
        raise ValueError(f"{len(found)} uSIDs do not fit the {MAX_USIDS} of an address")
    value = block << (ADDRESS_BITS - BLOCK_BITS)
    for place, usid in enumerate(found, start=1):
        value |= usid << (ADDRESS_BITS - BLOCK_BITS - USID_BITS * place)
    return value


class Sids:
    """The addresses of paths, and the entries of switches, of one fabric."""

    def __init__(self, fabric: Fabric) -> None:
        """Use the fabric's own settings."""
        self._fabric = fabric
        _, self._style, self._last_hop = fabric.srv6

    def block(self, switch: str) -> int:
        """Return the block of a switch's plane: the first 32 bits of addresses there."""
        return self._fabric.srv6.block + self._fabric.plane_of_switch[switch]

    @cached_property
    def ports_per_switch(self) -> int:
        """Return how many uSIDs a switch takes in the style `cable`: a power of two above all its port numbers."""
        ports = (end.number for cable in self._fabric.cables for end in (cable.lower, cable.upper))
        return 1 << max(ports, default=0).bit_length()

    def node(self, switch: str) -> int:
        """Return the uSID of a switch."""
        number = self._fabric.switch_by_id[switch].datapath_id
        return number * self.ports_per_switch if self._style is Style.CABLE else number

    def usids(self, links: Iterable[str], nic: str) -> tuple[int, ...]:
        """Return the uSIDs of a path of directed links that ends at a NIC; links of NICs are left out."""
        cables = self._fabric.cable_by_link
        ends = [_ends(cables[link], link) for link in links if link in cables]
        if self._style is Style.UA:
            path = [_local(source) for source, _ in ends]
        elif self._style is Style.UN:
            path = [self.node(target.switch) for _, target in ends]
        else:
            path = [self._cable_end(target) for _, target in ends]
        return (*path, *self._to_nic(self._fabric.nic_by_id[nic]))

    def of_port(self, link: str) -> int:
        """Return the uA by which a switch sends over a link between switches."""
        return _local(_ends(self._fabric.cable_by_link[link], link)[0])

    def destination(self, links: Iterable[str], nic: str) -> int:
        """Return the destination address of packets that take these links to a NIC."""
        return address_of(self._block_of(nic), self.usids(links, nic))

    def refused_at(self, links: Sequence[str], nic: str, left: int) -> str | None:
        """Return the link that a packet of this path did not take where `left` was its destination address.

        `links` are those from NIC to NIC. None for an address that is not what the path leaves on its way.
        """
        usids, block = self.usids(links, nic), self._block_of(nic)
        for at, link in enumerate(links[1:]):
            if at < len(usids) and address_of(block, usids[at:]) == left:
                return link
        return None

    def source(self, nic: Nic) -> int:
        """Return the source address of a NIC: a path from any switch that has a route to the leaf's uSID."""
        return address_of(self.block(nic.port.switch), (self.node(nic.port.switch), *self._to_nic(nic)))

    def arriving(self, nic: Nic) -> int:
        """Return the destination address that packets of any path have when they reach a NIC: the last uSID alone."""
        return address_of(self.block(nic.port.switch), self._to_nic(nic)[-1:])

    def locator(self, switch: str) -> int:
        """Return the address with a switch's own uSID alone: a /48 prefix."""
        return address_of(self.block(switch), (self.node(switch),))

    def prefix(self, usid: int, switch: str = "") -> int:
        """Return the address with one uSID of a switch's plane, by default the first: a /48 prefix."""
        return address_of(self.block(switch) if switch else self._fabric.srv6.block, (usid,))

    def entries(self, switch: str) -> tuple[Entry, ...]:
        """Return what a switch has to hold, its own uSID first, then by uSID: constant, whatever the plan."""
        found = {self.node(switch): Entry(self.node(switch), Action.NODE)}
        for own, far in self._cables_of(switch):
            for entry in self._of_cable(own, far):
                found.setdefault(entry.usid, entry)
        last = Action.ROUTE if self._last_hop is LastHop.ROUTE else Action.ADJACENCY
        for nic in self._fabric.nics_of_leaf.get(switch, ()):
            found[_local(nic.port)] = Entry(_local(nic.port), last, nic.port)
        own_usid = found.pop(self.node(switch))
        return (own_usid, *(found[usid] for usid in sorted(found)))

    def _block_of(self, nic: str) -> int:
        return self.block(self._fabric.nic_by_id[nic].port.switch)

    def _of_cable(self, own: PortRef, far: PortRef) -> Iterator[Entry]:
        """Yield the entries of a switch that one of its cables needs."""
        if self._style is Style.UA:
            yield Entry(_local(own), Action.ADJACENCY, own)
        elif self._style is Style.UN:
            yield Entry(self.node(far.switch), Action.ROUTE, own)
        else:
            yield Entry(self._cable_end(own), Action.NODE)
            yield Entry(self._cable_end(far), Action.ROUTE, own)

    def _cables_of(self, switch: str) -> Iterator[tuple[PortRef, PortRef]]:
        yield from ((cable.lower, cable.upper) for cable in self._fabric.up_choices[switch])
        yield from ((cable.upper, cable.lower) for cable in self._fabric.down_cables[switch])

    def _cable_end(self, port: PortRef) -> int:
        return self.node(port.switch) + port.number

    def _to_nic(self, nic: Nic) -> tuple[int, ...]:
        return (_local(nic.port),) if self._last_hop is LastHop.ROUTE else (_local(nic.port), HOST_USID)


def sids_of(fabric: Fabric) -> Sids | None:
    """Return the addresses of a fabric whose packets name their paths, None of another."""
    return Sids(fabric) if fabric.steered_by is SteeredBy.SRV6 else None


def with_other_sids(before: Fabric, after: Fabric) -> tuple[str, ...] | None:
    """Return the switches that are to hold other static SIDs than before, () for all of them; None for none."""
    was, now = _entries_of(before), _entries_of(after)
    found = tuple(switch for switch, entries in now.items() if was.get(switch) != entries)
    return None if not found else () if len(found) == len(now) else found


def _entries_of(fabric: Fabric) -> Mapping[str, tuple[int, tuple[Entry, ...]]]:
    """Return the block and the entries of each switch; empty where packets name no paths."""
    sids = sids_of(fabric)
    return {} if sids is None else {each.id: (sids.block(each.id), sids.entries(each.id)) for each in fabric.switches}


def prefix_text(address: int) -> str:
    """Return the prefix of an address with one uSID."""
    return f"{ipv6_text(address)}/{BLOCK_BITS + USID_BITS}"


def _local(port: PortRef) -> int:
    return PORT_USIDS + port.number


def _ends(cable: Cable, link: str) -> tuple[PortRef, PortRef]:
    """Return the ports at the beginning and at the end of a directed link."""
    return (cable.lower, cable.upper) if link == cable.up_link else (cable.upper, cable.lower)

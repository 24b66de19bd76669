"""Next hops of the forwarding tables, and encapsulation of packets that the data process cannot send itself.

Such a packet is translated and its TTL is decremented. It exceeds the MTU and has to be fragmented, or the MAC of its
next hop is unknown: the newest few packets wait for the MAC (RFC 1122, 2.3.2.2).
"""

from collections import deque
from typing import NamedTuple

from heddle.dataplane.control.slow.frames import ethernet, vxlan
from heddle.dataplane.control.slow.neighbours import Place
from heddle.dataplane.control.slow.view import EthernetFrame
from heddle.dataplane.jit import Bytes, Rows
from heddle.dataplane.packet.ethernet import IPV4
from heddle.dataplane.tables.schema import CUSTOMER, EXTERNAL, PROVIDER, TUNNEL, Tables

_SENDING = (TUNNEL, EXTERNAL, CUSTOMER, PROVIDER)
_OUTER_SOURCE, _OUTER_TARGET, _OUTER_VNI = slice(26, 30), slice(30, 34), slice(46, 49)
MAX_WAITING, MAX_WAITING_FOR_ONE = 256, 3


class Hop(NamedTuple):
    """A next hop: a station on a link."""

    place: Place | None
    """The neighbour to resolve; None if the packet's destination is itself on the link."""
    port: int
    vlan: int
    mtu_bytes: int
    mac: bytes | None
    """MAC of the station; None while it is not resolved in the tables."""
    source_mac: bytes
    inner_mac: bytes
    """MAC of the endpoint, for a tunnel."""
    outer: bytes
    """Template of the outer headers of a tunnel; empty for other next hops."""


class NextHops:
    """The next hops of one generation of tables."""

    def __init__(self, hops: Rows, templates: Bytes) -> None:
        self._hops, self._templates = hops, templates

    @staticmethod
    def of(tables: Tables) -> "NextHops":
        """Return the next hops of these tables."""
        return NextHops(tables.next_hops, tables.templates)

    def needed(self) -> list[Place]:
        """Return the neighbours to resolve for the next hops, without duplicates."""
        hops = self._hops
        named = hops[(hops["port"] >= 0) & ((hops["address"] != 0) | (hops["address_hi"] != 0))]
        columns = (named[name].tolist() for name in ("port", "vlan", "address_hi", "address"))
        rows = dict.fromkeys(zip(*columns, strict=True))
        return [Place(port, vlan, _packed(high, low)) for port, vlan, high, low in rows]

    def hop(self, row: int) -> Hop | None:
        """Return the next hop of a row; None for a row that sends to no station."""
        if not 0 <= row < len(self._hops):
            return None
        hop = self._hops[row]
        if hop["kind"] not in _SENDING or hop["port"] < 0:
            return None
        port, vlan, high, low = (int(hop[name]) for name in ("port", "vlan", "address_hi", "address"))
        at, size = int(hop["template"]), int(hop["template_bytes"]) if hop["kind"] == TUNNEL else 0
        outer = self._templates[at : at + size].tobytes()
        target_mac, source_mac = (int(hop[name]).to_bytes(6, "big") for name in ("target_mac", "source_mac"))
        next_mac = outer[:6] if outer else target_mac
        return Hop(
            place=Place(port, vlan, _packed(high, low)) if high or low else None,
            port=port,
            vlan=vlan,
            mtu_bytes=int(hop["mtu_bytes"]),
            mac=next_mac if hop["resolved"] and any(next_mac) else None,
            source_mac=source_mac,
            inner_mac=target_mac,
            outer=outer,
        )


def _packed(high: int, low: int) -> bytes:
    """Return the bytes of an address from its two words; an IPv4 address is the low word alone."""
    if high == 0 and 0 <= low < 1 << 32:
        return low.to_bytes(4, "big")
    return (high & (1 << 64) - 1).to_bytes(8, "big") + (low & (1 << 64) - 1).to_bytes(8, "big")


def frame_out(hop: Hop, mac: bytes, link: EthernetFrame, packet: bytes) -> bytes:
    """Return the frame that carries a packet to a next hop; `link` is the header with which the packet arrived.

    A frame addressed to the endpoint's own MAC keeps its source MAC: it is bridged, not routed.
    """
    if not hop.outer:
        return ethernet(mac, hop.source_mac, link.kind, packet, hop.vlan)
    source = link.source if link.target == hop.inner_mac else hop.source_mac
    inner = ethernet(hop.inner_mac, source, link.kind, packet)
    vni = int.from_bytes(hop.outer[_OUTER_VNI], "big")
    service = packet[1] if link.kind == IPV4 else int.from_bytes(packet[:2], "big") >> 4 & 0xFF
    around = vxlan(vni, hop.outer[_OUTER_SOURCE], hop.outer[_OUTER_TARGET], inner, service)
    return ethernet(mac, hop.outer[6:12], IPV4, around)


class Parked(NamedTuple):
    """A packet that waits for its next hop's MAC."""

    hop: Hop
    link: EthernetFrame
    packet: bytes


class Waiting:
    """Queues of packets that wait for a neighbour's MAC: the newest 3 for each, at most MAX_WAITING in all."""

    def __init__(self) -> None:
        self.dropped = 0
        """Packets dropped: displaced by newer ones, no room, or the tables changed."""
        self._parked: dict[Place, deque[Parked]] = {}
        self._count = 0

    def park(self, place: Place, parked: Parked) -> None:
        """Queue a packet until `release`."""
        queue = self._parked.get(place, deque[Parked]())
        if len(queue) >= MAX_WAITING_FOR_ONE:
            queue.popleft()
            self._count -= 1
            self.dropped += 1
        elif self._count >= MAX_WAITING:
            self.dropped += 1
            return
        queue.append(parked)
        self._parked[place] = queue
        self._count += 1

    def release(self, place: Place) -> list[Parked]:
        """Return and remove the packets that waited for a neighbour."""
        found = list(self._parked.pop(place, ()))
        self._count -= len(found)
        return found

    def clear(self) -> None:
        """Drop all packets: their next hops belong to tables that are no longer in use."""
        self.dropped += self._count
        self._parked.clear()
        self._count = 0

    def __len__(self) -> int:
        return self._count

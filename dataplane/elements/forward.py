"""Router functions once the next hop is known, while the packet is still as its sender made it.

A packet for the gateway itself, a packet whose TTL expires, and a packet that exceeds the MTU and must not be
fragmented go to the slow path before translation and with their TTL unchanged, because an ICMP error quotes the
original packet. A packet that no ICMP error may be sent about (RFC 1122, 3.2.2; RFC 4443, 2.4 e) is dropped. An IPv4
packet without DF that exceeds the MTU continues: `leave` punts it once it is translated, and its fragments leave by
the next hop.
"""

from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import BRIDGED, LATER_FRAGMENT, ROUTED, drop, punt
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet import ipv4, ipv6
from heddle.dataplane.packet.ethernet import target_mac
from heddle.dataplane.packet.memory import load8, load16
from heddle.dataplane.packet.transport import is_icmp_error
from heddle.dataplane.tables.lookup import place
from heddle.dataplane.tables.schema import DISCARD, LOCAL, TUNNEL

REWRITTEN, UNCHANGED = 0, 1
"""Outcomes."""


@element
def forward(node: int, work: Work) -> None:
    """Decrement the TTL of routed packets; packets of a translated connection continue to REWRITTEN."""
    packets, memory, tables = work.packets, work.memory, work.tables
    rewritten, unchanged = work.graph.next[node, REWRITTEN], work.graph.next[node, UNCHANGED]
    for i in range(work.size):
        packet = packets[i]
        if packet.node != node:
            continue
        if packet.next_hop < 0:
            drop(packet, Drop.BAD_STATE)
            continue
        packet.node = rewritten if packet.translation >= 0 else unchanged
        _pass_on(memory, packet, tables.next_hops[place(packet.next_hop)])


@inline
def _pass_on(memory: Bytes, packet: Row, hop: Row) -> None:
    ends = _ends(memory, packet)
    if hop.kind == LOCAL:
        punt(packet, Punt.FOR_GATEWAY)
    elif hop.kind == DISCARD:
        drop(packet, Drop.DISCARD_ROUTE)
    elif packet.routed == ROUTED and ends:
        if _may_cause_icmp_error(memory, packet):
            punt(packet, Punt.TTL_EXPIRED)
        else:
            drop(packet, Drop.TTL_EXPIRED)
    elif packet.routed == BRIDGED and not _is_bridged_to(memory, packet, hop):
        drop(packet, Drop.NOT_FOR_US)
    elif packet.at + packet.length - packet.l3 > hop.mtu_bytes and not _may_be_fragmented(memory, packet):
        if _may_cause_icmp_error(memory, packet):
            punt(packet, Punt.TOO_BIG)
        else:
            drop(packet, Drop.TOO_BIG)
    elif packet.routed == ROUTED:
        if packet.family == 4:
            ipv4.count_down(memory, packet.l3)
        else:
            ipv6.count_down(memory, packet.l3)


@inline
def _ends(memory: Bytes, packet: Row) -> bool:
    """Whether the TTL or hop limit does not allow one more hop."""
    return load8(memory, packet.l3 + (8 if packet.family == 4 else 7)) <= 1


@inline
def _is_bridged_to(memory: Bytes, packet: Row, hop: Row) -> bool:
    """Whether a bridged frame is addressed to the MAC of the endpoint with its IP address, in its VPC."""
    return hop.kind == TUNNEL and hop.vni == packet.vni and hop.target_mac == target_mac(memory, packet.at)


@inline
def _may_be_fragmented(memory: Bytes, packet: Row) -> bool:
    """Whether a router may fragment a packet: IPv4 without DF."""
    return packet.family == 4 and load16(memory, packet.l3 + 6) & ipv4.DONT_FRAGMENT == 0


@inline
def _may_cause_icmp_error(memory: Bytes, packet: Row) -> bool:
    """Whether an ICMP error may be sent about a packet: not about another error, nor about a later fragment."""
    if packet.fragment == LATER_FRAGMENT:
        return False
    return not is_icmp_error(memory, packet.l4, packet.protocol)

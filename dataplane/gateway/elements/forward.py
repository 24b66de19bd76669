"""What a router does once the next hop is known, and while the packet is still as its sender made it.

A packet for the gateway itself, one whose TTL ends here, and one that is too big and may not be cut go to the slow path
before anything is translated, their TTL as it was: an ICMP error quotes what the sender sent. What no ICMP error may be
sent about (RFC 1122, 3.2.2; RFC 4443, 2.4 e) is dropped. A big IPv4 packet without DF passes: `output` hands it over
when it is translated, and its parts leave by the hop.
"""

from dataplane.engine.burst import BRIDGED, LATER_FRAGMENT, ROUTED, drop, punt
from dataplane.engine.graph import GraphArrays
from dataplane.engine.reasons import Drop, Punt
from dataplane.gateway.kinds import AS_IT_IS, REWRITTEN
from dataplane.gateway.tables.lookup import place
from dataplane.gateway.tables.schema import DISCARD, LOCAL, TUNNEL, Tables
from dataplane.jit import Bytes, Row, Rows, element, inline
from dataplane.packet import ipv4, ipv6
from dataplane.packet.ethernet import target_mac
from dataplane.packet.memory import load8, load16
from dataplane.packet.transport import is_icmp_error


@element
def forward(
    node: int,
    packets: Rows,
    count: int,
    memory: Bytes,
    graph: GraphArrays,
    tables: Tables,
    state: object,
    now_ns: int,
) -> None:
    """Count the TTL of routed packets down; those that a connection translates go on to be rewritten."""
    rewritten, as_it_is = graph.next[node, REWRITTEN], graph.next[node, AS_IT_IS]
    for i in range(count):
        packet = packets[i]
        if packet.node != node:
            continue
        if packet.next_hop < 0:
            drop(packet, Drop.BAD_STATE)
            continue
        packet.node = rewritten if packet.translation >= 0 else as_it_is
        _pass_on(memory, packet, tables.next_hops[place(packet.next_hop)])


@inline
def _pass_on(memory: Bytes, packet: Row, hop: Row) -> None:
    ends = _ends(memory, packet)
    if hop.kind == LOCAL:
        punt(packet, Punt.FOR_GATEWAY)
    elif hop.kind == DISCARD:
        drop(packet, Drop.DISCARD_ROUTE)
    elif packet.routed == ROUTED and ends:
        if _may_be_answered(memory, packet):
            punt(packet, Punt.TTL_EXPIRED)
        else:
            drop(packet, Drop.TTL_EXPIRED)
    elif packet.routed == BRIDGED and not _is_bridged_to(memory, packet, hop):
        drop(packet, Drop.NOT_FOR_US)
    elif packet.at + packet.length - packet.l3 > hop.mtu_bytes and not _may_be_cut(memory, packet):
        if _may_be_answered(memory, packet):
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
    """Whether TTL or hop limit do not allow one more hop."""
    return load8(memory, packet.l3 + (8 if packet.family == 4 else 7)) <= 1


@inline
def _is_bridged_to(memory: Bytes, packet: Row, hop: Row) -> bool:
    """Whether a frame that is not for the gateway's MAC is for the endpoint that has its IP address, in its VPC."""
    return hop.kind == TUNNEL and hop.vni == packet.vni and hop.target_mac == target_mac(memory, packet.at)


@inline
def _may_be_cut(memory: Bytes, packet: Row) -> bool:
    """Whether a router may fragment a packet: an IPv4 one without DF."""
    return packet.family == 4 and load16(memory, packet.l3 + 6) & ipv4.DONT_FRAGMENT == 0


@inline
def _may_be_answered(memory: Bytes, packet: Row) -> bool:
    """Whether an ICMP error may be sent about a packet: not about another error, nor about a later fragment."""
    if packet.fragment == LATER_FRAGMENT:
        return False
    return not is_icmp_error(memory, packet.l4, packet.protocol)

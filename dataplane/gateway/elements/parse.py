"""Read the IP and transport headers of every packet that was let in, and refuse what is not sound.

From here on a row says addresses, protocol, ports, fragment and hash; they stay what they were as the packet arrived,
whatever is written into its bytes later. Each header is read only where the first buffer has it. A frame in one buffer
ends with its IP packet afterwards (padding is not sent on); one in several has to end there.

Transport checksums are the endpoints' business: what is changed of a packet is mended in them, so a wrong one stays so.
The congestion mark of an outer header arrives here as well, at the inner IP header (RFC 6040, 4.2).
"""

from dataplane.engine.burst import drop, punt
from dataplane.engine.graph import GraphArrays
from dataplane.engine.reasons import Drop, Punt
from dataplane.gateway.elements.parse_ipv4 import read_ipv4
from dataplane.gateway.elements.parse_ipv6 import read_ipv6
from dataplane.gateway.elements.parse_plain import read_plain
from dataplane.gateway.kinds import ON
from dataplane.gateway.memory.state import SEED, State
from dataplane.gateway.tables.schema import Tables
from dataplane.jit import Bytes, Row, Rows, element, inline
from dataplane.packet import ethernet
from dataplane.packet.memory import load16


@element
def parse(
    node: int,
    packets: Rows,
    count: int,
    memory: Bytes,
    graph: GraphArrays,
    tables: Tables,
    state: State,
    now_ns: int,
) -> None:
    """Fill in what the headers say; ARP and neighbour discovery go to the slow path."""
    following, seed = graph.next[node, ON], state.counts[SEED]
    for i in range(count):
        packet = packets[i]
        if packet.node == node:
            packet.node = following
            read_headers(memory, packet, seed)


@inline
def read_headers(memory: Bytes, packet: Row, seed: int) -> None:
    """Fill in a row whose `l3` is known; or let the packet end here."""
    if not read_plain(memory, packet, seed):
        read_any(memory, packet, seed)


@element
def read_any(memory: Bytes, packet: Row, seed: int) -> None:
    """Do so for a packet of any kind."""
    kind = load16(memory, packet.l3 - 2)
    if kind == ethernet.IPV4:
        read_ipv4(memory, packet, seed)
    elif kind == ethernet.IPV6:
        read_ipv6(memory, packet, seed)
    elif kind == ethernet.ARP:
        punt(packet, Punt.ARP)
    elif kind in (ethernet.VLAN, ethernet.SERVICE_VLAN):
        drop(packet, Drop.UNKNOWN_VLAN)
    else:
        drop(packet, Drop.NOT_IP)

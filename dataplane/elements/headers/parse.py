"""Read and check the IP and transport headers of every accepted packet.

The row then holds the addresses, protocol, ports, fragment and hash of the packet as it arrived; later changes to the
packet's bytes do not change them. A header is read only if the first buffer contains it. A frame in one buffer is cut
to the length of its IP packet (padding is not forwarded); a frame in several buffers must end there.

Transport checksums are not verified: updates keep a wrong checksum wrong, for the receiver to detect. The ECN mark of
an outer header is transferred to the inner IP header here (RFC 6040, 4.2).
"""

from heddle.dataplane.elements.headers.parse_ipv4 import read_ipv4
from heddle.dataplane.elements.headers.parse_ipv6 import read_ipv6
from heddle.dataplane.elements.headers.parse_plain import read_plain
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import drop, punt
from heddle.dataplane.engine.graph import NEXT
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet import ethernet
from heddle.dataplane.packet.memory import load16


@element
def parse(node: int, work: Work) -> None:
    """Fill in the header fields of every row; punt ARP and neighbour discovery."""
    packets, memory = work.packets, work.memory
    following, seed = work.graph.next[node, NEXT], work.state.counts[SEED]
    for i in range(work.size):
        packet = packets[i]
        if packet.node == node:
            packet.node = following
            read_headers(memory, packet, seed)


@inline
def read_headers(memory: Bytes, packet: Row, seed: int) -> None:
    """Fill in a row whose `l3` is known, or drop or punt the packet."""
    if not read_plain(memory, packet, seed):
        read_any(memory, packet, seed)


@element
def read_any(memory: Bytes, packet: Row, seed: int) -> None:
    """Do the same for a packet of any kind."""
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

"""The flow that an ICMP error is about, as the packets in the other direction have it.

An error about a packet that a virtual IP sent comes from any router of the path, and its ports are in the quote only.
It must reach the back end that sent the packet (path MTU discovery, RFC 1191), so it is routed by the connection whose
packets have source and target of the quoted one exchanged.
"""

from heddle.dataplane.balancer.tables.schema import ROCE_PORT
from heddle.dataplane.elements.headers.quoted import quoted_target
from heddle.dataplane.engine.flow_key import swapped
from heddle.dataplane.jit import Bytes, Row, element
from heddle.dataplane.packet.memory import load32
from heddle.dataplane.packet.transport import UDP


@element
def become_flow(memory: Bytes, packet: Row, transport: int, protocol: int) -> None:
    """Give an error's row source, ports and protocol of the flow that it is about; its bytes stay."""
    ports = swapped(load32(memory, transport))
    packet.source_hi, packet.source_lo = quoted_target(memory, packet)
    packet.protocol = protocol
    # A RoCEv2 packet has the port as its target in both directions.
    is_roce = packet.protocol == UDP and (ports & 0xFFFF == ROCE_PORT or ports >> 16 == ROCE_PORT)
    packet.ports = ROCE_PORT if is_roce else ports

"""The entries for the external, customer and provider sides: assign each frame to a VPC or to the outside.

External and provider frames are untagged and belong to no VPC: `vni` stays OUTSIDE until a connection or a public
address determines one. A customer's frame belongs to the VPC that its VLAN is connected to; a VLAN may have a
connection for each family.
"""

from heddle.dataplane.elements.headers.arrival import begin, is_addressed_to_us
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import drop
from heddle.dataplane.engine.graph import NEXT
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.ethernet import ARP, IPV6, TAGGED_BYTES, VLAN, VLAN_MASK
from heddle.dataplane.packet.memory import load16
from heddle.dataplane.tables.lookup import row1
from heddle.dataplane.tables.schema import CUSTOMER_VNI, CUSTOMER_VPC, EMPTY, OWN_ACTIVE, VLAN_OF_IPV6, Tables


@element
def untagged(node: int, work: Work) -> None:
    """Accept frames from the internet or from the provider's networks."""
    packets, memory, tables = work.packets, work.memory, work.tables
    following = work.graph.next[node, NEXT]
    for i in range(work.size):
        packet = packets[i]
        if packet.node == node:
            packet.node = following
            begin(packet)
            if is_addressed_to_us(memory, packet, tables):
                _refuse_on_standby(memory, packet, tables)


@element
def customer(node: int, work: Work) -> None:
    """Accept frames of a customer's router on a VLAN that is connected to a VPC."""
    packets, memory, tables = work.packets, work.memory, work.tables
    following = work.graph.next[node, NEXT]
    for i in range(work.size):
        packet = packets[i]
        if packet.node == node:
            packet.node = following
            begin(packet)
            if is_addressed_to_us(memory, packet, tables):
                _open_tag(memory, packet, tables)


@inline
def _open_tag(memory: Bytes, packet: Row, tables: Tables) -> None:
    if load16(memory, packet.at + 12) != VLAN:
        drop(packet, Drop.UNKNOWN_VLAN)
        return
    if packet.first_length < TAGGED_BYTES:
        drop(packet, Drop.TOO_SHORT)
        return
    row = customer_of(memory, packet, tables)
    if row == EMPTY:
        drop(packet, Drop.UNKNOWN_VLAN)
        return
    packet.vni = tables.customers[row, CUSTOMER_VNI]
    packet.vpc = tables.customers[row, CUSTOMER_VPC]
    packet.l3 = packet.at + TAGGED_BYTES
    _refuse_on_standby(memory, packet, tables)


@inline
def customer_of(memory: Bytes, packet: Row, tables: Tables) -> int:
    """Return the row of `tables.customers` that a tagged frame belongs to, by its VLAN and family, or EMPTY."""
    vlan = load16(memory, packet.at + 14) & VLAN_MASK
    is_ipv6 = load16(memory, packet.at + 16) == IPV6
    return row1(tables.vlans, (VLAN_OF_IPV6 if is_ipv6 else 0) | packet.in_port << 12 | vlan)


@inline
def _refuse_on_standby(memory: Bytes, packet: Row, tables: Tables) -> None:
    """Drop a packet if this gateway is on standby, which still replies to ARP."""
    if tables.own[OWN_ACTIVE] == 0 and load16(memory, packet.l3 - 2) != ARP:
        drop(packet, Drop.STANDBY)

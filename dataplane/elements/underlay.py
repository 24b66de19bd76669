"""The entry of the underlay: decapsulate VXLAN packets of known VTEPs.

A frame must be addressed to the port's MAC and contain IPv4 and UDP to the gateway's VTEP and port 4789. Its VNI must
be served, and the sending VTEP must have an endpoint of that VNI. Fragments are refused (RFC 7348, 4.3). ARP, and ICMP
to the VTEP's own address, go to the slow path.
"""

from heddle.dataplane.config.balancers import POOL_MAC_BASE
from heddle.dataplane.elements.headers.arrival import begin, fail, is_addressed_to_us
from heddle.dataplane.elements.headers.parse_plain import plain_total
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import BRIDGED, GROUP, ROUTED, drop, punt
from heddle.dataplane.engine.graph import NEXT
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.ethernet import ARP, ETHERNET_BYTES, IPV4, VLAN, is_group, target_mac
from heddle.dataplane.packet.faults import SHORT
from heddle.dataplane.packet.ipv4 import IPV4_BYTES, MORE_FRAGMENTS, OFFSET, header_of
from heddle.dataplane.packet.memory import load8, load16, load32
from heddle.dataplane.packet.transport import ICMP, UDP
from heddle.dataplane.packet.vxlan import OUTER_BYTES, UDP_BYTES, VXLAN_BYTES, VXLAN_PORT, has_vni, inner_of, vni_of
from heddle.dataplane.tables.lookup import place, row1, row2
from heddle.dataplane.tables.schema import EMPTY, OWN_ACTIVE, OWN_TAKEN_VTEP, PORT_ADDRESS, PORT_MAC, Tables

VTEP_BITS = 32
POOL_MACS = POOL_MAC_BASE >> VTEP_BITS


@element
def underlay(node: int, work: Work) -> None:
    """Remove the outer headers; then `at` is the inner frame, and `vni` and `vpc` identify its tenant."""
    packets, memory, tables = work.packets, work.memory, work.tables
    following = work.graph.next[node, NEXT]
    for i in range(work.size):
        packet = packets[i]
        if packet.node == node:
            packet.node = following
            if not open_plain(memory, packet, tables):
                open_any(memory, packet, tables)


@inline
def open_plain(memory: Bytes, packet: Row, tables: Tables) -> bool:
    """Fast path: decapsulate a frame in one buffer without IP options; return False, unchanged, for other frames."""
    at, length, port = packet.at, packet.length, place(packet.in_port)
    if packet.first_length != length or length < OUTER_BYTES + ETHERNET_BYTES:
        return False
    if target_mac(memory, at) != tables.ports[port, PORT_MAC] or load16(memory, at + 12) != IPV4:
        return False
    ip = at + ETHERNET_BYTES
    udp = ip + IPV4_BYTES
    total = plain_total(memory, ip, length - ETHERNET_BYTES)
    source, target, udp_bytes = load32(memory, ip + 12), load32(memory, ip + 16), load16(memory, udp + 4)
    if target != tables.ports[port, PORT_ADDRESS] or target == 0 or tables.own[OWN_ACTIVE] == 0:
        return False
    if load8(memory, ip + 9) != UDP or load16(memory, udp + 2) != VXLAN_PORT or udp_bytes > total - IPV4_BYTES:
        return False
    inner, inner_bytes = at + OUTER_BYTES, udp_bytes - UDP_BYTES - VXLAN_BYTES
    vni = vni_of(memory, udp)
    vpc = row1(tables.vnis, vni)
    if inner_bytes < ETHERNET_BYTES or not has_vni(memory, udp):
        return False
    if vpc < 0 or row2(tables.vteps, vni, source) == EMPTY:
        return False
    is_routed = is_own_mac(target_mac(memory, inner), tables.vpcs[place(vpc)].gateway_mac)
    routed = ROUTED if is_routed else (GROUP if is_group(memory, inner) else BRIDGED)
    ecn = load8(memory, ip + 1) & 3
    packet.at = inner
    packet.length = inner_bytes
    packet.first_length = inner_bytes
    begin(packet)
    packet.vni = vni
    packet.vpc = vpc
    packet.outer_source = source
    packet.outer_ecn = ecn
    packet.routed = routed
    return True


@element
def open_any(memory: Bytes, packet: Row, tables: Tables) -> None:
    """Decapsulate a frame of any kind; the result agrees with `open_plain` on the frames that it accepts."""
    begin(packet)
    if is_addressed_to_us(memory, packet, tables):
        _open_frame(memory, packet, tables)


@inline
def _open_frame(memory: Bytes, packet: Row, tables: Tables) -> None:
    kind = load16(memory, packet.at + 12)
    if kind == ARP:
        punt(packet, Punt.ARP)
    elif packet.routed == GROUP:
        drop(packet, Drop.BROADCAST)
    elif kind == VLAN:
        drop(packet, Drop.UNKNOWN_VLAN)
    elif kind != IPV4:
        drop(packet, Drop.NOT_IP)
    else:
        _open_packet(memory, packet, tables)


@inline
def _open_packet(memory: Bytes, packet: Row, tables: Tables) -> None:
    """Check the outer IPv4 header, and find the UDP header behind it."""
    at = packet.l3
    header = header_of(memory, at, packet.first_length - ETHERNET_BYTES, packet.length - ETHERNET_BYTES)
    if header < 0:
        fail(packet, header)
        return
    target = load32(memory, at + 16)
    own = tables.ports[place(packet.in_port), PORT_ADDRESS]
    if target == 0 or (target != own and target != tables.own[OWN_TAKEN_VTEP]):
        drop(packet, Drop.NOT_FOR_US)
        return
    protocol = load8(memory, at + 9)
    is_fragment = load16(memory, at + 6) & (MORE_FRAGMENTS | OFFSET) != 0
    udp = at + header
    there = packet.at + packet.first_length - udp
    count = load16(memory, at + 2) - header
    if protocol == ICMP and not is_fragment:
        punt(packet, Punt.FOR_GATEWAY)
    elif protocol != UDP:
        drop(packet, Drop.NOT_FOR_US)
    elif is_fragment:
        drop(packet, Drop.BAD_VXLAN)
    elif count < 8 or there < 8:
        drop(packet, Drop.TOO_SHORT)
    elif load16(memory, udp + 2) != VXLAN_PORT:
        drop(packet, Drop.NOT_FOR_US)
    elif tables.own[OWN_ACTIVE] == 0:
        drop(packet, Drop.STANDBY)
    else:
        _open_tunnel(memory, packet, tables, udp, count)


@inline
def _open_tunnel(memory: Bytes, packet: Row, tables: Tables, udp: int, count: int) -> None:
    """Check the VXLAN header and the sending VTEP, and move the row to the inner frame."""
    there = packet.at + packet.first_length - udp
    offset = inner_of(memory, udp, there, count)
    if offset < 0:
        drop(packet, Drop.TOO_SHORT if offset == SHORT else Drop.BAD_VXLAN)
        return
    vni = vni_of(memory, udp)
    vpc = row1(tables.vnis, vni)
    if vpc == EMPTY:
        drop(packet, Drop.UNKNOWN_VNI)
        return
    source = load32(memory, packet.l3 + 12)
    if row2(tables.vteps, vni, source) == EMPTY:
        drop(packet, Drop.UNKNOWN_VTEP)
        return
    packet.outer_source = source
    packet.outer_ecn = load8(memory, packet.l3 + 1) & 3
    packet.vni = vni
    packet.vpc = vpc
    _move(packet, udp + offset, load16(memory, udp + 4) - offset)
    if packet.node >= 0 and not is_own_mac(target_mac(memory, packet.at), tables.vpcs[place(vpc)].gateway_mac):
        packet.routed = GROUP if is_group(memory, packet.at) else BRIDGED


@inline
def is_own_mac(mac: int, own: int) -> bool:
    """Whether a frame within a tunnel is for this program: to its MAC in the VPC, or to one of balancers' pools."""
    return mac == own or mac >> VTEP_BITS == POOL_MACS


@inline
def _move(packet: Row, inner: int, length: int) -> None:
    """Set the row to the inner frame of `length` bytes; a frame in several buffers must contain exactly these bytes."""
    taken = inner - packet.at
    if length < ETHERNET_BYTES or packet.first_length - taken < ETHERNET_BYTES:
        drop(packet, Drop.TOO_SHORT)
        return
    if packet.length == packet.first_length:
        packet.first_length = length
    elif packet.length - taken == length:
        packet.first_length -= taken
    else:
        drop(packet, Drop.BAD_VXLAN)
        return
    packet.length = length
    packet.at = inner
    packet.l3 = inner + ETHERNET_BYTES
    packet.l4 = packet.l3

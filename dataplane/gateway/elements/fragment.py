"""Send IPv4 packets without DF that exceed the MTU of their next hop as fragments (RFC 791, 3.2), after a burst.

The received frame becomes the first fragment, cut where it lies; each later fragment is a frame of its own from the
pool, with a copy of its part of the payload, and counts as such (rx_fragments). The fragments of a packet leave one
after the other, in the order of the burst: Linux gives up a packet if more than 64 fragments of others lie between its
own (net.ipv4.ipfrag_max_dist). Therefore all rows of such a burst are copied, and `ports.spare` is settled instead.

A fragment is fragmented further and keeps its offset. Without room for all fragments of a packet none is sent, and the
packet is dropped as TRANSMIT_FULL; one that would become more than MAX_FRAGMENTS is dropped as TOO_BIG, because that
would be an attack on the receiver's reassembly.
"""

from heddle.dataplane.elements.leave import leave
from heddle.dataplane.engine.burst import TO_FRAGMENT, drop
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.io.frames import pool
from heddle.dataplane.io.frames.layout import CHUNK_BYTES, FREE, HEADROOM, Ports
from heddle.dataplane.io.ports import copy_range
from heddle.dataplane.jit import Bytes, Row, Rows, element, inline
from heddle.dataplane.packet.checksum import folded, sum_of
from heddle.dataplane.packet.ethernet import ETHERNET_BYTES
from heddle.dataplane.packet.ipv4 import IPV4_BYTES, MORE_FRAGMENTS
from heddle.dataplane.packet.memory import load16, store16
from heddle.dataplane.tables.lookup import place
from heddle.dataplane.tables.schema import Tables

MAX_FRAGMENTS = 64


@element
def fragment(ports: Ports, packets: Rows, count: int, tables: Tables, counters: Counters) -> int:
    """Cut the packets of a burst that are to be fragmented.

    Return 0 if there are none; otherwise `ports.spare` holds all rows of the burst and of later fragments, and the
    result is their number.
    """
    wanted = 0
    for i in range(count):
        wanted |= packets[i].node == TO_FRAGMENT
    if not wanted:
        return 0
    made = 0
    for i in range(count):
        packet = packets[i]
        parts = 1
        if packet.node == TO_FRAGMENT:
            hop = tables.next_hops[place(packet.next_hop)]
            parts = _cut(ports, packet, hop, tables, made + 1, count - i, counters)
        _copy(packet, ports.spare[made])
        made += parts
    return made


@inline
def _copy(packet: Row, to: Row) -> None:
    """Copy what `settle` and the counters need."""
    to.at = packet.at
    to.length = packet.length
    to.first_length = packet.first_length
    to.frame = packet.frame
    to.in_port = packet.in_port
    to.out_port = packet.out_port
    to.node = packet.node
    to.reason = packet.reason
    to.vpc = packet.vpc


@inline
def _cut(ports: Ports, packet: Row, hop: Row, tables: Tables, first: int, rows: int, counters: Counters) -> int:
    """Make the fragments of one packet, the later ones in spare rows from `first` on; return how many, at least one.

    `rows` of the burst, this one included, still need a spare row each.
    """
    memory, l3 = ports.memory, packet.l3
    word, payload = load16(memory, l3 + 6), load16(memory, l3 + 2) - IPV4_BYTES
    room = min(hop.mtu_bytes, ports.pool[CHUNK_BYTES] - HEADROOM - ETHERNET_BYTES)
    step = (room - IPV4_BYTES) & ~7
    parts = (payload + step - 1) // step
    if parts > MAX_FRAGMENTS:
        drop(packet, Drop.TOO_BIG)
        return 1
    if first - 1 + rows + parts - 1 > ports.spare.size or parts - 1 > ports.pool[FREE]:
        drop(packet, Drop.TRANSMIT_FULL)
        return 1
    for part in range(1, parts):
        later = ports.spare[first + part - 1]
        size = min(step, payload - part * step)
        _begin(ports, packet, later, IPV4_BYTES + size)
        copy_range(ports, packet, l3 - packet.at + IPV4_BYTES + part * step, later.l3 + IPV4_BYTES, size)
        more = MORE_FRAGMENTS if part + 1 < parts else word & MORE_FRAGMENTS
        _write_header(memory, later.l3, IPV4_BYTES + size, word & ~MORE_FRAGMENTS | more, part * step)
        counters.ports[packet.in_port].rx_fragments += 1
        leave(memory, later, hop, tables)
    packet.length = l3 - packet.at + IPV4_BYTES + step
    packet.first_length = min(packet.first_length, packet.length)
    _write_header(memory, l3, IPV4_BYTES + step, word | MORE_FRAGMENTS, 0)
    leave(memory, packet, hop, tables)
    return parts


@inline
def _begin(ports: Ports, packet: Row, later: Row, size: int) -> None:
    """Fill in the row of a later fragment, in a buffer of its own with the headers of the packet."""
    number = pool.allocate(ports)
    later.floor = pool.start_of(ports, number)
    later.at = later.floor + HEADROOM
    later.l3 = later.at + ETHERNET_BYTES
    later.length = ETHERNET_BYTES + size
    later.first_length = later.length
    later.frame = number
    later.in_port = packet.in_port
    later.out_port = -1
    later.reason = -1
    later.vni = packet.vni
    later.vpc = packet.vpc
    later.family = packet.family
    later.hash = packet.hash
    later.next_hop = packet.next_hop
    later.routed = packet.routed
    copy_range(ports, packet, packet.l3 - packet.at - ETHERNET_BYTES, later.at, ETHERNET_BYTES + IPV4_BYTES)


@inline
def _write_header(memory: Bytes, at: int, total: int, word: int, further: int) -> None:
    """Write the length, the fragment word and the checksum of a header, `further` bytes behind its offset."""
    store16(memory, at + 2, total)
    store16(memory, at + 6, word + (further >> 3))
    store16(memory, at + 10, 0)
    store16(memory, at + 10, folded(sum_of(memory, at, IPV4_BYTES)) ^ 0xFFFF)

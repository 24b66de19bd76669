"""Check where each packet comes from, and prepare the search for its connection.

A packet's source must be an endpoint of its VPC behind the sending VTEP, or no endpoint of it behind a gateway's: a
client outside of the VPC. `source_hop` is then the next hop back to the sender. Fragments get the ports of their first
one. All packets of RoCEv2 between two addresses are one flow, whatever their source ports are: the key has port 4791
alone.
"""

from typing import Any

from heddle.dataplane.balancer.memory.connections import prefetch_words
from heddle.dataplane.balancer.tables.schema import ROCE_PORT
from heddle.dataplane.elements.fragments import follow
from heddle.dataplane.elements.headers.flow import hash_of
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import NOT_A_FRAGMENT, ROUTED, drop
from heddle.dataplane.engine.graph import NEXT
from heddle.dataplane.engine.hashing import mixed3
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import Row, Rows, element, inline
from heddle.dataplane.packet.transport import UDP
from heddle.dataplane.tables.lookup import ahead3, place, row3, row3_hashed
from heddle.dataplane.tables.schema import EMPTY


@element
def client(node: int, work: Work) -> None:
    """Drop spoofed packets and fragments without a first one; prefetch the words of the others' connections."""
    packets, tables, state = work.packets, work.tables, work.state
    following = work.graph.next[node, NEXT]
    _prefetch(node, packets, work.size, tables)
    for i in range(work.size):
        packet = packets[i]
        if packet.node != node:
            continue
        packet.node = following
        if packet.routed != ROUTED:
            drop(packet, Drop.NOT_FOR_US)
            continue
        if not _is_known(packet, tables):
            drop(packet, Drop.SPOOFED_SOURCE)
            continue
        if packet.fragment != NOT_A_FRAGMENT:
            reason = follow(work.memory, packet, tables, state, work.now_ns)
            if reason >= 0:
                drop(packet, reason)
                continue
        if packet.protocol == UDP and packet.ports & 0xFFFF == ROCE_PORT:
            packet.ports = ROCE_PORT
            packet.hash = hash_of(packet, state.counts[SEED])
        prefetch_words(state, packet.hash)


@inline
def _prefetch(node: int, packets: Rows, count: int, tables: Any) -> None:
    """Prefetch the endpoint slots of all sources of the burst. Until the lookup, `source_hop` holds the hash."""
    for i in range(count):
        packet = packets[i]
        if packet.node == node:
            hashed = mixed3(packet.vni, packet.source_hi, packet.source_lo)
            packet.source_hop = hashed
            ahead3(tables.endpoints, hashed)


@inline
def _is_known(packet: Row, tables: Any) -> bool:
    row = row3_hashed(tables.endpoints, packet.source_hop, packet.vni, packet.source_hi, packet.source_lo)
    if row == EMPTY or tables.endpoint_vteps[place(row)] != packet.outer_source:
        row = row3(tables.endpoints, packet.vni, 0, packet.outer_source)
    packet.source_hop = row
    return row >= 0 and tables.endpoint_vteps[place(row)] == packet.outer_source

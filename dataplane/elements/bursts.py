"""What the run loops of gateway and balancer share: the start, the way through the graph and the end of a burst.

Each program has its own `run` and `walk`, as Numba compiles a caller together with what it calls.

`state` is any named tuple with the array `punt_dues` (`memory.punt_share`).
"""

from typing import Any

from heddle.dataplane.elements.memory.punt_share import may_punt
from heddle.dataplane.engine.burst import BURST, DROPPED, PUNTED, TRANSMIT, drop
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.engine.graph import OUTCOMES, GraphArrays
from heddle.dataplane.engine.reasons import NO_ROOM_REASONS, Drop, Punt
from heddle.dataplane.engine.rings import (
    INJECT_HEADER,
    PUNT_HEADER,
    Ring,
    begin_punt,
    consume,
    front,
    publish,
    punted_bytes,
)
from heddle.dataplane.io.frames.layout import Ports
from heddle.dataplane.io.ports import copy_in, copy_out, inject, receive, settle
from heddle.dataplane.jit import Row, Rows, element, inline
from heddle.dataplane.packet.memory import native64

BAD_STATE, PUNT_FULL, PUNT_LIMITED = int(Drop.BAD_STATE), int(Drop.PUNT_FULL), int(Drop.PUNT_LIMITED)
NO_ROOM = int(Punt.NO_ROOM)
WITHOUT_ROOM = sum(1 << reason for reason in NO_ROOM_REASONS)
"""Bit mask of the drop reasons about which a sender in a VPC gets an ICMP error."""
SLOW_PATH = -1
"""In place of a port number: the ring of frames that the slow path sends."""
EMPTY_ROUNDS = 64
"""Rounds without a packet before a call sleeps. They take some microseconds, in which the next packet often arrives."""
TURN_NS = 1_000_000
"""Interval at which a call checks the age of connections, and whether other processes wait for it to return."""


@inline
def arrived(ports: Ports, port: int, injects: Ring, packets: Rows, counters: Counters) -> int:
    """Take a burst from a port, or from the slow path; return its size."""
    if port == SLOW_PATH:
        return enter(ports, injects, packets, counters)
    return receive(ports, port, packets, BURST, counters)


@inline
def put_at_entries(packets: Rows, count: int, graph: GraphArrays) -> int:
    """Put a burst at its entry nodes; return these, a bit for each."""
    entered = 0
    for i in range(count):
        packet = packets[i]
        packet.node = graph.entry[packet.in_port]
        packet.start = packet.at
        entered |= 1 << packet.node
    return entered


@inline
def nodes_behind(graph: GraphArrays, node: int) -> int:
    """Return the nodes that a node leads to, a bit for each."""
    found = 0
    for outcome in range(OUTCOMES):
        if graph.next[node, outcome] >= 0:
            found |= 1 << graph.next[node, outcome]
    return found


@inline
def stands_at(node: int, packets: Rows, count: int) -> bool:
    """Whether a packet is at a node: usually the first one is."""
    i = 0
    while i < count and packets[i].node != node:
        i += 1
    return i < count


@inline
def abandon(packets: Rows, count: int) -> None:
    """Drop packets that are still at a node after the pass, so that every packet has a fate."""
    for i in range(count):
        packet = packets[i]
        if packet.node >= 0:
            drop(packet, BAD_STATE)


@element
def copy_punted(ports: Ports, packets: Rows, count: int, punts: Ring, state: Any, now: int) -> None:
    """Copy punted packets to the slow path's ring, within their rate limit, and those that are dropped without room."""
    for i in range(count):
        packet = packets[i]
        if packet.node == TRANSMIT:
            continue
        if packet.node == PUNTED:
            if may_punt(state.punt_dues, packet, now):
                _punt(ports, packet, punts, now)
            else:
                drop(packet, PUNT_LIMITED)
        elif packet.node == DROPPED and packet.vni != 0 and WITHOUT_ROOM >> packet.reason & 1:
            reason = packet.reason
            packet.reason = NO_ROOM
            if may_punt(state.punt_dues, packet, now):
                _punt(ports, packet, punts, now)
            drop(packet, reason)  # it counts as dropped, whether or not its sender gets an error


@element
def settle_burst(ports: Ports, packets: Rows, count: int, counters: Counters) -> None:
    """Count packets by VPC, and let the ports transmit, free buffers and count."""
    for i in range(count):
        packet = packets[i]
        if 0 <= packet.vpc < counters.vpcs.size:
            counted = counters.vpcs[packet.vpc]
            if packet.node == TRANSMIT:
                counted.out_packets += 1
                counted.out_bytes += packet.length
            elif packet.node == DROPPED:
                counted.dropped += 1
    settle(ports, packets, count, counters)


@inline
def _punt(ports: Ports, packet: Row, punts: Ring, now: int) -> None:
    """Copy a packet to the slow path's ring; drop it if the ring is full."""
    at = begin_punt(punts, packet, now)
    if at < 0:
        drop(packet, PUNT_FULL)
    else:
        copy_out(ports, packet, packet.start, punts.data, at + PUNT_HEADER, punted_bytes(packet))
        publish(punts, at)


@element
def enter(ports: Ports, injects: Ring, packets: Rows, counters: Counters) -> int:
    """Send the slow path's frames; return how many of them entered the burst, to be processed by the graph."""
    data, count = injects.data, 0
    while count < BURST:
        at = front(injects)
        if at < 0:
            break
        length, port, entering = native64(data, at + 8), native64(data, at + 16), native64(data, at + 24)
        if entering == 0:
            inject(ports, port, data, at + INJECT_HEADER, length, counters)
        elif copy_in(ports, port, data, at + INJECT_HEADER, length, packets, count, counters):
            count += 1
        consume(injects, at)
    return count

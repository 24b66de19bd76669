"""The run loop: bursts from every port through the graph to their ends, for about a millisecond a call.

A burst is taken from a port; its packets stand at the node at which that port enters. The nodes are gone through in
their order, each element working on the packets that stand at its node, until every packet is at an end: to be
transmitted, punted or dropped. Which element a node is, its kind says (`kinds`): `walk` is the one place where a new
kind is named.

What calls an element is compiled anew together with it and all that it calls. So there is one call of `walk`, and it
calls each element once.

A call of `run` ends after `call_ns`, or once it slept for want of packets; in between nothing is looked at but packets.
"""

from dataplane.engine.burst import BURST, DROPPED, PUNTED, TRANSMIT, drop
from dataplane.engine.clock import now_ns
from dataplane.engine.counters import Counters
from dataplane.engine.graph import OUTCOMES, GraphArrays
from dataplane.engine.reasons import Drop
from dataplane.engine.rings import INJECT_HEADER, PUNT_HEADER, Ring, begin_punt, consume, front, publish, punted_bytes
from dataplane.engine.sleep import sleep
from dataplane.gateway import kinds
from dataplane.gateway.elements.admit import admit
from dataplane.gateway.elements.check_source import check_source
from dataplane.gateway.elements.forward import forward
from dataplane.gateway.elements.output import output
from dataplane.gateway.elements.parse import parse
from dataplane.gateway.elements.rewrite import rewrite
from dataplane.gateway.elements.sides import customer, untagged
from dataplane.gateway.elements.track import track
from dataplane.gateway.elements.underlay import underlay
from dataplane.gateway.memory.ageing import age
from dataplane.gateway.memory.connections import release_ended
from dataplane.gateway.memory.punt_share import may_punt
from dataplane.gateway.memory.state import JOURNAL_HEAD, State
from dataplane.gateway.tables.schema import Tables
from dataplane.io.frames.layout import Ports
from dataplane.io.ports import bring, copy_out, inject, receive, settle
from dataplane.jit import Bytes, Row, Rows, element, inline, kernel, part
from dataplane.packet.memory import native64

BAD_STATE, PUNT_FULL, PUNT_LIMITED = int(Drop.BAD_STATE), int(Drop.PUNT_FULL), int(Drop.PUNT_LIMITED)
SLOW_PATH = -1
"""In place of a port: the ring of frames from the slow path."""
EMPTY_ROUNDS = 64
"""Rounds without a packet before a call sleeps: some microseconds, within which the next packet often comes."""


@kernel
def run(
    ports: Ports, graph: GraphArrays, tables: Tables, state: State, counters: Counters, punts: Ring, injects: Ring,
    packets: Rows, clock: Bytes, sleepers: Bytes, call_ns: int, sleep_ms: int,
) -> int:  # fmt: skip
    """Forward for about `call_ns`; return the nanoseconds of it in which there were packets.

    Args:
        ports: where packets come from and go to; its memory is what all offsets are of.
        graph: the elements and their order.
        tables: the generation in use.
        state: connections, mappings, fragments.
        counters: what is counted.
        punts: ring to the slow path.
        injects: ring from it.
        packets: BURST rows of PACKET, for the burst at hand.
        clock: CLOCK_BYTES for the kernel's answers.
        call_ns: after this the call returns, at the end of a burst.
        sleepers: the files that end a sleep (`engine.sleep`).
        sleep_ms: how long to wait where there is nothing to do; 0 not to wait.
    """
    begun = now_ns(clock)
    now, busy, empty, told = begun, 0, 0, state.counts[JOURNAL_HEAD]
    age(tables, state, now)
    while now - begun < call_ns:
        done = 0
        for port in range(SLOW_PATH, graph.entry.size):
            if port == SLOW_PATH:
                count = _enter(ports, injects, packets, counters)
            else:
                count = receive(ports, port, packets, BURST, counters)
            if count:
                walk(packets, count, ports.memory, graph, tables, state, now)
                _end(ports, packets, count, counters, punts, state, now)
                release_ended(state)
                done += count
        before, now = now, now_ns(clock)
        if done:
            busy += now - before
            empty = 0
            continue
        empty += 1
        if sleep_ms and empty >= EMPTY_ROUNDS:
            if state.counts[JOURNAL_HEAD] == told:  # else the partner is told first: the answer may come by it
                sleep(sleepers, sleep_ms)
            break
    return busy


@part
def walk(packets: Rows, count: int, memory: Bytes, graph: GraphArrays, tables: Tables, state: State, now: int) -> None:
    """Take a burst from where its packets enter to the ends of them all.

    A node is passed by where no node before it leads to it: to ask all packets where they stand would take longer.
    """
    waiting = 0
    for i in range(count):
        packet = packets[i]
        packet.node = graph.entry[packet.in_port]
        packet.start = packet.at
        waiting |= 1 << packet.node
    for node in range(graph.kind.size):
        if waiting >> node & 1 == 0 or not _stands_at(node, packets, count):
            continue
        for outcome in range(OUTCOMES):
            if graph.next[node, outcome] >= 0:
                waiting |= 1 << graph.next[node, outcome]
        kind = graph.kind[node]
        if kind == kinds.UNDERLAY:
            underlay(node, packets, count, memory, graph, tables, state, now)
        elif kind == kinds.EXTERNAL_SIDE or kind == kinds.PROVIDER_SIDE:
            untagged(node, packets, count, memory, graph, tables, state, now)
        elif kind == kinds.CUSTOMER_SIDE:
            customer(node, packets, count, memory, graph, tables, state, now)
        elif kind == kinds.PARSE:
            parse(node, packets, count, memory, graph, tables, state, now)
        elif kind == kinds.CHECK_SOURCE:
            check_source(node, packets, count, memory, graph, tables, state, now)
        elif kind == kinds.TRACK:
            track(node, packets, count, memory, graph, tables, state, now)
        elif kind == kinds.ADMIT:
            admit(node, packets, count, memory, graph, tables, state, now)
        elif kind == kinds.FORWARD:
            forward(node, packets, count, memory, graph, tables, state, now)
        elif kind == kinds.REWRITE:
            rewrite(node, packets, count, memory, graph, tables, state, now)
        elif kind == kinds.OUTPUT:
            output(node, packets, count, memory, graph, tables, state, now)
    _abandon(packets, count)


@inline
def _stands_at(node: int, packets: Rows, count: int) -> bool:
    """Whether a packet stands at a node: mostly the first one does."""
    i = 0
    while i < count and packets[i].node != node:
        i += 1
    return i < count


@inline
def _abandon(packets: Rows, count: int) -> None:
    """Drop what still stands at a node, which the walk has gone past: else it would have no end."""
    for i in range(count):
        packet = packets[i]
        if packet.node >= 0:
            drop(packet, BAD_STATE)


@element
def _end(ports: Ports, packets: Rows, count: int, counters: Counters, punts: Ring, state: State, now: int) -> None:
    """Tell the slow path what is for it, count by VPC, and let the ports send, take back and count."""
    for i in range(count):
        packet = packets[i]
        if packet.node == PUNTED:
            if may_punt(state.punt_dues, packet, now):
                _tell(ports, packet, punts, now)
            else:
                drop(packet, PUNT_LIMITED)
        if 0 <= packet.vpc < counters.vpcs.size:
            counted = counters.vpcs[packet.vpc]
            if packet.node == TRANSMIT:
                counted.out_packets += 1
                counted.out_bytes += packet.length
            elif packet.node == DROPPED:
                counted.dropped += 1
    settle(ports, packets, count, counters)


@inline
def _tell(ports: Ports, packet: Row, punts: Ring, now: int) -> None:
    """Hand a packet to the slow path; drop it where there is no room."""
    at = begin_punt(punts, packet, now)
    if at < 0:
        drop(packet, PUNT_FULL)
    else:
        copy_out(ports, packet, packet.start, punts.data, at + PUNT_HEADER, punted_bytes(packet))
        publish(punts, at)


@element
def _enter(ports: Ports, injects: Ring, packets: Rows, counters: Counters) -> int:
    """Send what the slow path made; return how many of its frames are in the burst, to go through the graph."""
    data, count = injects.data, 0
    while count < BURST:
        at = front(injects)
        if at < 0:
            break
        length, port, entering = native64(data, at + 8), native64(data, at + 16), native64(data, at + 24)
        if entering == 0:
            inject(ports, port, data, at + INJECT_HEADER, length, counters)
        elif bring(ports, port, data, at + INJECT_HEADER, length, packets, count, counters):
            count += 1
        consume(injects, at)
    return count

"""The gateway's run loop: receive bursts from every port, process them through the graph, settle each packet's fate.

A received packet starts at its port's entry node. `walk` visits the nodes in topological order and calls the element
of each node's kind on the packets that are at that node, until each packet is transmitted, punted or dropped. A new
element kind is added to `graph` and to `walk`.

Numba compiles a caller together with everything that it calls. `walk` therefore has one call site, and calls each
element once.

A call of `run` returns after `call_ns`, earlier once no packets come, or after TURN_NS once frames or records wait for
other processes. The arrays that it has as arguments cost Python 0.1 ms a call.
"""

from heddle.dataplane.elements.bursts import (
    EMPTY_ROUNDS,
    SLOW_PATH,
    TURN_NS,
    abandon,
    arrived,
    copy_punted,
    nodes_behind,
    put_at_entries,
    settle_burst,
    stands_at,
)
from heddle.dataplane.elements.forward import forward
from heddle.dataplane.elements.headers.parse import parse
from heddle.dataplane.elements.memory.state import JOURNAL_HEAD
from heddle.dataplane.elements.underlay import underlay
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.clock import now_ns
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.engine.graph import GraphArrays
from heddle.dataplane.engine.rings import WRITTEN, Ring
from heddle.dataplane.engine.sleep import is_called, sleep
from heddle.dataplane.gateway import graph as kinds
from heddle.dataplane.gateway.elements.admission.admit import admit
from heddle.dataplane.gateway.elements.check_source import check_source
from heddle.dataplane.gateway.elements.fragment import fragment
from heddle.dataplane.gateway.elements.output import output
from heddle.dataplane.gateway.elements.rewrite import rewrite
from heddle.dataplane.gateway.elements.sides import customer, untagged
from heddle.dataplane.gateway.elements.tracking.track import track
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.gateway.memory.connections import free_ended_pairs
from heddle.dataplane.gateway.memory.state import State
from heddle.dataplane.io.frames.layout import Ports
from heddle.dataplane.jit import Bytes, Rows, element, kernel, part
from heddle.dataplane.packet.memory import native64
from heddle.dataplane.tables.schema import Tables


@kernel
def run(
    ports: Ports, graph: GraphArrays, tables: Tables, state: State, counters: Counters, punts: Ring, injects: Ring,
    packets: Rows, clock: Bytes, sleepers: Bytes, call_ns: int, sleep_ms: int,
) -> int:  # fmt: skip
    """Forward packets for about `call_ns`; return how many of these nanoseconds had packets to process.

    Args:
        ports: where packets arrive and leave; all offsets refer to its memory.
        graph: the elements and their links.
        tables: the generation in use.
        state: connections, NAT mappings, fragments.
        counters: counters by port, VPC and reason.
        punts: ring to the slow path.
        injects: ring from the slow path.
        packets: BURST rows of PACKET, for the current burst.
        clock: CLOCK_BYTES, which `engine.clock` describes.
        call_ns: the call returns at the end of the first burst after this time, if not before.
        sleepers: the files that end a sleep (`engine.sleep`); the first one also ends the call.
        sleep_ms: how long an idle call sleeps; 0 never to sleep.
    """
    begun = now_ns(clock)
    now, turn, busy, empty, journal_head = begun, begun - TURN_NS, 0, 0, state.counts[JOURNAL_HEAD]
    punted = native64(punts.words, WRITTEN)
    while now - begun < call_ns:
        if now - turn >= TURN_NS:
            if turn >= begun and (
                state.counts[JOURNAL_HEAD] != journal_head or native64(punts.words, WRITTEN) != punted
            ):
                break
            turn = now
            age(tables, state, now)
        done = 0
        for port in range(SLOW_PATH, graph.entry.size):
            count = arrived(ports, port, injects, packets, counters)
            if count:
                walk(Work(packets, count, ports.memory, graph, tables, state, now))
                end_burst(ports, packets, count, counters, punts, tables, state, now)
                free_ended_pairs(state)
                done += count
        before, now = now, now_ns(clock)
        if done:
            busy += now - before
            empty = 0
            continue
        empty += 1
        if sleep_ms and empty >= EMPTY_ROUNDS:
            # Replicate first, as the reply may arrive at the partner; and notify the slow path.
            if state.counts[JOURNAL_HEAD] != journal_head or native64(punts.words, WRITTEN) != punted:
                break
            if not sleep(sleepers, sleep_ms) or is_called(sleepers):
                break
            # Packets: a return to Python and the next call would cost as much as dozens of them.
            now = now_ns(clock)
            empty = 0
    return busy


@part
def walk(work: Work) -> None:
    """Process a burst from its entry nodes until every packet has a fate.

    A node that no earlier node leads to is skipped without reading the packets, which would take longer.
    """
    packets, count, graph = work.packets, work.size, work.graph
    waiting = put_at_entries(packets, count, graph)
    for node in range(graph.kind.size):
        if waiting >> node & 1 == 0 or not stands_at(node, packets, count):
            continue
        waiting |= nodes_behind(graph, node)
        kind = graph.kind[node]
        if kind == kinds.UNDERLAY:
            underlay(node, work)
        elif kind == kinds.EXTERNAL_SIDE or kind == kinds.PROVIDER_SIDE:
            untagged(node, work)
        elif kind == kinds.CUSTOMER_SIDE:
            customer(node, work)
        elif kind == kinds.PARSE:
            parse(node, work)
        elif kind == kinds.CHECK_SOURCE:
            check_source(node, work)
        elif kind == kinds.TRACK:
            track(node, work)
        elif kind == kinds.ADMIT:
            admit(node, work)
        elif kind == kinds.FORWARD:
            forward(node, work)
        elif kind == kinds.REWRITE:
            rewrite(node, work)
        elif kind == kinds.OUTPUT:
            output(node, work)
    abandon(packets, count)


@element
def end_burst(
    ports: Ports, packets: Rows, count: int, counters: Counters, punts: Ring, tables: Tables, state: State, now: int
) -> None:
    """Give every packet of a burst its end, and fragment those that exceed an MTU."""
    copy_punted(ports, packets, count, punts, state, now)
    made = fragment(ports, packets, count, tables, counters)
    settle_burst(ports, ports.spare if made else packets, max(count, made), counters)

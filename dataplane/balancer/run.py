"""The balancer's run loop: as the gateway's (`gateway.run`), with the balancer's elements and connections.

Numba compiles a caller together with all that it calls, so neither loop can call the other's parts by an argument; what
both do with a burst is in `elements.bursts`.
"""

from typing import Any

from heddle.dataplane.balancer import graph as kinds
from heddle.dataplane.balancer.elements.balance import balance
from heddle.dataplane.balancer.elements.client import client
from heddle.dataplane.balancer.elements.refuse import refuse
from heddle.dataplane.balancer.elements.send import send
from heddle.dataplane.balancer.elements.translate import translate
from heddle.dataplane.balancer.memory.connections import sweep
from heddle.dataplane.balancer.memory.state import State
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
from heddle.dataplane.elements.fragments import age_fragments
from heddle.dataplane.elements.headers.parse import parse
from heddle.dataplane.elements.underlay import underlay
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.clock import now_ns
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.engine.graph import GraphArrays
from heddle.dataplane.engine.rings import WRITTEN, Ring
from heddle.dataplane.engine.sleep import is_called, sleep
from heddle.dataplane.io.frames.layout import Ports
from heddle.dataplane.jit import Bytes, Rows, kernel, part
from heddle.dataplane.packet.memory import native64


@kernel
def run(
    ports: Ports, graph: GraphArrays, tables: Any, state: State, counters: Counters, punts: Ring, injects: Ring,
    packets: Rows, clock: Bytes, sleepers: Bytes, call_ns: int, sleep_ms: int,
) -> int:  # fmt: skip
    """Forward packets for about `call_ns`; return how many of these nanoseconds had packets to process.

    The arguments are those of `gateway.run.run`, with the balancer's `tables` and `state`.
    """
    begun = now_ns(clock)
    now, turn, busy, empty, punted = begun, begun - TURN_NS, 0, 0, native64(punts.words, WRITTEN)
    while now - begun < call_ns:
        if now - turn >= TURN_NS:
            if turn >= begun and native64(punts.words, WRITTEN) != punted:
                break
            turn = now
            age_fragments(tables, state, now)
            sweep(state, tables.timeouts, now)
        done = 0
        for port in range(SLOW_PATH, graph.entry.size):
            count = arrived(ports, port, injects, packets, counters)
            if count:
                walk(Work(packets, count, ports.memory, graph, tables, state, now))
                copy_punted(ports, packets, count, punts, state, now)
                settle_burst(ports, packets, count, counters)
                done += count
        before, now = now, now_ns(clock)
        if done:
            busy += now - before
            empty = 0
            continue
        empty += 1
        if sleep_ms and empty >= EMPTY_ROUNDS:
            if native64(punts.words, WRITTEN) != punted:  # notify the slow path first
                break
            if not sleep(sleepers, sleep_ms) or is_called(sleepers):
                break
            # Packets: a return to Python and the next call would cost as much as dozens of them.
            now = now_ns(clock)
            empty = 0
    return busy


@part
def walk(work: Work) -> None:
    """Process a burst from its entry nodes until every packet has a fate."""
    packets, count, graph = work.packets, work.size, work.graph
    waiting = put_at_entries(packets, count, graph)
    for node in range(graph.kind.size):
        if waiting >> node & 1 == 0 or not stands_at(node, packets, count):
            continue
        waiting |= nodes_behind(graph, node)
        kind = graph.kind[node]
        if kind == kinds.UNDERLAY:
            underlay(node, work)
        elif kind == kinds.PARSE:
            parse(node, work)
        elif kind == kinds.CLIENT:
            client(node, work)
        elif kind == kinds.BALANCE:
            balance(node, work)
        elif kind == kinds.FORWARD:
            forward(node, work)
        elif kind == kinds.TRANSLATE:
            translate(node, work)
        elif kind == kinds.REFUSE:
            refuse(node, work)
        elif kind == kinds.SEND:
            send(node, work)
    abandon(packets, count)

"""A gateway as its processes assemble it, without processes: ports, rings, records of its partner, and one turn."""

import hashlib
from pathlib import Path

import numpy as np

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.bursts import enter
from heddle.dataplane.elements.memory.exchange import ControlEnd, empty_exchange
from heddle.dataplane.elements.memory.punt_share import MAX_BURST, PACKET_NS
from heddle.dataplane.elements.memory.shares import CONNECTIONS, ENDPOINT_PORTS, FRAGMENTS, MAPPINGS
from heddle.dataplane.elements.memory.state import FRAGMENTS_HELD
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import BURST, PACKET
from heddle.dataplane.engine.counters import imbalance, make_counters
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.engine.rings import Injector, PuntReader, empty_ring
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.gateway.memory.connections import free_ended_pairs
from heddle.dataplane.gateway.memory.exchange import exchange
from heddle.dataplane.gateway.memory.state import CLOSED, ESTABLISHED, PAIRS_ENDED, PAIRS_FREED, PAIRS_USED, empty_state
from heddle.dataplane.gateway.run import end_burst, walk
from heddle.dataplane.io.frames.in_memory import MemoryPorts
from heddle.dataplane.io.frames.layout import FREE
from heddle.dataplane.io.ports import receive
from heddle.dataplane.jit import CHECKED
from heddle.dataplane.packet.transport import TCP
from heddle.kernels.cache import keep_on_disk
from tests.fakes.gateway.compiled_packets import STAMP, called

LIMITS = Limits(connections=512, mappings=128, fragments=32, connections_per_endpoint=128)
PORTS, BUFFERS, RING = 4, 256, 64
SLOW_PATH = -1
"""In place of a port: the frames that the slow path sends."""


@called
def turn(ports, port, packets, graph, tables, state, counters, punts, injects, between, now_ns):
    """Process one burst, or the slow path's frames, like `gateway.run` does; return how many packets."""
    age(tables, state, now_ns)
    if port == SLOW_PATH:
        count = enter(ports, injects, packets, counters)
    else:
        count = receive(ports, port, packets, BURST, counters)
    if count:
        walk(Work(packets, count, ports.memory, graph, tables, state, now_ns))
        end_burst(ports, packets, count, counters, punts, tables, state, now_ns)
        free_ended_pairs(state)
    exchange(tables, state, between, now_ns)
    return count


keep_on_disk(
    turn,
    stamp=STAMP + hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
    variant="-checked" if CHECKED else "",
)


class Gateway:
    """Elements, state, ports and rings of one of two gateways."""

    def __init__(self) -> None:
        self.memory = MemoryPorts(PORTS, buffers=BUFFERS, ring=RING)
        self.ports = self.memory.ports
        self.state = empty_state(LIMITS)
        self.counters = make_counters(PORTS, 3)
        self.packets = np.zeros(BURST, PACKET)
        self.punts, self.injects, self.between = empty_ring(1 << 16), empty_ring(1 << 16), empty_exchange()
        self.reader, self.injector, self.partner = (
            PuntReader(self.punts),
            Injector(self.injects),
            ControlEnd(self.between),
        )
        self.partner.request_all()

    def turn(self, port, graph, tables, now_ns):
        """Run the gateway once; return how many packets."""
        return int(
            turn(
                self.ports, np.int64(port), self.packets, graph, tables, self.state, self.counters, self.punts,
                self.injects, self.between, np.int64(now_ns),
            )
        )  # fmt: skip

    def use_up_shares(self, now_ns):
        """Exhaust all allowances for the slow path, as after a flood."""
        self.state.punt_dues[:] = now_ns + MAX_BURST * PACKET_NS

    def faults(self, count):
        """Return the faults found after a burst."""
        fates = self.packets["node"][:count]
        if not ((fates >= -3) & (fates <= -1)).all():
            yield f"packets without a fate: {fates.tolist()}"
        if imbalance(self.counters) or self.counters.drops[Drop.BAD_STATE]:
            bad = self.counters.drops[Drop.BAD_STATE]
            yield f"{imbalance(self.counters)} packets have no end or two, {bad} are in a bad state"

    def lost_buffers(self):
        """Return how many buffers are missing, once all sent frames were collected."""
        return int(BUFFERS - self.ports.pool[FREE])

    def state_faults(self):
        """Return the inconsistencies between tables."""
        state = self.state
        rows = state.connections
        lives = np.flatnonzero(rows["key"])
        pairs = state.counts[PAIRS_USED] - state.counts[PAIRS_FREED] - state.counts[PAIRS_ENDED]
        if len(lives) != 2 * pairs or len(lives) != np.count_nonzero(state.slots):
            yield f"{len(lives)} rows, {pairs} pairs, {np.count_nonzero(state.slots)} slots"
        named = rows["mapping"][lives]
        references = np.bincount(named[named >= 0], minlength=len(state.mappings))
        used = state.mappings["key"] != 0
        if (references != np.where(used, state.mappings["references"], 0)).any():
            yield "mappings count references that no connection has"
        yield from queue_faults(state)
        holders = np.zeros(len(state.mappings), np.int64)
        np.bitwise_xor.at(holders, named[named >= 0], lives[named >= 0] + 1)
        if (holders != np.where(used, state.mappings["holders"], 0)).any():
            yield "mappings name other holders than connections have them"
        about, counted = state.accounts["about"], state.accounts["count"]
        kept = int((state.fragments["vni"] != 0).sum())
        counts = [int(counted[about == which].sum()) for which in (CONNECTIONS, MAPPINGS, FRAGMENTS)]
        of_ports = (about > FRAGMENTS) & (about < ENDPOINT_PORTS)
        ports = (int(counted[of_ports].sum()), int(counted[about >= ENDPOINT_PORTS].sum()))
        if counts != [pairs, int(used.sum()), kept] or ports != (used.sum(), used.sum()):
            yield f"VPC accounts: {counts}; entries: {pairs} connections, {used.sum()} mappings, {kept} fragments"
        if state.counts[FRAGMENTS_HELD] != kept:
            yield f"{state.counts[FRAGMENTS_HELD]} fragmented packets are counted, {kept} there are"
        if state.owners["connections"].sum() != pairs:
            yield f"{state.owners['connections'].sum()} connections count against endpoints, {pairs} there are"


def queue_faults(state):
    """Return what is wrong with the queues of connections that may give way: each is in two, in the right ones."""
    rows = state.connections
    openers = np.flatnonzero(rows["key"][::2]) * 2
    for queues, side, anchors in (
        (state.endpoint_queues, 0, rows["owner"][openers]),
        (state.vpc_queues, 1, state.owners["account"][rows["owner"][openers]]),
    ):
        found = {}
        for anchor in {int(each) for each in anchors}:
            for queue in range(queues.shape[1] // 2):
                older, name = 0, int(queues[anchor, 2 * queue])
                while name:
                    row = 2 * (name - 1) + side
                    before, after = divmod(int(rows["neighbours"][row]), 1 << 32)
                    if before != older or row in found or rows["queued"][row - side] != queue + 1:
                        yield f"row {row} of queue {queue} is linked wrongly"
                        return
                    found[row] = anchor
                    older, name = name, after
                if queues[anchor, 2 * queue + 1] != older:
                    yield f"queue {queue} of {anchor} has another end"
        expected = {
            int(row) + side: int(anchor) for row, anchor in zip(openers, anchors, strict=True) if rows["queued"][row]
        }
        if found != expected:
            yield f"{len(found)} connections are in queues, {len(expected)} should be"
    protocol, flags = rows["key"][openers] >> 24 & 0xFF, rows["flags"][openers]
    live = (flags & ESTABLISHED != 0) & ((protocol != TCP) | (flags & CLOSED == 0))
    if (rows["queued"][openers][live] != 0).any() or (rows["queued"][openers][~live] == 0).any():
        yield "live connections are in queues, or others are in none"

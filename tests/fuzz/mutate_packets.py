"""Put mutated packets through two gateways that differ only in the rubbish around each packet; print what came of it.

A program of its own, because bounds are checked (HEDDLE_BOUNDS_CHECK=1) or not for all kernels of a process.
Arguments: packets, seed. Prints one JSON object.
"""

import json
import sys
import time

import numpy as np

from dataplane.config.local import Limits
from dataplane.engine.burst import BURST, PACKET
from dataplane.engine.counters import make_counters
from dataplane.engine.graph import arrays_of
from dataplane.engine.reasons import Drop, Punt
from dataplane.gateway.graph import graph_of
from dataplane.gateway.state import PAIRS_BACK, PAIRS_HELD, PAIRS_USED, empty_state
from dataplane.io.in_memory import MemoryPorts
from dataplane.io.layout import FREE
from dataplane.jit import CHECKED
from tests.fakes.compiled_packets import started
from tests.fakes.gateway_chain import through
from tests.fakes.two_tenants import LOCAL, tenants_tables
from tests.fuzz.packet_mutations import arrive, differ, seeds_of
from tests.fuzz.packet_seeds import SEEDS

LIMITS = Limits(connections=512, mappings=128, fragments=64, connections_per_endpoint=128)
STEP_NS = 5_000_000
"""Between bursts: connections age as fast as new ones come."""
RELOAD = 1000
"""Bursts after which the tables are those of another generation."""
PORTS, BUFFERS = 4, 256


class Gateway:
    """Elements, state and ports of one of the two."""

    def __init__(self) -> None:
        self.memory = MemoryPorts(PORTS, buffers=BUFFERS)
        self.ports = self.memory.ports
        self.state = empty_state(LIMITS)
        self.counters = make_counters(PORTS, 3)
        self.packets = np.zeros(BURST, PACKET)

    def faults(self, count):
        """Return what is wrong after a burst."""
        fates = self.packets["node"][:count]
        if not ((fates >= -3) & (fates <= -1)).all():
            yield f"packets without a fate: {fates.tolist()}"
        ports, drops, punts = self.counters.ports, self.counters.drops, self.counters.punts
        ended = ports["tx_packets"].sum() + drops.sum() + punts.sum()
        if ports["rx_packets"].sum() != ended or drops[Drop.BAD_STATE]:
            yield f"received {ports['rx_packets'].sum()}, ended {ended}, in bad state {drops[Drop.BAD_STATE]}"

    def state_faults(self):
        """Return where tables that have to agree do not."""
        state = self.state
        rows = state.connections
        lives = np.flatnonzero(rows["key"])
        pairs = state.counts[PAIRS_USED] - state.counts[PAIRS_BACK] - state.counts[PAIRS_HELD]
        if len(lives) != 2 * pairs or len(lives) != np.count_nonzero(state.slots):
            yield f"{len(lives)} rows, {pairs} pairs, {np.count_nonzero(state.slots)} slots"
        named = rows["mapping"][lives]
        references = np.bincount(named[named >= 0], minlength=len(state.mappings))
        used = state.mappings["key"] != 0
        if (references != np.where(used, state.mappings["references"], 0)).any():
            yield "mappings count references that no connection has"
        if state.owners[:, 3].sum() != pairs:
            yield f"{state.owners[:, 3].sum()} connections count against endpoints, {pairs} there are"


def main(cases, seed):
    seeds, graph, chance = seeds_of(SEEDS), arrays_of(graph_of(LOCAL)), started(seed)
    generations = [tenants_tables(generation) for generation in (1, 2)]
    one, other = Gateway(), Gateway()
    here, there = np.zeros(1 << 16, np.uint8), np.zeros(1 << 16, np.uint8)
    left, faults, slowest_ns, done, now_ns, bursts = np.zeros(PORTS, np.int64), [], 0, 0, 10**12, 0
    begun_ns = 0
    while done < cases and not faults:
        tables = generations[bursts // RELOAD % 2]
        port = np.int64(arrive(seeds, one.ports, other.ports, here, np.int64(BURST), np.int64(6), chance))
        started_ns = time.thread_time_ns()
        count = through(one.ports, port, one.packets, graph, tables, one.state, one.counters, np.int64(now_ns))
        took_ns = time.thread_time_ns() - started_ns
        through(other.ports, port, other.packets, graph, tables, other.state, other.counters, np.int64(now_ns))
        if bursts:  # the first one compiles
            slowest_ns = max(slowest_ns, took_ns)
        else:
            begun_ns = time.process_time_ns()
        faults += [*one.faults(count), *other.faults(count)]
        if one.packets.tobytes() != other.packets.tobytes():
            faults.append(f"burst {bursts}: rows depend on what lies around packets")
        if differ(one.ports, other.ports, here, there, left):
            faults.append(f"burst {bursts}: what left depends on what lies around packets")
        if one.ports.pool[FREE] != BUFFERS:
            faults.append(f"burst {bursts}: {BUFFERS - one.ports.pool[FREE]} buffers are lost")
        if bursts % RELOAD == 0 or done + count >= cases:
            faults += one.state_faults()
            if any(a.tobytes() != b.tobytes() for a, b in zip(one.state, other.state, strict=True)):
                faults.append(f"burst {bursts}: state depends on what lies around packets")
        done, now_ns, bursts = done + int(count), now_ns + STEP_NS, bursts + 1
    counters = one.counters
    print(
        json.dumps(
            {
                "checked": CHECKED,
                "packets": done,
                "faults": faults[:10],
                "left": left.tolist(),
                "drops": {Drop(n).name: int(c) for n, c in enumerate(counters.drops) if c},
                "punts": {Punt(n).name: int(c) for n, c in enumerate(counters.punts) if c},
                "slowest_burst_ns": slowest_ns,
                "cpu_s": (time.process_time_ns() - begun_ns) / 1e9,
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

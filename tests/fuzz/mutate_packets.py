"""Send mutated packets through two gateways that differ only in the bytes around each packet; print the results.

This is a program of its own, because bounds are checked (HEDDLE_BOUNDS_CHECK=1) or not for all kernels of a process.
Arguments: packets, seed. It prints one JSON object; `missed` lists the planted faults that were not detected.

Besides packets, the other inputs of a data process are mutated: frames that the slow path sends or enters, and the
partner's records, which are the gateway's own records, changed. Punted packets go to the slow path, whose frames are
sent. At times the ring of punted packets is not read and sent frames are not collected, so that these fill up. Tables
change in between.
"""

import gc
import json
import sys
import time

import numpy as np

from heddle.dataplane.control.slow.directory import Directory
from heddle.dataplane.control.slow.next_hops import NextHops
from heddle.dataplane.control.slow.slow_path import SlowPath
from heddle.dataplane.elements.memory.state import JOURNAL_LOST, PARTNER_REFUSED, RECORD
from heddle.dataplane.engine.graph import arrays_of
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway.graph import graph_of
from heddle.dataplane.jit import CHECKED
from tests.fakes.gateway.compiled_packets import started
from tests.fakes.gateway.two_tenants import LOCAL
from tests.fuzz.changing_tables import GENERATIONS
from tests.fuzz.mutated_gateway import PORTS, SLOW_PATH, Gateway
from tests.fuzz.packet_mutations import arrive, differ, seeds_of, throw_in
from tests.fuzz.packet_seeds import SEEDS
from tests.fuzz.planted_faults import BREAKABLE, KINDS, broken, found_faults

STEP_NS = 50_000_000
"""Between bursts: connections age as fast as new ones come. Now and then time stands still, so that shares run out."""
RELOAD = 120
"""Bursts after which the tables are those of another generation."""
EDGES = np.array([0, 1, -1, 3, 0xFF, 0xFFFF, 0xFF_FFFF, 1 << 24, 0xFFFF_FFFF, 1 << 32, 1 << 62, -(1 << 63)])


class Search:
    """Two gateways, and the events applied to both."""

    def __init__(self, seed, planted=""):
        self.planted = planted
        self.seeds, self.chance, self.numbers = seeds_of(SEEDS), started(seed), np.random.default_rng(seed)
        self.graph = arrays_of(graph_of(LOCAL))
        self.one, self.other = Gateway(), Gateway()
        self.here, self.there = np.zeros(1 << 16, np.uint8), np.zeros(1 << 16, np.uint8)
        self.left, self.faults, self.slowest_ns = np.zeros(PORTS, np.int64), [], 0
        self.packets, self.now_ns, self.bursts, self.records = 0, 10**12, 0, 0
        self.path = SlowPath(Directory(LOCAL, GENERATIONS[0].network), NextHops.of(GENERATIONS[0].tables))

    def step(self):
        """Let one burst arrive, and check its results."""
        if self.bursts % RELOAD == 0:
            self.reload()
        one, other, turns = self.one, self.other, self.bursts % 1024
        if turns % 16 == 15:
            throw_in(self.seeds, one.injects, other.injects, self.here, np.int64(8), self.chance)
            port = SLOW_PATH
        else:
            rubbish = np.bool_(not 600 < turns <= 620)  # not over what was not collected yet
            port = arrive(self.seeds, one.ports, other.ports, rubbish, self.here, np.int64(6), self.chance)
        started_ns = time.thread_time_ns()
        count = one.turn(port, self.graph, self.tables, self.now_ns)
        took_ns = time.thread_time_ns() - started_ns
        if self.bursts:  # the first one compiles
            self.slowest_ns = max(self.slowest_ns, took_ns)
        other.turn(port, self.graph, self.tables, self.now_ns)
        self.compare(count)
        if not 300 <= turns < 380:
            self.run_slow_path()
        if turns % 8 == 0:
            self.exchange()
        if turns == 700:
            for gateway in (one, other):
                gateway.use_up_shares(self.now_ns)
        self.packets, self.bursts = self.packets + count, self.bursts + 1
        self.now_ns += 0 if 700 <= turns < 720 or 800 <= turns < 900 else STEP_NS

    def reload(self):
        """Use the next tables."""
        generation = GENERATIONS[self.bursts // RELOAD % len(GENERATIONS)]
        self.tables = broken(generation.tables, self.planted) if self.planted else generation.tables
        self.path.configure(Directory(LOCAL, generation.network), NextHops.of(self.tables), self.now_ns)
        self.compare_state()

    def compare(self, count):
        """Compare rows, rings and sent frames of both."""
        one, other = self.one, self.other
        self.faults += [*one.faults(count), *other.faults(count)]
        if one.packets.tobytes() != other.packets.tobytes():
            self.faults.append(f"burst {self.bursts}: rows depend on what lies around packets")
        if one.punts.data.tobytes() != other.punts.data.tobytes():
            self.faults.append(f"burst {self.bursts}: what is punted depends on what lies around packets")
        if 600 <= self.bursts % 1024 < 620:
            return
        if differ(one.ports, other.ports, self.here, self.there, self.left):
            self.faults.append(f"burst {self.bursts}: what left depends on what lies around packets")
        if one.lost_buffers():
            self.faults.append(f"burst {self.bursts}: {one.lost_buffers()} buffers are lost")

    def compare_state(self):
        """Compare the two states with each other, and check each for consistency."""
        self.faults += self.one.state_faults()
        if any(a.tobytes() != b.tobytes() for a, b in zip(self.one.state, self.other.state, strict=True)):
            self.faults.append(f"burst {self.bursts}: state depends on what lies around packets")

    def run_slow_path(self):
        """Run the slow path; its frames are sent by both gateways."""
        effects = [] if self.bursts % 20 else self.path.tick(self.now_ns)
        for punted in self.one.reader.read():
            effects += self.path.handle(punted, self.now_ns)
        self.other.reader.read()
        for effect in effects:
            for gateway in (self.one, self.other):
                gateway.injector.send(effect.frame, effect.port)

    def exchange(self):
        """Apply to both gateways the records that they wrote for their partner, some of them changed."""
        records, _ = self.one.partner.collect(64 * RECORD.itemsize)
        if self.other.partner.collect(64 * RECORD.itemsize)[0] != records:
            self.faults.append(f"burst {self.bursts}: records depend on what lies around packets")
        words = np.frombuffer(bytearray(records), np.int64).reshape(-1, RECORD.itemsize // 8)
        for number in np.flatnonzero(self.numbers.random(len(words)) < 0.7):
            self.mutate(words[number], words)
        for row in words:
            kept = [gateway.partner.keep(row.tobytes()) for gateway in (self.one, self.other)]
            self.records += kept[0] > 0

    def mutate(self, row, words):
        """Change a few words of a record."""
        numbers = self.numbers
        for _ in range(numbers.integers(1, 4)):
            at = numbers.integers(len(row))
            match numbers.integers(4):
                case 0:
                    row[at] ^= np.int64(1) << numbers.integers(63)
                case 1:
                    row[at] = numbers.choice(EDGES)
                case 2:
                    row[at] = words[numbers.integers(len(words)), at]
                case _:
                    row[at] ^= numbers.integers(1 << 16)

    def result(self, cpu_s):
        """Return the results, ready for JSON."""
        counters, counts = self.one.counters, self.one.state.counts
        return {
            "checked": CHECKED,
            "packets": sum(int(counters.ports[f"rx_{name}"].sum()) for name in ("packets", "injected", "fragments")),
            "faults": self.faults[:10],
            "left": self.left.tolist(),
            "sent": int(counters.ports["tx_packets"].sum()),
            "drops": {Drop(n).name: int(c) for n, c in enumerate(counters.drops) if c},
            "punts": {Punt(n).name: int(c) for n, c in enumerate(counters.punts) if c},
            "slow_path": {str(outcome): count for outcome, count in self.path.outcomes.items()},
            "records": self.records,
            "records_refused": int(counts[PARTNER_REFUSED]),
            "journal_lost": int(counts[JOURNAL_LOST]),
            "slowest_burst_ns": self.slowest_ns,
            "cpu_s": cpu_s,
        }


def plant():
    """Plant faults; return those that were not detected."""
    missed = [*sorted({*range(KINDS)} - {*found_faults(GENERATIONS[0].tables)})]
    for name in BREAKABLE:
        search = Search(1, planted=name)
        try:
            for _ in range(RELOAD):
                search.step()
            missed.append(name)
        except IndexError:
            pass
    return missed


def main(cases, seed):
    search, begun_ns = Search(seed), 0
    while search.packets < cases and not search.faults:
        try:
            search.step()
        except IndexError as fault:
            search.faults.append(f"burst {search.bursts}: {fault}")
        begun_ns = begun_ns or time.process_time_ns()
    search.compare_state()
    found = search.result((time.process_time_ns() - begun_ns) / 1e9)
    print(json.dumps({**found, "missed": plant()}))


if __name__ == "__main__":
    gc.disable()  # a twelfth of the time to compile
    main(int(sys.argv[1]), int(sys.argv[2]))

"""Memory ports under any traffic, any fates and full rings: each buffer is in one place, every frame is counted."""

from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from heddle.dataplane.engine.burst import BURST, DROPPED, PACKET, PUNTED, TRANSMIT
from heddle.dataplane.engine.counters import make_counters
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.io.frames.in_memory import MemoryPorts
from heddle.dataplane.io.frames.layout import CHAINED, END, FREE, NEXT, NUMBER
from heddle.dataplane.io.ports import copy_in, inject, receive, settle
from tests.support.examples import examples

PORTS, BUFFERS, CHUNK_BYTES, RING = 3, 96, 512, 16
ROOM = CHUNK_BYTES - 256

lengths = st.one_of(st.integers(14, 4 * ROOM), st.sampled_from([14, ROOM - 1, ROOM, ROOM + 1, 2 * ROOM, 9000]))
ports = st.integers(0, PORTS - 1)
fates = st.one_of(
    st.tuples(st.just("transmit"), st.integers(-1, PORTS)),
    st.tuples(st.just("cut"), st.tuples(ports, st.integers(0, 5 * ROOM))),
    st.tuples(st.just("encapsulate"), st.tuples(ports, st.integers(1, 300))),
    st.tuples(st.just("decapsulate"), st.tuples(ports, st.integers(1, 100))),
    st.tuples(st.just("drop"), st.integers(-1, 64)),
    st.tuples(st.just("punt"), st.integers(-1, 16)),
    st.tuples(st.just("forgotten"), st.integers(0, 5)),
)


@dataclass
class Accounting:
    """The expected counters."""

    received: int = 0
    injected: int = 0
    left: int = 0
    drops: Counter[int] = field(default_factory=Counter)
    punts: Counter[int] = field(default_factory=Counter)


class Traffic(RuleBasedStateMachine):
    """Frames arrive, get fates and leave; `waiting` and `leaving` model the rings."""

    @initialize()
    def open(self) -> None:
        self.memory = MemoryPorts(PORTS, buffers=BUFFERS, chunk_bytes=CHUNK_BYTES, ring=RING)
        self.counters = make_counters(PORTS)
        self.packets = np.zeros(BURST, PACKET)
        self.expected = Accounting()
        self.waiting: list[deque[bytes]] = [deque() for _ in range(PORTS)]
        self.leaving: list[deque[bytes]] = [deque() for _ in range(PORTS)]
        self.mark = 0

    def frame(self, length: int) -> bytes:
        self.mark += 1
        return bytes((self.mark * 31 + n) % 256 for n in range(length))

    def free(self) -> int:
        return int(self.memory.ports.pool[FREE])

    @rule(port=ports, wanted=st.lists(lengths, min_size=1, max_size=10))
    def arrive(self, port: int, wanted: list[int]) -> None:
        for length in wanted:
            frame = self.frame(length)
            room = len(self.waiting[port]) < RING and -(-length // ROOM) <= self.free()
            assert self.memory.put(port, frame) == room
            if room:
                self.waiting[port].append(frame)

    @rule(port=ports, at_most=st.integers(1, BURST), wanted=st.lists(fates, min_size=BURST, max_size=BURST))
    def work(self, port: int, at_most: int, wanted: list) -> None:
        count = receive(self.memory.ports, port, self.packets, at_most, self.counters)
        assert count == min(at_most, len(self.waiting[port]))
        self.expected.received += count
        for row in range(count):
            frame = self.waiting[port].popleft()
            self.decide(self.packets[row], frame, *wanted[row])
        settle(self.memory.ports, self.packets, count, self.counters)

    @rule(port=ports, length=lengths, wanted=fates)
    def enter(self, port: int, length: int, wanted: tuple) -> None:
        frame = self.frame(length)
        content = np.frombuffer(bytearray(frame), np.uint8)
        self.expected.injected += 1
        room = -(-length // ROOM) <= self.free()
        entered = copy_in(self.memory.ports, port, content, 0, length, self.packets, 5, self.counters)
        assert entered == room
        if not room:
            self.expected.drops[Drop.TRANSMIT_FULL] += 1
            return
        self.decide(self.packets[5], frame, *wanted)
        settle(self.memory.ports, self.packets[5:], 1, self.counters)

    @rule(port=ports, length=lengths)
    def send(self, port: int, length: int) -> None:
        frame = self.frame(length)
        self.expected.injected += 1
        room = -(-length // ROOM) <= self.free() and len(self.leaving[port]) < RING
        content = np.frombuffer(bytearray(frame), np.uint8)
        assert inject(self.memory.ports, port, content, 0, length, self.counters) == room
        if room:
            self.expect_to_leave(port, frame)
        else:
            self.expected.drops[Drop.TRANSMIT_FULL] += 1

    @rule(port=ports)
    def take(self, port: int) -> None:
        assert self.memory.take(port) == list(self.leaving[port])
        self.leaving[port].clear()

    def decide(self, packet, frame: bytes, fate: str, detail) -> None:
        """Set a row's fate and record its expected effect."""
        if fate == "drop":
            packet["node"], packet["reason"] = DROPPED, detail
            self.expected.drops[detail if 0 <= detail < 64 else Drop.BAD_STATE] += 1
        elif fate == "punt":
            packet["node"], packet["reason"] = PUNTED, detail
            known = 0 <= detail < 16
            (self.expected.punts if known else self.expected.drops)[detail if known else Drop.BAD_STATE] += 1
        elif fate == "forgotten":
            packet["node"] = detail
            self.expected.drops[Drop.BAD_STATE] += 1
        elif fate == "transmit":
            self.leave(packet, detail, frame)
        else:
            self.leave(packet, detail[0], self.changed(packet, frame, fate, detail[1]))

    def changed(self, packet, frame: bytes, fate: str, size: int) -> bytes | None:
        """Change a row like an element does; return the resulting frame, or None for an inconsistent row."""
        if fate == "cut":
            packet["length"] = size
            return frame[:size] if 14 <= size <= len(frame) else None
        grown = size if fate == "encapsulate" else -size
        first = int(packet["first_length"])
        packet["at"] -= grown
        packet["length"] += grown
        packet["first_length"] += grown
        if fate == "encapsulate":
            if packet["at"] < packet["floor"]:
                return None
            self.memory.ports.memory[packet["at"] : packet["at"] + size] = 0xEE
            return b"\xee" * size + frame
        return frame[size:] if size < first and len(frame) - size >= 14 else None

    def leave(self, packet, port: int, frame: bytes | None) -> None:
        packet["node"], packet["out_port"] = TRANSMIT, port
        if frame is None or not 0 <= port < PORTS:
            self.expected.drops[Drop.BAD_STATE] += 1
        elif len(self.leaving[port]) == RING:
            self.expected.drops[Drop.TRANSMIT_FULL] += 1
        else:
            self.expect_to_leave(port, frame)

    def expect_to_leave(self, port: int, frame: bytes) -> None:
        self.leaving[port].append(frame)
        self.expected.left += 1

    @invariant()
    def every_buffer_is_in_one_place(self) -> None:
        """Walk the stack and the rings without the code that moves buffers."""
        if not hasattr(self, "memory"):
            return
        inside = self.memory.ports
        places = inside.free[: int(inside.pool[FREE])].tolist()
        for port, row in enumerate(inside.ports):
            for ring, head, tail in ((2 * port, "rx_head", "rx_tail"), (2 * port + 1, "tx_head", "tx_tail")):
                for position in range(int(row[head]), int(row[tail])):
                    handle = int(inside.rings[ring, position % RING])
                    number = handle & NUMBER
                    places.append(number)
                    while handle & CHAINED and (number := int(inside.pieces[number, NEXT])) != END:
                        places.append(number)
        assert sorted(places) == list(range(BUFFERS))

    @invariant()
    def the_counters_agree(self) -> None:
        if not hasattr(self, "memory"):
            return
        counted, expected = self.counters, self.expected
        assert counted.ports["rx_packets"].sum() == expected.received
        assert counted.ports["rx_injected"].sum() == expected.injected
        assert counted.ports["tx_packets"].sum() == expected.left
        assert {n: int(c) for n, c in enumerate(counted.drops) if c} == dict(expected.drops)
        assert {n: int(c) for n, c in enumerate(counted.punts) if c} == dict(expected.punts)
        assert expected.received + expected.injected == expected.left + expected.drops.total() + expected.punts.total()
        assert counted.ports["dropped"].sum() == expected.drops.total()
        assert counted.ports["punted"].sum() == expected.punts.total()


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=examples(25), stateful_step_count=25, deadline=None)

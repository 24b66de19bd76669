"""Somebody who knows all addresses and ports, but no sequence numbers, sends segments to a thousand live connections.

They end exactly those that they hit by their next number, as often as chance has it. The long form (`make soak`) sends
millions that sweep the whole space of sequence numbers.
"""

import struct

import numpy as np
import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import BURST, PACKET
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.gateway.memory.state import CLOSED, CLOSING, ESTABLISHED
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import END, GRAPH, ROOM, Sent, StateBench, describe, walk
from tests.oracles.inet_checksum import read, tcp
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

SEGMENTS = examples(400_000)
CONNECTIONS = 1000
WINDOW = 1 << 10
SPACE = 1 << 32
TENANTS = {5: "198.51.100.5", 6: "198.51.100.6"}
INSIDE, FAR = "10.0.0.1", "8.8.8.8"
RST, RST_ACK, FIN_ACK, SYN, SYN_ACK, DATA = 0x04, 0x14, 0x11, 0x02, 0x12, 0x18
DATA_BYTES, AT = 40, 128
SECOND = 10**9


class Crowd:
    """Two tenants with equal addresses and their connections to one server, which have carried data."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.inside, self.outside = self.random.integers(0, SPACE, (2, CONNECTIONS))
        vpcs = [FakeVpc(vni, endpoints=(INSIDE,), routes={"0.0.0.0/0": EXTERNAL}, nat=nat)
                for vni, nat in TENANTS.items()]  # fmt: skip
        self.bench = StateBench(make_tables(vpcs), Limits(connections=1 << 11, mappings=1 << 11, fragments=16))
        self.ports = np.zeros(CONNECTIONS, int)
        self.ports[:] = [read(fate.packet)[1] for fate in self.out("S", 0)]
        self.back("SA", 0, b"")
        rows = [fate.connection for fate in self.out("A", 1)]
        self.rows = np.array(rows)
        self.back("PA", 1, b"from outside")
        self.out("PA", 1, b"acknowledged", 13)
        self.next = (self.outside + 13) % SPACE
        self.templates, self.described = self._forged()

    def vni(self, number):
        return 5 + number % 2

    def out(self, flags, got, data=b"", acked=1):
        """Send a segment of every machine; return the fates."""
        ends = [(INSIDE, 1024 + number // 2, FAR, 443) for number in range(CONNECTIONS)]
        numbers = [{"sequence": int(self.inside[n] + got) % SPACE, "ack": int(self.outside[n] + acked) % SPACE}
                   for n in range(CONNECTIONS)]  # fmt: skip
        return self._send([Sent(tcp(*ends[n], flags, data, **numbers[n]), self.vni(n)) for n in range(CONNECTIONS)])

    def back(self, flags, got, data):
        """Send a segment of the server to every machine."""
        sent = []
        for n in range(CONNECTIONS):
            numbers = {"sequence": int(self.outside[n] + got) % SPACE, "ack": int(self.inside[n] + 1) % SPACE}
            ends = (FAR, 443, TENANTS[self.vni(n)], int(self.ports[n]))
            sent.append(Sent(tcp(*ends, flags, data, **numbers), 0, EXTERNAL_PORT))
        return self._send(sent)

    def _send(self, sent):
        return [fate for at in range(0, len(sent), BURST) for fate in self.bench.send(*sent[at : at + BURST])]

    def _forged(self):
        """Return the bytes and the rows of a segment to each connection, without numbers and flags."""
        templates, rows = np.zeros((CONNECTIONS, 40 + DATA_BYTES), np.uint8), np.zeros(CONNECTIONS, PACKET)
        for n in range(CONNECTIONS):
            packet = tcp(FAR, 443, TENANTS[self.vni(n)], int(self.ports[n]), "A", bytes(DATA_BYTES))
            templates[n] = np.frombuffer(packet, np.uint8)
            rows[n]["in_port"], rows[n]["node"] = EXTERNAL_PORT, GRAPH.entry[0]
            describe(rows[n], packet, AT)
        return templates, rows

    def forge(self, targets, sequences, kinds):
        """Send forged segments; one without data ends behind its header."""
        frames = self.bench.memory.reshape(BURST, ROOM)
        starts = np.arange(BURST) * ROOM
        for first in range(0, len(targets), BURST):
            to = targets[first : first + BURST]
            count, kind = len(to), kinds[first : first + BURST]
            frames[:count, AT : AT + 40 + DATA_BYTES] = self.templates[to]
            wire = sequences[first : first + BURST].astype(">u4").view(np.uint8).reshape(count, 4)
            frames[:count, AT + 24 : AT + 28] = wire
            frames[:count, AT + 33] = kind
            packets = np.zeros(BURST, PACKET)
            packets[:count] = self.described[to]
            for name in ("at", "l3", "l4"):
                packets[name][:count] += starts[:count]
            packets["l4_bytes"][:count] -= np.where(kind == DATA, 0, DATA_BYTES)
            bench = self.bench
            bench.now_ns += 1000
            walk(Work(packets, count, bench.memory, GRAPH, bench.tables, bench.state, bench.now_ns))
            assert (packets["node"][:count] == END).all()  # each passes: the endpoint is to judge it

    def live(self):
        """Return which connections are established and not closing."""
        flags = self.bench.state.connections["flags"][self.rows]
        return flags & (ESTABLISHED | CLOSING | CLOSED) == ESTABLISHED

    def pass_time(self, seconds):
        for _ in range(64):
            self.bench.now_ns += seconds * SECOND // 64
            age(self.bench.tables, self.bench.state, self.bench.now_ns)

    def assert_alive(self, which):
        """Check that these connections have not been shortened, and carry data in both directions as before."""
        self.pass_time(7300)
        there = self.bench.state.connections["key"][self.rows] != 0
        assert (there == which).all()
        for fate, number in zip(self.out("PA", 13, b"goes on", 13), range(CONNECTIONS), strict=True):
            if which[number]:
                assert fate.connection == self.rows[number]
                assert read(fate.packet) == (TENANTS[self.vni(number)], self.ports[number], FAR, 443)


def test_segments_that_sweep_the_sequence_space_end_only_what_they_hit():
    crowd = Crowd(seed=1)
    count = SEGMENTS
    targets = np.arange(count) % CONNECTIONS
    turns = np.arange(count) // CONNECTIONS
    step = SPACE // (count // CONNECTIONS)
    sequences = (crowd.random.integers(0, SPACE, CONNECTIONS)[targets] + turns * step) % SPACE
    kinds = np.array([RST, FIN_ACK, SYN, RST_ACK, DATA, SYN_ACK])[(turns + targets) % 6]
    crowd.forge(targets, sequences, kinds)
    expected = np.ones(CONNECTIONS, bool)
    hits = (sequences == crowd.next[targets]) & np.isin(kinds, (RST, RST_ACK, FIN_ACK))
    expected[targets[hits]] = False
    assert (crowd.live() == expected).all()
    crowd.assert_alive(expected)


@pytest.mark.parametrize("kind", [RST, FIN_ACK])
def test_segments_near_the_next_number_hit_it_as_often_as_chance_has_it(kind):
    crowd = Crowd(seed=kind)
    count = min(SEGMENTS, 400_000)
    targets = crowd.random.integers(0, CONNECTIONS, count)
    sequences = (crowd.next[targets] + crowd.random.integers(-WINDOW // 2, WINDOW // 2, count)) % SPACE
    crowd.forge(targets, sequences, np.full(count, kind))
    expected = np.ones(CONNECTIONS, bool)
    expected[targets[sequences == crowd.next[targets]]] = False
    assert (crowd.live() == expected).all()
    chance = 1 - (1 - 1 / WINDOW / CONNECTIONS) ** count
    deviation = (CONNECTIONS * chance * (1 - chance)) ** 0.5
    assert abs(CONNECTIONS - expected.sum() - CONNECTIONS * chance) < 5 * deviation
    crowd.assert_alive(expected)


def test_what_a_template_sends_is_what_the_codec_of_the_tests_writes():
    crowd = Crowd(seed=3)
    crowd.forge(np.array([7]), np.array([1234]), np.array([RST]))
    sent = crowd.bench.memory[AT : AT + 40].tobytes()
    assert struct.unpack("!I", sent[24:28]) == (1234,)
    assert sent[33] == RST
    assert read(sent)[2:] == (INSIDE, 1024 + 7 // 2)

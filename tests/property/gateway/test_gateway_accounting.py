"""A gateway's counters agree after every call of its run loop, whatever is full, empty, sent, reloaded or ended.

Every received frame, from ports and from the slow path, is transmitted, punted or dropped for one reason. Each buffer
is in one place. Each punted packet is in the ring, and each frame of the slow path that was sent has left it.
"""

from ipaddress import IPv4Address

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

from heddle.dataplane.elements.memory.punt_share import MAX_BURST, PACKET_NS
from heddle.dataplane.engine.counters import imbalance
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.io.frames.layout import FRAMES, FREE
from tests.fakes.gateway.gateway_frames import RED_11, arriving, inner, tunnelled
from tests.fakes.gateway.gateway_loop import GatewayLoop
from tests.fakes.gateway.gateway_site import (
    BLUE,
    CUSTOMER,
    EXTERNAL,
    HOST_B,
    LOCAL,
    PORT_MACS,
    PROVIDER,
    UNDERLAY,
    site_tables,
)
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

PORTS = len(PORT_MACS)
TABLES = [
    site_tables(),
    site_tables(active=False),
    site_tables(taken_vtep=IPv4Address("192.168.0.2")),
]
LOAD = Raw(bytes(60))
FRAMES_IN = [
    (UNDERLAY, tunnelled(inner(IP(src="10.0.0.10", dst="10.0.0.11") / UDP(sport=1, dport=2) / LOAD, target=RED_11))),
    (UNDERLAY, tunnelled(inner(IP(src="10.0.0.10", dst="10.0.0.11") / UDP(sport=1, dport=4791) / Raw(bytes(4000))))),
    (UNDERLAY, tunnelled(inner(IP(src="10.0.0.11", dst="8.8.8.8") / UDP() / LOAD, source=RED_11), host=HOST_B)),
    (UNDERLAY, tunnelled(inner(IP(src="10.0.0.10", dst="8.8.8.8") / TCP(flags="S")))),
    (UNDERLAY, tunnelled(inner(IP(src="10.0.0.10", dst="10.0.0.1") / ICMP() / LOAD))),
    (UNDERLAY, tunnelled(inner(IP(src="10.0.0.10", dst="10.0.0.77") / UDP() / LOAD))),
    (UNDERLAY, tunnelled(inner(IP(src="10.0.0.10", dst="8.8.8.8", flags="DF") / UDP() / Raw(bytes(1600))))),
    (UNDERLAY, tunnelled(inner(IP(src="10.0.0.10", dst="8.8.8.8") / UDP() / Raw(bytes(1600))))),
    (
        UNDERLAY,
        tunnelled(inner(IP(src="10.0.0.11", dst="8.8.8.8") / UDP() / Raw(bytes(4200)), source=RED_11), host=HOST_B),
    ),
    (UNDERLAY, tunnelled(inner(IP(src="10.0.0.10", dst="10.0.0.12") / UDP() / LOAD))),
    (UNDERLAY, tunnelled(inner(IP(src="10.0.0.9", dst="10.0.0.11") / UDP() / LOAD), vni=BLUE)),
    (EXTERNAL, arriving(EXTERNAL, IP(src="8.8.8.8", dst="203.0.113.20") / UDP(dport=9) / LOAD)),
    (EXTERNAL, bytes(Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(pdst="203.0.113.2"))),
    (CUSTOMER, arriving(CUSTOMER, IP(src="10.99.1.1", dst="10.0.0.11") / UDP() / LOAD)),
    (PROVIDER, arriving(PROVIDER, IP(src="172.16.1.1", dst="172.31.0.2") / UDP() / LOAD)),
    (PROVIDER, b"\x02\0\0\0\0\x04"),
]
MANY = st.integers(1, 90)
ANY_FRAME, ANY_PORT = st.sampled_from(FRAMES_IN), st.integers(0, PORTS - 1)


class Accounting(RuleBasedStateMachine):
    """Ports, a slow path that reads and sends at any time, and tables that change between any two calls."""

    @initialize(buffers=st.sampled_from([8, 70, 512]), ring=st.sampled_from([16, 128]), slow=st.sampled_from([12, 16]))
    def begin(self, buffers, ring, slow):
        self.loop = GatewayLoop(LOCAL, TABLES[0], ring_bytes=1 << slow, buffers=buffers, ring=ring)
        self.generation, self.came, self.given, self.heard = 1, 0, 0, 0

    @rule(frame=ANY_FRAME, count=MANY, cut=st.integers(0, 200))
    def arrive(self, frame, count, cut):
        """Frames may be truncated, and there may be more than fit."""
        port, whole = frame
        content = whole[: max(len(whole) - cut, 1)] if cut > 150 else whole
        self.came += sum(self.loop.io.put(port, content) for _ in range(count))

    @rule(frame=ANY_FRAME, port=ANY_PORT, count=MANY, enters=st.booleans())
    def the_slow_path_sends(self, frame, port, count, enters):
        content = frame[1] if len(frame[1]) >= 14 else frame[1].ljust(14, b"\0")
        send = self.loop.injector.enter if enters else self.loop.injector.send
        self.given += sum(send(content, port) for _ in range(count))

    @rule(call_ns=st.sampled_from([0, 1, 50_000, 1_000_000]))
    def forward(self, call_ns):
        self.loop.forward(call_ns)

    @rule()
    def the_slow_path_reads(self):
        self.heard += len(self.loop.punts.read())

    @rule(port=ANY_PORT)
    def what_left_is_collected(self, port):
        self.loop.io.take(port)

    @rule(tables=st.sampled_from(TABLES))
    def other_tables(self, tables):
        self.generation += 1
        self.loop.tables = tables._replace(generation=np.array([self.generation]))

    @rule()
    def all_punt_allowances_are_exhausted(self):
        self.loop.state.punt_dues[:] = np.iinfo(np.int64).max - 2 * MAX_BURST * PACKET_NS

    @rule()
    def all_punt_allowances_are_full(self):
        self.loop.state.punt_dues[:] = 0

    @invariant()
    def every_received_packet_has_one_fate(self):
        loop = self.loop
        assert imbalance(loop.counters) == 0
        assert loop.counters.drops[Drop.BAD_STATE] == 0
        assert int(loop.counters.ports["rx_packets"].sum()) + self.waiting("rx") == self.came
        assert int(loop.counters.ports["rx_injected"].sum()) <= self.given

    @invariant()
    def each_buffer_is_in_one_place(self):
        ports, held = self.loop.io.ports, 0
        for port in range(PORTS):
            for direction, (head, tail) in enumerate((("rx_head", "rx_tail"), ("tx_head", "tx_tail"))):
                ring = ports.rings[2 * port + direction]
                for place in range(int(ports.ports[port][head]), int(ports.ports[port][tail])):
                    held += self.pieces(int(ring[place & (len(ring) - 1)]))
        assert held + ports.pool[FREE] == ports.pool[FRAMES]

    def teardown(self):
        """Stop like a data process: waiting packets are processed, and no buffer is missing."""
        if not hasattr(self, "loop"):
            return
        loop = self.loop
        while self.waiting("rx") or int(loop.counters.ports["rx_injected"].sum()) < self.given:
            for port in range(PORTS):
                loop.io.take(port)
            self.heard += len(loop.punts.read())
            loop.forward()
        for port in range(PORTS):
            loop.io.take(port)
        self.heard += len(loop.punts.read())
        made = int(loop.counters.ports["rx_fragments"].sum())
        assert loop.received() == loop.ended() == self.came + self.given + made
        assert self.heard == int(loop.counters.punts.sum())
        assert loop.punts.refused() == loop.counters.drops[Drop.PUNT_FULL]
        assert loop.io.ports.pool[FREE] == loop.io.ports.pool[FRAMES]

    def waiting(self, direction):
        ports = self.loop.io.ports.ports
        return int((ports[f"{direction}_tail"] - ports[f"{direction}_head"]).sum())

    def pieces(self, handle):
        """Return the number of buffers of a frame."""
        ports, number, count = self.loop.io.ports, handle & ((1 << 40) - 1), 1
        while handle >> 40 & 1 and ports.pieces[number, 0] >= 0:
            number, count = int(ports.pieces[number, 0]), count + 1
        return count


TestAccounting = Accounting.TestCase
TestAccounting.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)

"""With full NAT, only segments with the next expected number of their side end a connection."""

from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from heddle.dataplane.balancer.memory.connections import CLOSING, ESTABLISHED, HALF_OPEN
from heddle.dataplane.balancer.memory.state import Count
from tests.fakes.balancer_site import GATEWAY, HOST_B, VIP, BalancerLoop, tunnelled
from tests.packet.balancer.test_partners import Paired

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels
CLIENT, SPACE = "8.8.8.8", 1 << 32


class Flow:
    """A connection between a client outside and a back end; `count` is how far each side has got."""

    def __init__(self, loop):
        self.loop, self.first, self.count = loop, [SPACE - 3, 7_000_000], [0, 0]
        self.there: Any = None
        self.client("S", ack=0)
        self.server("SA")
        self.client()

    def next(self, side):
        return (self.first[side] + self.count[side]) % SPACE

    def client(self, flags="A", data=b"", **numbers):
        """Send a segment of the client, the next one but for the numbers given; return it as the back end gets it."""
        packet = IP(src=CLIENT, dst=str(VIP)) / TCP(sport=1000, dport=443, **self._fields(0, flags, data, numbers))
        (frame,) = self.loop.through(tunnelled(packet / Raw(data), host=GATEWAY, last=1))
        there = frame[VXLAN].payload.payload
        self.there = self.there or there
        return there.src, there.dst, there[TCP].sport

    def server(self, flags="A", data=b"", **numbers):
        """Send a segment of the back end."""
        fields = self._fields(1, flags, data, numbers)
        packet = IP(src=self.there.dst, dst=self.there.src) / TCP(sport=8443, dport=self.there[TCP].sport, **fields)
        host = {"host": HOST_B, "last": int(self.there.dst.rsplit(".")[-1])}
        (frame,) = self.loop.through(tunnelled(packet / Raw(data), **host))
        assert frame[VXLAN].payload.payload[TCP].dport == 1000

    def _fields(self, side, flags, data, numbers):
        found = {"flags": flags, "seq": self.next(side), "ack": self.next(1 - side)} | numbers
        if not numbers or numbers == {"ack": 0}:
            self.count[side] += len(data) + ("S" in flags) + ("F" in flags)
        return found | {name: found[name] % SPACE for name in ("seq", "ack")}

    def goes_on(self):
        """Return whether segments of both sides pass through the ports of the connection's first one."""
        self.server("PA", b"more")
        return self.client("PA", b"data") == (self.there.src, self.there.dst, self.there[TCP].sport)

    def state(self):
        rows = self.loop.rows_by_state()
        (found,) = [state for state, count in rows.items() if count]
        assert rows[found] == 2
        return found


@pytest.fixture
def loop():
    found = BalancerLoop()
    yield found
    assert list(found.state_faults()) == []


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_reset_or_fin_with_another_number_and_then_a_syn_end_nothing(loop, side):
    flow = Flow(loop)
    number = 0 if side == "client" else 1
    for flags in ("R", "RA", "FA", "F"):
        for off in (1, -1, 100, 1 << 30, 1 << 31):
            getattr(flow, side)(flags, seq=flow.next(number) + off)
            assert flow.state() == ESTABLISHED
        flow.client("S", seq=5, ack=0)
        flow.count[0] -= 1
        assert flow.goes_on()
    assert (flow.state(), loop.count(Count.NEW)) == (ESTABLISHED, 1)


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("data", [b"", b"last words"])
def test_a_reset_with_the_next_number_ends_a_connection_and_a_syn_opens_another(loop, side, data):
    flow = Flow(loop)
    getattr(flow, side)("PA", data)
    getattr(flow, side)("R")
    assert flow.state() == CLOSING
    flow.client("S", ack=0)
    assert (flow.state(), loop.count(Count.NEW)) == (HALF_OPEN, 2)


def test_a_half_closed_connection_is_live_until_the_other_side_closes_it_as_well(loop):
    flow = Flow(loop)
    flow.client("FA")
    assert flow.state() == CLOSING
    flow.client("S", seq=77, ack=0)
    flow.count[0] -= 1
    flow.server("PA", b"a long answer")
    assert loop.count(Count.NEW) == 1
    flow.server("FA")
    flow.client("S", seq=77, ack=0)
    assert loop.count(Count.NEW) == 2


def test_a_fin_behind_a_lost_segment_counts_once_it_is_acknowledged(loop):
    flow = Flow(loop)
    flow.count[0] += 50  # lost on the way here
    flow.client("FA", b"the end")
    assert flow.state() == ESTABLISHED
    flow.server()
    assert flow.state() == CLOSING


def test_segments_without_effect_do_not_keep_a_connection(loop):
    flow = Flow(loop)
    for _ in range(2):
        loop.let_pass(0.4 * loop.local.timeouts.tcp_established_s)
        flow.client("R", seq=3)
    loop.let_pass(0.4 * loop.local.timeouts.tcp_established_s)
    loop.forward()
    assert not any(loop.rows_by_state().values())


def test_a_copy_learns_the_numbers_and_closes_by_them_alone():
    here, there = Paired(), Paired()
    flow = Flow(here)
    here.copy_to(there)
    flow.loop = there
    for seq in (0, 1, flow.next(0) + 9):
        flow.client("R", seq=seq)
    assert flow.state() == ESTABLISHED
    assert flow.goes_on()
    assert flow.goes_on()
    flow.client("R", seq=flow.next(0) + 1)
    assert flow.state() == ESTABLISHED
    flow.client("R")
    assert flow.state() == CLOSING
    assert list(there.state_faults()) == []

"""Connections of one balancer go on at another that has its records, whatever changed since they began."""

import time
from dataclasses import replace

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.vxlan import VXLAN

from heddle.dataplane.balancer.memory.connections import ESTABLISHED, HALF_OPEN
from heddle.dataplane.balancer.memory.exchange import exchange
from heddle.dataplane.config.balancers import BackEnd
from heddle.dataplane.elements.memory.exchange import ControlEnd, empty_exchange
from heddle.dataplane.elements.memory.state import RECORD
from tests.fakes.balancer_site import BALANCERS, HOST_B, VIP, BalancerLoop, changed, tunnelled

pytestmark = pytest.mark.timeout(900)
B51, B52, B53 = BALANCERS[0].back_ends


class Paired(BalancerLoop):
    """A balancer whose records a partner reads."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.between = empty_exchange()
        self.end = ControlEnd(self.between)
        self.end.request_all()

    def exchange(self):
        exchange(self.tables, self.state, self.between, time.monotonic_ns())

    def copy_to(self, other):
        """Send all records that there are for now; return them."""
        sent = []
        for _ in range(200):
            self.exchange()
            records, is_all = self.end.collect(1 << 20)
            if records:
                sent.append(np.frombuffer(records, RECORD))
                assert other.end.keep(records) == len(records)
                other.exchange()
            elif is_all:
                break
        return np.concatenate(sent) if sent else np.zeros(0, RECORD)


def tcp(flags, sport, dport=80):
    return tunnelled(IP(src="10.0.0.10", dst=str(VIP)) / TCP(sport=sport, dport=dport, flags=flags))


def target_of(frame):
    return frame[VXLAN].payload.dst


@pytest.fixture
def pair():
    Paired().exchange()  # compile: within a trial it may take longer than RENEW_NS
    found = Paired(), Paired()
    yield found
    for each in found:
        assert list(each.state_faults()) == []


def test_established_connections_go_on_and_half_open_ones_are_not_copied(pair):
    here, there = pair
    ends = {}
    for sport in range(1000, 1060):
        ends[sport] = target_of(here.through(tcp("S", sport), tcp("A", sport))[0])
    here.through(*(tcp("S", sport) for sport in range(2000, 2020)))
    for each in pair:  # the slots change: the hash alone would lead elsewhere
        each.configure(changed(b0={"back_ends": (replace(B51, weight=1), replace(B52, weight=50), B53)}))
    assert len(here.copy_to(there)) == 60
    assert there.rows_by_state()[ESTABLISHED] == 60
    assert there.rows_by_state()[HALF_OPEN] == 0
    for sport, end in ends.items():
        assert target_of(there.through(tcp("PA", sport))[0]) == end
    assert there.end.refused() == 0


def test_full_nat_goes_on_in_both_directions(pair):
    here, there = pair
    (frame,) = here.through(tcp("S", 1000, 443))
    out = frame[VXLAN].payload.payload
    last = int(out.dst.rsplit(".")[-1])
    reply = IP(src=out.dst, dst=out.src) / TCP(sport=8443, dport=out[TCP].sport, flags="SA")
    here.through(tunnelled(reply, host=HOST_B, last=last), tcp("A", 1000, 443))
    here.copy_to(there)
    (frame,) = there.through(tcp("PA", 1000, 443))
    again = frame[VXLAN].payload.payload
    assert (again.src, again.dst, again[TCP].sport) == (out.src, out.dst, out[TCP].sport)
    (frame,) = there.through(tunnelled(reply, host=HOST_B, last=last))
    assert frame[VXLAN].payload.payload[TCP].dport == 1000


def test_a_record_is_as_old_as_the_last_packet_of_either_direction(pair):
    here, there = pair
    (frame,) = here.through(tcp("S", 1000, 443))
    out = frame[VXLAN].payload.payload
    packet = IP(src=out.dst, dst=out.src) / TCP(sport=8443, dport=out[TCP].sport, flags="A")
    reply = tunnelled(packet, host=HOST_B, last=int(out.dst.rsplit(".")[-1]))
    here.through(reply, tcp("A", 1000, 443))
    here.let_pass(600)
    here.through(reply)
    assert here.copy_to(there)["idle_ns"].max() < 5e9


def test_a_record_of_an_unknown_back_end_is_refused(pair):
    here, there = pair
    here.configure(changed(b0={"back_ends": (BackEnd(ip=B51.ip + 3, port=80),)}))
    here.through(tcp("S", 1000), tcp("A", 1000))
    here.copy_to(there)
    assert there.end.refused() == 1
    assert there.rows_by_state()[ESTABLISHED] == 0


def test_records_that_are_damaged_are_refused(pair):
    here, there = pair
    here.through(tcp("S", 1000), tcp("A", 1000))
    here.exchange()
    records, _ = here.end.collect(1 << 20)
    chance = np.random.default_rng(3)
    for _ in range(300):
        damaged = np.frombuffer(bytearray(records), np.int64).copy()
        damaged[chance.integers(0, len(damaged))] = chance.integers(-(2**63), 2**63 - 1)
        there.end.keep(damaged.tobytes())
        there.exchange()
        assert list(there.state_faults()) == []
    assert there.end.refused() > 100

"""Hole punching by hairpin: two endpoints behind the gateway reach each other by public addresses if both send.

Rules allow nothing inwards. Each endpoint has a mapping, as it has spoken to a rendezvous server.
"""

import numpy as np
import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory.state import RECORD
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.gateway.memory.partner import apply_records, collect, start_journal
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeRule, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import Passed, Sent, StateBench, hop_of
from tests.oracles.inet_checksum import faults, read, tcp, udp

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

LIMITS = Limits(connections=1 << 6, mappings=1 << 6, fragments=16, connections_per_endpoint=1 << 6)
A, B, SERVER = "10.0.0.1", "10.0.0.2", "8.8.8.8"
SHARED, OWN, FLOATING = "198.51.100.7", "198.51.100.8", "198.51.100.9"
OUT = {"0.0.0.0/0": EXTERNAL}


def vpcs(rules_in=()):
    """Return three VPCs: two share a NAT address, one has its own, and one endpoint has a floating IP."""
    return [
        FakeVpc(5, endpoints=(A, B), routes=OUT, nat=SHARED),
        FakeVpc(6, endpoints=(A, B), routes=OUT, nat=SHARED, rules_in=rules_in),
        FakeVpc(7, endpoints=(A, B), routes=OUT, nat=OWN, floating={FLOATING: B}),
    ]


@pytest.fixture
def bench():
    return StateBench(make_tables(vpcs()), LIMITS)


def met(bench, make, vni, address, port):
    """Speak to the rendezvous server; return the public address and port that it sees."""
    return read(bench.one(make(address, port, SERVER, 3478), vni).packet)[:2]


PAIRS = {
    "two VPCs of one public address": ((5, A), (6, A)),
    "one VPC": ((5, A), (5, B)),
    "two public addresses": ((5, A), (7, A)),
    "NAT and a floating IP": ((6, B), (7, B)),
    "a floating IP and NAT": ((7, B), (6, B)),
}


@pytest.mark.parametrize("make", [udp, tcp])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_the_second_side_that_sends_opens_the_way_for_both(bench, pair, make):
    (first_vni, first), (second_vni, second) = pair
    seen_first, seen_second = met(bench, make, first_vni, first, 4000), met(bench, make, second_vni, second, 4000)
    there, back = make(first, 4000, *seen_second), make(second, 4000, *seen_first)
    assert bench.one(there, first_vni) == Drop.DENIED_IN
    reached = bench.one(back, second_vni)
    assert (reached.hop, read(reached.packet)) == (
        hop_of(bench.tables, first_vni, first),
        (*seen_second, first, 4000),
    )
    answered = bench.one(there, first_vni)
    assert (answered.hop, read(answered.packet)) == (
        hop_of(bench.tables, second_vni, second),
        (*seen_first, second, 4000),
    )
    assert faults(reached.packet) == faults(answered.packet) == []
    assert isinstance(bench.one(back, second_vni), Passed)


def test_both_sides_of_one_burst_meet(bench):
    first, second = met(bench, udp, 5, A, 4000), met(bench, udp, 6, A, 4000)
    there, back = Sent(udp(A, 4000, *second), 5), Sent(udp(A, 4000, *first), 6)
    fates = bench.send(there, back, there, back)
    assert fates[0] == Drop.DENIED_IN
    assert all(isinstance(fate, Passed) for fate in fates[1:])


def test_who_waits_keeps_its_public_port_and_waits_until_its_timeout(bench):
    met(bench, udp, 6, B, 4000)  # has the port
    first, second = met(bench, udp, 5, A, 4000), met(bench, udp, 6, A, 4000)
    assert 4000 not in (first[1], second[1])
    for _ in range(5):
        assert bench.one(udp(A, 4000, *second), 5) == Drop.DENIED_IN
        bench.now_ns += 100 * 10**9
        age(bench.tables, bench.state, bench.now_ns)
        bench.one(udp(A, 4000, SERVER, 3478), 6)
    assert isinstance(bench.one(udp(A, 4000, *first), 6), Passed)
    bench.now_ns += 400 * 10**9
    for _ in range(4):
        age(bench.tables, bench.state, bench.now_ns)
    assert not bench.state.connections["key"].any()
    assert not bench.state.mappings["key"].any()


def test_no_one_else_gets_in_by_a_waiting_connection(bench):
    first, second = met(bench, udp, 5, A, 4000), met(bench, udp, 6, A, 4000)
    bench.one(udp(A, 4000, *second), 5)
    met(bench, udp, 6, B, 4000)
    met(bench, udp, 6, A, 4001)
    assert bench.one(udp(B, 4000, *first), 6) == Drop.DENIED_IN
    assert bench.one(udp(A, 4001, *first), 6) == Drop.DENIED_IN
    assert bench.one(udp(SERVER, 9, *first), 0, EXTERNAL_PORT) == Drop.DENIED_IN


def test_an_endpoint_does_not_wait_for_itself(bench):
    first = met(bench, udp, 5, A, 4000)
    before = int((bench.state.connections["key"] != 0).sum())
    assert bench.one(udp(A, 4000, *first), 5) == Drop.DENIED_IN
    assert int((bench.state.connections["key"] != 0).sum()) == before


def test_a_waiting_connection_opens_once_rules_allow_it(bench):
    met(bench, udp, 5, A, 4000)
    second = met(bench, udp, 6, A, 4000)
    assert bench.one(udp(A, 4000, *second), 5) == Drop.DENIED_IN
    bench.tables = make_tables(vpcs((FakeRule(),)), generation=2)
    assert read(bench.one(udp(A, 4000, *second), 5).packet)[2:] == (A, 4000)


def test_a_side_that_rules_let_in_is_reached_by_the_one_that_waits_for_it():
    bench = StateBench(make_tables(vpcs((FakeRule(),))), LIMITS)
    first, second = met(bench, udp, 5, A, 4000), met(bench, udp, 6, A, 4000)
    assert bench.one(udp(A, 4000, *first), 6) == Drop.DENIED_IN
    assert read(bench.one(udp(A, 4000, *second), 5).packet) == (*first, A, 4000)
    assert read(bench.one(udp(A, 4000, *first), 6).packet) == (*second, A, 4000)


def copied(source, target):
    """Copy what one gateway has journaled to its partner; return how many records that refused."""
    records = np.zeros(64, dtype=RECORD)
    count = collect(source.state, records, source.now_ns)
    return apply_records(target.tables, target.state, records, count, target.now_ns)


def test_two_sides_meet_at_two_gateways_of_a_pair():
    one, other = (StateBench(make_tables(vpcs()), LIMITS) for _ in range(2))
    for each in (one, other):
        start_journal(each.state)
    first = met(one, udp, 5, A, 4000)
    assert copied(one, other) == 0
    second = met(other, udp, 6, A, 4002)
    assert copied(other, one) == 0
    there, back = udp(A, 4000, *second), udp(A, 4002, *first)
    assert one.one(there, 5) == Drop.DENIED_IN
    assert copied(one, other) == 0
    assert isinstance(other.one(back, 6), Passed)
    assert copied(other, one) == 0
    assert read(one.one(there, 5).packet) == (*first, A, 4002)


def open_hairpin(bench):
    """Punch a hole from VPC 6 to VPC 5; return a packet of each direction, with its VNI."""
    first, second = met(bench, udp, 5, A, 4000), met(bench, udp, 6, A, 4002)
    there, back = (udp(A, 4000, *second), 5), (udp(A, 4002, *first), 6)
    assert bench.one(*there) == Drop.DENIED_IN
    assert isinstance(bench.one(*back), Passed)
    return there, back


@pytest.mark.parametrize("side", [0, 1])
def test_what_was_opened_survives_new_generations(bench, side):
    packets = open_hairpin(bench)
    for generation in (2, 3):
        bench.tables = make_tables([FakeVpc(4, endpoints=(A,)), *vpcs()], generation=generation)
        assert isinstance(bench.one(*packets[side]), Passed)
        assert isinstance(bench.one(*packets[1 - side]), Passed)


def test_what_was_opened_ends_once_the_side_that_awaited_may_not_send_there(bench):
    there, back = open_hairpin(bench)
    red, *others = vpcs()
    red.rules_out = (FakeRule(allow=False, protocol=17, remote=f"{SHARED}/32", ports=(4002, 4002)),)
    bench.tables = make_tables([red, *others], generation=2)
    assert bench.one(*back) == Drop.DENIED_IN
    assert bench.one(*there) == Drop.DENIED_OUT


def test_connections_that_awaited_leave_nothing_behind(bench):
    first, second = met(bench, udp, 5, A, 4000), met(bench, udp, 6, A, 4000)
    for _ in range(40):
        bench.one(udp(A, 4000, *second), 5)
        bench.one(udp(A, 4000, *first), 6)
    held = bench.state.connections[bench.state.connections["key"] != 0]
    assert len(held) == 6  # both directions of two connections to the server, and of one hairpin
    mappings = bench.state.mappings[bench.state.mappings["key"] != 0]
    assert sorted(mappings["references"].tolist()) == [2, 2]

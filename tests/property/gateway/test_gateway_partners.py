"""Replication between a pair of gateways: each can continue the connections of the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory.shares import CONNECTIONS, FRAGMENTS, MAPPINGS
from heddle.dataplane.elements.memory.state import PARTNER_REFUSED, RECORD
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.gateway.memory.partner import apply_records, collect, start_journal
from heddle.dataplane.gateway.memory.state import ESTABLISHED, FROM_PARTNER, REPLY
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import Passed, StateBench
from tests.oracles.inet_checksum import faults, read, tcp, udp

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels


LIMITS = Limits(connections=1 << 6, mappings=1 << 6, fragments=16, connections_per_endpoint=1 << 6)
A, B, FAR, PUBLIC = "10.0.0.1", "10.0.0.2", "8.8.8.8", "198.51.100.7"
SECOND = 10**9


def gateway(ports):
    vpc = FakeVpc(5, endpoints=(A, B), routes={"0.0.0.0/0": EXTERNAL}, nat=PUBLIC, nat_ports=ports)
    bench = StateBench(make_tables([vpc]), LIMITS)
    start_journal(bench.state)
    return bench


def pair():
    left, right = gateway((1024, 20000)), gateway((20001, 40000))
    right.now_ns += 77 * SECOND  # the clocks of the two machines differ
    return left, right


def replicate(left, right, room=8):
    """Apply all records of one gateway at the other; return how many."""
    records, count_applied = np.zeros(room, dtype=RECORD), 0
    while count := collect(left.state, records, left.now_ns):
        apply_records(right.tables, right.state, records, count, right.now_ns)
        count_applied += count
    return count_applied


def keys(bench):
    rows = bench.state.connections
    rows = rows[rows["key"] != 0]
    return {
        tuple(map(int, row[["source_lo", "target_lo", "key", "new_source_lo", "new_ports"]].item())) for row in rows
    }


def test_an_established_connection_continues_at_the_partner_with_its_public_port():
    left, right = pair()
    public = read(left.one(tcp(A, 5000, FAR, 80), 5).packet)[1]
    left.one(tcp(FAR, 80, PUBLIC, public, "SA"), 0, EXTERNAL_PORT)
    left.one(tcp(A, 5000, FAR, 80, "A"), 5)
    replicate(left, right)
    data = right.one(tcp(FAR, 80, PUBLIC, public, "PA", b"data"), 0, EXTERNAL_PORT)
    assert read(data.packet) == (FAR, 80, A, 5000)
    assert read(right.one(tcp(A, 5000, FAR, 80, "A"), 5).packet) == (PUBLIC, public, FAR, 80)
    assert right.state.connections[data.connection]["flags"] & (ESTABLISHED | FROM_PARTNER) == ESTABLISHED
    assert faults(data.packet) == []


def test_a_replicated_mapping_is_endpoint_independent():
    left, right = pair()
    public = read(left.one(udp(A, 5000, FAR, 53), 5).packet)[1]
    replicate(left, right)
    assert read(right.one(udp(A, 5000, "9.9.9.9", 53), 5).packet)[1] == public
    assert read(right.one(udp(B, public, "9.9.9.9", 53), 5).packet)[1] != public


@pytest.mark.parametrize("protocol", [0, 1, 2, 17])
def test_a_record_without_a_public_address_changes_no_other_account(protocol):
    left, right = pair()
    left.one(udp(A, 5000, FAR, 53), 5)
    records = np.zeros(8, dtype=RECORD)
    assert collect(left.state, records, left.now_ns) == 1
    records[0]["new_source_lo"] = 0
    records[0]["key"] = int(records[0]["key"]) & ~(0xFF << 24) | protocol << 24
    taken = 1 - apply_records(right.tables, right.state, records, 1, right.now_ns)
    about, counted = right.state.accounts["about"], right.state.accounts["count"]
    assert taken == (protocol != 0)
    assert [int(counted[about == which].sum()) for which in (CONNECTIONS, MAPPINGS, FRAGMENTS)] == [taken, taken, 0]


def test_an_end_is_replicated_unless_the_partner_has_seen_packets():
    left, right = pair()
    left.one(udp(A, 1, B, 2), 5)
    left.one(udp(A, 3, B, 4), 5)
    replicate(left, right)
    right.one(udp(A, 3, B, 4), 5)
    left.now_ns += 1000 * SECOND
    for _ in range(4):
        left.now_ns += 4 * SECOND
        age(left.tables, left.state, left.now_ns)
    replicate(left, right)
    assert len(keys(left)) == 0
    assert len(keys(right)) == 2
    assert isinstance(right.one(udp(B, 4, A, 3), 5), Passed)


def test_packets_at_one_gateway_refresh_the_connection_at_the_other():
    left, right = pair()
    left.one(udp(A, 1, B, 2), 5)
    for _ in range(6):
        for bench in (left, right):
            bench.now_ns += 100 * SECOND
        left.one(udp(A, 1, B, 2), 5)
        for bench in (left, right):
            bench.now_ns += 5 * SECOND
            age(bench.tables, bench.state, bench.now_ns)
        replicate(left, right)
    assert keys(right) == keys(left) != set()


def test_a_late_partner_receives_all_connections():
    left, right = pair()
    for port in range(20):
        left.one(udp(A, 1000 + port, FAR, 53), 5)
    replicate(left, gateway((20001, 40000)))
    start_journal(left.state)
    assert replicate(left, right, room=3) == 20
    assert keys(right) == keys(left)


def test_a_restarted_gateway_receives_its_own_connections_back():
    left, right = pair()
    public = read(left.one(udp(A, 5000, FAR, 53), 5).packet)[1]
    replicate(left, right)
    again = gateway((1024, 20000))
    start_journal(right.state)
    replicate(right, again)
    reply = again.one(udp(FAR, 53, PUBLIC, public), 0, EXTERNAL_PORT)
    assert read(reply.packet) == (FAR, 53, A, 5000)


def test_a_record_with_a_port_of_another_endpoint_is_refused_and_counted():
    left, right = gateway((1024, 20000)), gateway((1024, 20000))
    left.one(udp(A, 5000, FAR, 53), 5)
    right.one(udp(B, 5000, FAR, 53), 5)
    right.one(udp(FAR, 53, PUBLIC, 5000), 0, EXTERNAL_PORT)
    right.one(udp(B, 5000, FAR, 53), 5)
    before = keys(right)
    replicate(left, right)
    assert keys(right) == before
    assert right.state.counts[PARTNER_REFUSED] == 1
    assert read(right.one(udp(B, 5000, FAR, 53), 5).packet)[1] == 5000


def test_a_replicated_connection_is_admitted_by_the_own_tables():
    left, right = pair()
    left.one(udp(A, 1, B, 2), 5)
    replicate(left, right)
    right.tables = make_tables([FakeVpc(5, endpoints=(A,))])
    assert right.one(udp(A, 1, B, 2), 5) == Drop.NO_ROUTE
    assert keys(right) == set()


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["leave", "reply", "replicate"]),
        st.integers(0, 1),
        st.sampled_from([A, B]),
        st.sampled_from([5000, 5001, 25000]),
    ),
    max_size=30,
)


@given(EVENTS)
def test_replies_may_arrive_at_either_gateway(events):
    both = pair()
    public = {}
    for what, side, inside, port in events:
        bench, other = both[side], both[1 - side]
        if what == "leave":
            seen = read(bench.one(udp(inside, port, FAR, 53), 5).packet)[1]
            assert public.setdefault((inside, port), seen) == seen
            replicate(bench, other)
        elif what == "reply" and (inside, port) in public:
            fate = bench.one(udp(FAR, 53, PUBLIC, public[inside, port]), 0, EXTERNAL_PORT)
            assert read(fate.packet) == (FAR, 53, inside, port)
            replicate(bench, other)
        elif what == "replicate":
            start_journal(bench.state)
            replicate(bench, other)
    assert keys(both[0]) == keys(both[1])
    assert both[0].state.counts[PARTNER_REFUSED] == both[1].state.counts[PARTNER_REFUSED] == 0
    assert all(row["flags"] & REPLY == 0 for row in both[0].state.connections[::2])

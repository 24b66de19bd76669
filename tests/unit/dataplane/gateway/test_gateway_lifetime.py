"""Lifetime of connections: timeouts by observed state, limits, new generations of tables."""

import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.gateway.memory.state import CLOSING, ESTABLISHED, PAIRS_ENDED, PAIRS_FREED, PAIRS_USED, SEEN_REPLY
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeRule, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import Passed, Sent, StateBench, hop_of
from tests.oracles.inet_checksum import echo, read, tcp, udp

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels


LIMITS = Limits(connections=1 << 4, mappings=1 << 4, fragments=1 << 4, connections_per_endpoint=1 << 4)
A, B = "10.0.0.1", "10.0.0.2"
SECOND = 10**9


def red(**changes):
    given = {"routes": {"0.0.0.0/0": EXTERNAL}, "nat": "198.51.100.7", "endpoints": (A, B)}
    return FakeVpc(5, **{**given, **changes})


@pytest.fixture
def bench():
    return StateBench(make_tables([red()]), LIMITS)


def live(bench):
    counts = bench.state.counts
    return int(counts[PAIRS_USED] - counts[PAIRS_FREED] - counts[PAIRS_ENDED])


def pass_time(bench, seconds):
    """Advance time, with ageing at each step; return how many connections ended."""
    ended = 0
    for _ in range(64):
        bench.now_ns += int(seconds * SECOND) // 64
        ended += age(bench.tables, bench.state, bench.now_ns)
    return ended


def handshake(bench, port=2):
    bench.one(tcp(A, 1, B, port, "S"), 5)
    bench.one(tcp(B, port, A, 1, "SA"), 5)
    return bench.one(tcp(A, 1, B, port, "A"), 5)


def exchange(bench, port, target=B, inside=A, vni=5, far_port=EXTERNAL_PORT):
    """Open a UDP connection and make it live, by a reply and another packet; return the first packet's fate."""
    first = bench.one(udp(inside, port, target, 2000), vni)
    if isinstance(first, Passed):
        source, public, *_ = read(first.packet)
        reply = udp(target, 2000, source, public)
        bench.one(*((reply, vni) if source == inside else (reply, 0, far_port)))
        bench.one(udp(inside, port, target, 2000), vni)
    return first


def flags(bench, passed):
    return int(bench.state.connections[passed.connection]["flags"])


def test_a_handshake_establishes_a_connection_and_a_fin_closes_it(bench):
    passed = handshake(bench)
    assert flags(bench, passed) & (SEEN_REPLY | ESTABLISHED | CLOSING) == SEEN_REPLY | ESTABLISHED
    assert flags(bench, bench.one(tcp(B, 2, A, 1, "FA"), 5)) & CLOSING


@pytest.mark.parametrize("last", [(), ("SA",)])
def test_half_open_tcp_ends_after_the_transitory_time_out(bench, last):
    bench.one(tcp(A, 1, B, 2, "S"), 5)
    for reply in last:
        bench.one(tcp(B, 2, A, 1, reply), 5)
    assert pass_time(bench, 235) == 0
    assert pass_time(bench, 20) == 1


def test_established_tcp_lives_two_hours_without_a_packet(bench):
    handshake(bench)
    assert pass_time(bench, 7438) == 0
    assert pass_time(bench, 362) == 1
    assert bench.one(tcp(A, 1, B, 2, "A"), 5) == Drop.NO_STATE


def test_closing_tcp_ends_soon(bench):
    handshake(bench)
    bench.one(tcp(A, 1, B, 2, "R"), 5)
    assert pass_time(bench, 260) == 1


def test_unanswered_udp_ends_earlier_than_answered_udp(bench):
    bench.one(udp(A, 1, B, 2000), 5)
    bench.one(udp(A, 3, B, 4000), 5)
    bench.one(udp(B, 4000, A, 3), 5)
    assert pass_time(bench, 118) == 0
    assert pass_time(bench, 22) == 1
    assert pass_time(bench, 158) == 0
    assert pass_time(bench, 42) == 1


def test_an_echo_ends_after_a_minute(bench):
    bench.one(echo(A, B, 1), 5)
    assert pass_time(bench, 58) == 0
    assert pass_time(bench, 12) == 1


@pytest.mark.parametrize("outwards", [False, True])
@pytest.mark.parametrize("make", [udp, echo, tcp], ids=["udp", "echo", "tcp"])
def test_packets_of_either_direction_keep_a_connection(bench, make, outwards):
    """RFC 4787, REQ-6; a TCP connection and a query live on by packets of one direction as well."""
    if make is echo:
        out, back, idle_s = echo(A, B, 1), echo(B, A, 1, reply=True), 55
    else:
        out, back, idle_s = make(A, 1, B, 2000), make(B, 2000, A, 1), 100 if make is udp else 7400
    if make is tcp:
        handshake(bench, 2000)
        out, back = tcp(A, 1, B, 2000, "A"), tcp(B, 2000, A, 1, "A")
    else:
        bench.one(out, 5)
    for _ in range(5):
        assert pass_time(bench, idle_s) == 0
        assert isinstance(bench.one(out if outwards else back, 5), Passed)
    assert live(bench) == 1


def test_a_syn_of_the_opener_reopens_a_closing_connection_with_its_mapping(bench):
    first = bench.one(tcp(A, 1, "8.8.8.8", 2, "S"), 5)
    bench.one(tcp(A, 1, "8.8.8.8", 2, "R"), 5)
    again = bench.one(tcp(A, 1, "8.8.8.8", 2, "S"), 5)
    assert read(again.packet) == read(first.packet)
    assert flags(bench, again) & (CLOSING | ESTABLISHED | SEEN_REPLY) == 0
    assert live(bench) == 1


def test_a_syn_from_the_other_side_of_a_closing_connection_is_admitted_separately():
    one_way = make_tables([red(rules_in=(FakeRule(allow=False, protocol=6, remote="10.0.0.2/32"),))])
    bench = StateBench(one_way, LIMITS)
    handshake(bench)
    bench.one(tcp(A, 1, B, 2, "R"), 5)
    assert bench.one(tcp(B, 2, A, 1, "S"), 5) == Drop.DENIED_IN


def test_a_full_table_refuses_new_connections_and_keeps_the_old(bench):
    for port in range(16):
        assert isinstance(exchange(bench, port + 1), Passed)
    assert bench.one(udp(A, 99, B, 2), 5) == Drop.CONNECTIONS_FULL
    assert all(isinstance(bench.one(udp(B, 2000, A, port + 1), 5), Passed) for port in range(16))
    assert pass_time(bench, 400) == 16
    assert isinstance(bench.one(udp(A, 99, B, 2), 5), Passed)


def test_an_endpoints_flood_leaves_room_for_the_others():
    bench = StateBench(make_tables([red()], per_endpoint=4), LIMITS)
    fates = [exchange(bench, port) for port in range(1, 9)]
    assert [isinstance(fate, Passed) for fate in fates] == [True] * 4 + [False] * 4
    assert fates[4:] == [Drop.CONNECTIONS_FULL] * 4
    assert isinstance(bench.one(udp(B, 9, A, 2), 5), Passed)
    assert pass_time(bench, 400) == 5
    assert isinstance(bench.one(udp(A, 77, B, 2), 5), Passed)


def test_exhausted_mappings_refuse_new_connections_and_keep_the_old():
    limits = Limits(connections=1 << 6, mappings=1 << 3, fragments=1 << 4, connections_per_endpoint=1 << 6)
    bench = StateBench(make_tables([red()]), limits)
    passed = [exchange(bench, port, "8.8.8.8") for port in range(2000, 2016)]
    assert [isinstance(each, Passed) for each in passed] == [True] * 8 + [False] * 8
    assert passed[8:] == [Drop.PORTS_EXHAUSTED] * 8
    assert live(bench) == 8  # what was refused left no connection
    for port in range(2000, 2008):
        reply = bench.one(udp("8.8.8.8", 2000, "198.51.100.7", port), 0, EXTERNAL_PORT)
        assert read(reply.packet) == ("8.8.8.8", 2000, A, port)
        assert isinstance(bench.one(udp(A, port, "9.9.9.9", 53), 5), Passed)  # the mapping is there already
    assert isinstance(bench.one(udp(A, 1, B, 2), 5), Passed)
    assert pass_time(bench, 400) == 17
    assert isinstance(bench.one(udp(A, 3000, "8.8.8.8", 53), 5), Passed)


def test_exhausted_port_pools_refuse_further_public_addresses_until_one_is_free():
    limits = Limits(connections=1 << 6, mappings=1 << 3, fragments=1 << 4, connections_per_endpoint=1 << 6)
    tenants = [FakeVpc(vni, endpoints=(A, B), routes={"0.0.0.0/0": EXTERNAL}, nat=f"198.51.100.{vni}")
               for vni in range(1, 12)]  # fmt: skip
    bench = StateBench(make_tables(tenants), limits)
    fates = [bench.one(udp(A, 2000, "8.8.8.8", 53), vni) for vni in range(1, 12)]
    assert [isinstance(fate, Passed) for fate in fates] == [True] * 8 + [False] * 3
    assert set(fates[8:]) == {Drop.PORTS_EXHAUSTED}
    pass_time(bench, 400)
    assert isinstance(bench.one(udp(A, 2000, "8.8.8.8", 53), 11), Passed)


def test_a_connection_refused_for_lack_of_room_takes_no_mapping():
    bench = StateBench(make_tables([red()], per_endpoint=1), LIMITS)
    exchange(bench, 1)
    assert bench.one(udp(A, 3, "8.8.8.8", 4), 5) == Drop.CONNECTIONS_FULL
    assert not bench.state.mappings["key"].any()
    assert not bench.state.port_bits[:, 8:70].any()


def test_a_new_generation_that_allows_a_connection_keeps_its_mapping(bench):
    first = bench.one(udp(A, 5000, "8.8.8.8", 53), 5)
    bench.tables = make_tables([FakeVpc(4, endpoints=(A,)), red(nat_ports=(20000, 20999))], generation=2)
    reply = bench.one(udp("8.8.8.8", 53, "198.51.100.7", 5000), 0, EXTERNAL_PORT)
    assert (read(reply.packet)[2:], reply.connection) == ((A, 5000), first.connection ^ 1)
    assert reply.hop == hop_of(bench.tables, 5, A)
    assert read(bench.one(udp(A, 5000, "8.8.4.4", 53), 5).packet)[:2] == ("198.51.100.7", 5000)


@pytest.mark.parametrize("from_replier", [False, True])
def test_a_removed_rule_ends_its_connections_with_the_reason(bench, from_replier):
    bench.one(udp(A, 1, B, 2), 5)
    bench.tables = make_tables([red(rules_out=(FakeRule(allow=False, remote="10.0.0.2/32"),))], generation=2)
    packet = udp(B, 2, A, 1) if from_replier else udp(A, 1, B, 2)
    assert bench.one(packet, 5) == Drop.DENIED_OUT
    assert live(bench) == 0
    assert bench.one(udp(B, 2, A, 1), 5).connection >= 0  # the other direction may still open one


def test_a_removed_endpoint_ends_its_connections(bench):
    bench.one(udp(A, 1, B, 2), 5)
    bench.tables = make_tables([red(endpoints=(A,))], generation=2)
    assert read(bench.one(udp(A, 1, B, 2), 5).packet)[0] == "198.51.100.7"  # it is an address of the outside now
    assert live(bench) == 1


def test_another_nat_address_ends_the_old_connections_and_their_mappings(bench):
    bench.one(udp(A, 5000, "8.8.8.8", 53), 5)
    bench.tables = make_tables([red(nat="198.51.100.8")], generation=2)
    assert read(bench.one(udp(A, 5000, "8.8.8.8", 53), 5).packet)[:2] == ("198.51.100.8", 5000)
    assert live(bench) == 1
    assert (bench.state.mappings["key"] != 0).sum() == 1


def test_rows_freed_in_a_burst_are_not_reused_in_it():
    limits = Limits(connections=8, mappings=8, fragments=8, connections_per_endpoint=8)
    bench = StateBench(make_tables([red()]), limits)
    for port in range(1, 9):
        bench.one(tcp(A, port, "8.8.8.8", 2, "S"), 5)
    bench.one(tcp(A, 1, "8.8.8.8", 2, "R"), 5)
    late = Sent(tcp("8.8.8.8", 2, "198.51.100.7", 1024, "A"), 0, EXTERNAL_PORT)
    public = read(bench.one(tcp(A, 1, "8.8.8.8", 2, "R"), 5).packet)[1]
    late = Sent(tcp("8.8.8.8", 2, "198.51.100.7", public, "A"), 0, EXTERNAL_PORT)
    syn = Sent(tcp("8.8.8.8", 2, "198.51.100.7", public, "S"), 0, EXTERNAL_PORT)
    new = Sent(tcp(A, 99, B, 2, "S"), 5)
    fates = bench.send(late, syn, new)
    assert read(fates[0].packet)[2:] == (A, 1)
    assert fates[1:] == [Drop.NO_MAPPING, Drop.CONNECTIONS_FULL]
    assert isinstance(bench.one(new.packet, 5), Passed)

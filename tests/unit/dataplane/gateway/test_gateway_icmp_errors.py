"""ICMP errors find the connection of the packet that they quote, and quote it as its sender sent it."""

import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import StateBench, hop_of
from tests.oracles.inet_checksum import echo, faults, icmp_error, tcp, udp

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels


LIMITS = Limits(connections=1 << 6, mappings=1 << 6, fragments=16, connections_per_endpoint=1 << 6)
A, B, FAR, ROUTER, PUBLIC = "10.0.0.1", "10.0.0.2", "8.8.8.8", "9.9.9.9", "198.51.100.7"
V6 = ("2001:db8::1", "2001:db8::2")
VPCS = [FakeVpc(5, endpoints=(A, B, *V6), routes={"0.0.0.0/0": EXTERNAL}, nat=PUBLIC), FakeVpc(6, endpoints=(A, B))]
PACKETS = {
    "udp": udp(A, 5001, FAR, 53),
    "tcp": tcp(A, 5001, FAR, 53, data=b"0123456789"),
    "echo": echo(A, FAR, 77),
    "udp without checksum": udp(A, 5001, FAR, 53)[:26] + b"\0\0" + b"data",
}


@pytest.fixture
def bench():
    return StateBench(make_tables(VPCS), LIMITS)


@pytest.mark.parametrize("quoted_bytes", [28, 40, 200])
@pytest.mark.parametrize("kind", [(3, 4), (11, 0), (12, 0), (4, 0)])
@pytest.mark.parametrize("name", list(PACKETS))
def test_an_error_from_outside_quotes_the_packet_as_its_sender_sent_it(bench, name, kind, quoted_bytes):
    # Another endpoint has the port already, so that all of the packet's fields change.
    bench.one(udp(B, 5001, FAR, 53), 5)
    bench.one(tcp(B, 5001, FAR, 53), 5)
    bench.one(echo(B, FAR, 77), 5)
    sent = PACKETS[name]
    seen = bench.one(sent, 5).packet
    error = icmp_error(ROUTER, PUBLIC, seen[:quoted_bytes], kind=kind[0], code=kind[1])
    passed = bench.one(error, 0, EXTERNAL_PORT)
    assert passed.packet == icmp_error(ROUTER, A, sent[:quoted_bytes], kind=kind[0], code=kind[1])
    assert passed.hop == hop_of(bench.tables, 5, A)


@pytest.mark.parametrize("name", ["udp", "tcp"])
def test_an_error_from_inside_leaves_with_the_public_address_and_a_translated_quote(bench, name):
    bench.one(PACKETS[name], 5)
    reply = udp(FAR, 53, PUBLIC, 5001) if name == "udp" else tcp(FAR, 53, PUBLIC, 5001, "SA")
    inside = bench.one(reply, 0, EXTERNAL_PORT).packet
    passed = bench.one(icmp_error(A, FAR, inside, kind=3, code=3), 5)
    assert passed.packet == icmp_error(PUBLIC, FAR, reply, kind=3, code=3)


def test_an_error_about_a_packet_of_the_vpc_goes_back_unchanged(bench):
    sent = udp(A, 1, B, 2)
    bench.one(sent, 5)
    error = icmp_error(B, A, sent)
    assert bench.one(error, 5)[:2] == (error, hop_of(bench.tables, 5, A))
    assert bench.one(error, 6) == Drop.NO_STATE


def test_an_ipv6_error_returns_to_the_sender_of_the_packet(bench):
    sent = udp(V6[0], 1, V6[1], 2)
    bench.one(sent, 5)
    error = icmp_error(V6[1], V6[0], sent, kind=1, code=4)
    assert bench.one(error, 5)[:2] == (error, hop_of(bench.tables, 5, V6[0]))


def test_errors_about_unknown_packets_are_dropped(bench):
    seen = bench.one(PACKETS["udp"], 5).packet
    outside = (0, EXTERNAL_PORT)
    assert bench.one(icmp_error(ROUTER, PUBLIC, udp(PUBLIC, 5002, FAR, 53)), *outside) == Drop.NO_STATE
    assert bench.one(icmp_error(ROUTER, PUBLIC, seen[:27]), *outside) == Drop.NO_STATE
    assert bench.one(icmp_error(ROUTER, PUBLIC, b"\x4f" + seen[1:]), *outside) == Drop.NO_STATE
    assert bench.one(icmp_error(ROUTER, PUBLIC, seen[:10] + b"\0\0" + seen[12:]), *outside) == Drop.NO_STATE
    assert bench.one(icmp_error(ROUTER, "198.51.100.8", seen), *outside) == Drop.NO_STATE
    assert bench.one(icmp_error(ROUTER, PUBLIC, b""), *outside) == Drop.NO_STATE


def test_an_error_does_not_refresh_its_connection(bench):
    passed = bench.one(PACKETS["udp"], 5)
    seen = int(bench.state.connections[passed.connection ^ 1]["last_seen_ns"])
    bench.now_ns += 10**9
    error = bench.one(icmp_error(ROUTER, PUBLIC, passed.packet), 0, EXTERNAL_PORT)
    assert error.connection == passed.connection ^ 1
    assert bench.state.connections[error.connection]["last_seen_ns"] == seen
    assert bench.state.connections[error.connection]["packets"] == 0


def test_an_error_after_a_new_generation_admits_its_connection_again(bench):
    seen = bench.one(PACKETS["udp"], 5).packet
    bench.tables = make_tables([FakeVpc(4, endpoints=(A,)), *VPCS], generation=2)
    error = icmp_error(ROUTER, PUBLIC, seen)
    passed = bench.one(error, 0, EXTERNAL_PORT)
    assert passed.hop == hop_of(bench.tables, 5, A)
    assert faults(passed.packet) == []
    bench.tables = make_tables([FakeVpc(5, endpoints=(A,), nat=PUBLIC)], generation=3)
    assert bench.one(error, 0, EXTERNAL_PORT) == Drop.NO_ROUTE

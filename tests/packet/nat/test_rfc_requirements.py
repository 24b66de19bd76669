"""Requirements of RFC 4787, 5382 and 5508 that no other test shows; docs/vpc.md has the table of all of them."""

import struct

import pytest

from heddle.dataplane.config.local import Limits, Timeouts
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeRule, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import Passed, StateBench, hop_of
from tests.oracles.inet_checksum import echo, faults, icmp_error, ip, ipv4, ones_complement, read, tcp, udp

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

LIMITS = Limits(connections=1 << 6, mappings=1 << 6, fragments=16, connections_per_endpoint=1 << 6)
A, B, C, D, FAR, OTHER, ROUTER = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "8.8.8.8", "7.7.7.7", "9.9.9.9"
NAT, FLOATING, SECOND_FLOATING = "198.51.100.7", "198.51.100.8", "198.51.100.9"
OUTSIDE = (0, EXTERNAL_PORT)
ICMP_ERRORS = [(kind, code) for kind, codes in {3: 16, 4: 1, 5: 4, 11: 2, 12: 3}.items() for code in range(codes)]


def bench_with(*rules):
    floating = {FLOATING: B, SECOND_FLOATING: C}
    vpc = FakeVpc(5, endpoints=(A, B, C, D), routes={"0.0.0.0/0": EXTERNAL}, nat=NAT, floating=floating, rules_in=rules)
    return StateBench(make_tables([vpc]), LIMITS)


@pytest.fixture
def bench():
    return bench_with()


def test_default_timeouts_are_at_least_the_required_ones():
    times = Timeouts()
    assert times.udp_s >= 300  # RFC 4787, REQ-5: 2 minutes required, 5 recommended
    assert times.udp_unanswered_s >= 120
    assert times.tcp_established_s >= 2 * 3600 + 4 * 60  # RFC 5382, REQ-5
    assert times.tcp_transitory_s >= 4 * 60
    assert times.icmp_s >= 60  # RFC 5508, REQ-2


@pytest.mark.parametrize("make", [udp, tcp, None], ids=["udp", "tcp", "echo"])
def test_one_port_has_one_mapping_towards_all_hosts(bench, make):
    """RFC 4787, REQ-1 and REQ-2; RFC 5382, REQ-1; RFC 5508, REQ-1 a. Another endpoint has taken the port before."""

    def left(inside, remote, port):
        return read(bench.one(make(inside, 5000, remote, port) if make else echo(inside, remote, 5000), 5).packet)[:2]

    taken = left(A, FAR, 53)
    found = {left(D, remote, port) for remote in (FAR, OTHER, ROUTER, "6.6.6.6") for port in (53, 54, 443)}
    assert len(found) == 1
    assert {address for address, _ in (taken, *found)} == {NAT}
    assert found != {taken}


@pytest.mark.parametrize("make", [udp, tcp])
@pytest.mark.parametrize(("remote", "port"), [(FAR, 54), (OTHER, 53), (OTHER, 54)])
def test_filtering_depends_on_address_and_port_unless_rules_allow_any(make, remote, port):
    """RFC 4787, REQ-8; RFC 5382, REQ-3."""
    for bench, may_pass in ((bench_with(), False), (bench_with(FakeRule()), True)):
        bench.one(make(A, 5000, FAR, 53), 5)
        fate = bench.one(make(remote, port, NAT, 5000), *OUTSIDE)
        if may_pass:
            assert read(fate.packet) == (remote, port, A, 5000)
        else:
            assert fate == Drop.DENIED_IN


@pytest.mark.parametrize("make", [udp, tcp, None], ids=["udp", "tcp", "echo"])
@pytest.mark.parametrize(("kind", "code"), ICMP_ERRORS)
def test_no_icmp_error_ends_a_mapping_or_a_connection(bench, make, kind, code):
    """RFC 4787, REQ-12; RFC 5382, REQ-10; RFC 5508, REQ-6."""
    sent = make(A, 5000, FAR, 5353) if make else echo(A, FAR, 5000)
    reply = make(FAR, 5353, NAT, 5000, *(["SA"] if make is tcp else [])) if make else echo(FAR, NAT, 5000, reply=True)
    seen = bench.one(sent, 5).packet
    error = bench.one(icmp_error(ROUTER, NAT, seen[:28], kind=kind, code=code), *OUTSIDE)
    assert error.packet[20:22] == bytes((kind, code))
    answered = bench.one(reply, *OUTSIDE)
    from_inside = icmp_error(A, FAR, answered.packet[:28], kind=kind, code=code)
    assert isinstance(bench.one(from_inside, 5), Passed)
    bench.now_ns += 30 * 10**9
    age(bench.tables, bench.state, bench.now_ns)
    assert bench.one(reply, *OUTSIDE).hop == hop_of(bench.tables, 5, A)
    assert bench.one(sent, 5).packet == seen


def test_a_simultaneous_open_with_a_host_outside_establishes_the_connection(bench):
    """RFC 5382, REQ-2 a."""
    assert read(bench.one(tcp(A, 5000, FAR, 53, "S"), 5).packet) == (NAT, 5000, FAR, 53)
    assert read(bench.one(tcp(FAR, 53, NAT, 5000, "S"), *OUTSIDE).packet) == (FAR, 53, A, 5000)
    for flags in ("SA", "A", "PA"):
        assert read(bench.one(tcp(A, 5000, FAR, 53, flags), 5).packet) == (NAT, 5000, FAR, 53)
        assert read(bench.one(tcp(FAR, 53, NAT, 5000, flags), *OUTSIDE).packet) == (FAR, 53, A, 5000)
    for _ in range(4):
        bench.now_ns += 1800 * 10**9
        age(bench.tables, bench.state, bench.now_ns)
    assert isinstance(bench.one(tcp(FAR, 53, NAT, 5000, "PA", b"x"), *OUTSIDE), Passed)


@pytest.mark.parametrize("from_outside", [False, True])
def test_a_half_closed_connection_carries_data_of_the_other_side(from_outside):
    """RFC 5382, REQ-2: all valid sequences, of connections that either side opened."""
    bench = bench_with(FakeRule())
    inside, public = (B, FLOATING) if from_outside else (A, NAT)

    def out(flags, data=b""):
        return bench.one(tcp(inside, 5000, FAR, 53, flags, data), 5)

    def back(flags, data=b""):
        return bench.one(tcp(FAR, 53, public, 5000, flags, data), *OUTSIDE)

    first, second = (back, out) if from_outside else (out, back)
    steps = [first("S"), second("SA"), first("A"), first("FA"), second("A"), second("PA", b"more"), first("A")]
    steps += [second("FA"), first("A")]
    assert all(isinstance(step, Passed) and faults(step.packet) == [] for step in steps)


@pytest.mark.parametrize("target", [(NAT, 6000), (FLOATING, 22)], ids=["no mapping", "denied"])
def test_an_unsolicited_syn_gets_no_reply_and_does_not_hinder_the_syn_of_the_other_side(bench, target):
    """RFC 5382, REQ-4: nothing is punted, so nothing is sent; the port unreachable of REQ-4 is left out (REQ-4 a)."""
    public, port = target
    assert isinstance(bench.one(tcp(FAR, 53, public, port), *OUTSIDE), Drop)
    inside = B if public == FLOATING else A
    assert read(bench.one(tcp(inside, port, FAR, 53), 5).packet) == (public, port, FAR, 53)
    assert read(bench.one(tcp(FAR, 53, public, port, "SA"), *OUTSIDE).packet) == (FAR, 53, inside, port)


def with_options(packet, options):
    """Return an IPv4 packet with options."""
    head = bytes((0x40 | (20 + len(options)) // 4, packet[1])) + struct.pack("!H", len(packet) + len(options))
    head += packet[4:10] + bytes(2) + packet[12:20] + options
    return head[:10] + struct.pack("!H", ones_complement(head)) + head[12:] + packet[20:]


def test_the_options_of_a_quoted_packet_are_passed_over(bench):
    """RFC 5508, REQ-3 b."""
    options = bytes((148, 4, 0, 0, 1, 1, 1, 0))
    sent = udp(A, 5000, FAR, 53)
    seen = bench.one(sent, 5).packet
    error = icmp_error(ROUTER, NAT, with_options(seen, options))
    assert bench.one(error, *OUTSIDE).packet == icmp_error(ROUTER, A, with_options(sent, options))


def test_the_transport_checksum_of_a_quoted_packet_is_not_judged(bench):
    """RFC 5508, REQ-3 c."""
    sent = udp(A, 5000, FAR, 53)
    seen = bench.one(sent, 5).packet
    broken = seen[:26] + bytes((seen[26] ^ 0x55, seen[27])) + seen[28:]
    passed = bench.one(icmp_error(ROUTER, NAT, broken), *OUTSIDE)
    assert passed.packet[28 : 28 + 20] == sent[:20]
    assert faults(passed.packet) == []


def test_extensions_behind_the_quoted_packet_stay_as_they_are(bench):
    """RFC 5508, REQ-3 d; RFC 4884: zeros up to 128 bytes, then the extensions."""
    sent = udp(A, 5000, FAR, 53)
    seen = bench.one(sent, 5).packet
    extensions = bytes(128 - len(seen)) + bytes.fromhex("2000dfff000801010007e140")

    def error(target, quoted):
        return ip(ROUTER, target, 1, struct.pack("!BBHBBH", 11, 0, 0, 0, 32, 0) + quoted + extensions)

    assert bench.one(error(NAT, seen), *OUTSIDE).packet == error(A, sent)


def test_an_error_whose_own_checksum_is_wrong_arrives_with_a_wrong_one(bench):
    """RFC 5508, REQ-3, is left to the receiver: the gateway verifies no ICMP checksum, and repairs none."""
    seen = bench.one(udp(A, 5000, FAR, 53), 5).packet
    error = icmp_error(ROUTER, NAT, seen)
    broken = error[:22] + bytes((error[22] ^ 1,)) + error[23:]
    assert faults(bench.one(broken, *OUTSIDE).packet) == ["icmp"]


def test_a_ping_between_two_floating_ips_is_hairpinned_by_both_addresses():
    """RFC 5508, REQ-7."""
    bench = bench_with(FakeRule(protocol=1))
    there = bench.one(echo(B, SECOND_FLOATING, 77), 5)
    assert (read(there.packet), there.hop) == ((FLOATING, 77, C, 77), hop_of(bench.tables, 5, C))
    back = bench.one(echo(C, FLOATING, 77, reply=True), 5)
    assert (read(back.packet), back.hop) == ((SECOND_FLOATING, 77, B, 77), hop_of(bench.tables, 5, B))
    assert faults(there.packet) == faults(back.packet) == []


def test_an_error_about_a_hairpinned_packet_returns_hairpinned():
    """RFC 5508, REQ-7 a: source and target of the error are as those of a host outside."""
    bench = bench_with(FakeRule())
    bench.one(udp(C, 4000, FAR, 53), 5)
    sent = udp(A, 5000, SECOND_FLOATING, 4000)
    arrived = bench.one(sent, 5)
    assert read(arrived.packet) == (NAT, 5000, C, 4000)
    error = bench.one(icmp_error(C, NAT, arrived.packet, kind=3, code=3), 5)
    assert error.hop == hop_of(bench.tables, 5, A)
    assert error.packet == icmp_error(SECOND_FLOATING, A, sent, kind=3, code=3)


def test_fragments_of_which_the_first_comes_last_are_dropped(bench):
    """RFC 4787, REQ-14, is not met: only its sender would bound what is held back."""
    whole = udp(A, 5000, FAR, 53, bytes(160))[20:]
    later = ipv4(A, FAR, 17, whole[80:], identification=9, offset=80)
    first = ipv4(A, FAR, 17, whole[:80], identification=9, more=True)
    assert bench.one(later, 5) == Drop.FRAGMENT_WITHOUT_FIRST
    assert isinstance(bench.one(first, 5), Passed)
    assert isinstance(bench.one(later, 5), Passed)

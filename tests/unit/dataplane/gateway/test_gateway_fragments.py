"""Fragments take the path of their first fragment, even if others have the same identification."""

import struct
from itertools import permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory.state import FRAGMENTS_HELD
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import Passed, StateBench
from tests.oracles.inet_checksum import faults, ip, ipv4, udp
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels


LIMITS = Limits(connections=1 << 6, mappings=1 << 6, fragments=16, connections_per_endpoint=1 << 6)
A, B = "10.0.0.1", "10.0.0.2"
VPCS = [
    FakeVpc(5, endpoints=(A, B, "2001:db8::1", "2001:db8::2"), routes={"0.0.0.0/0": EXTERNAL}, nat="198.51.100.7"),
    FakeVpc(6, endpoints=(A, B)),
]


@pytest.fixture
def bench():
    return StateBench(make_tables(VPCS), LIMITS)


def cut(packet, size, identification=7):
    """Return the fragments of an IPv4 packet, `size` bytes of payload each."""
    payload = packet[20:]
    source, target = ".".join(map(str, packet[12:16])), ".".join(map(str, packet[16:20]))
    found = []
    for at in range(0, len(payload), size):
        more = at + size < len(payload)
        part = payload[at : at + size]
        found.append(ipv4(source, target, packet[9], part, identification=identification, offset=at, more=more))
    return found


def joined(fragments):
    """Return the packet reassembled from fragments."""
    first = min(fragments, key=lambda each: struct.unpack("!H", each[6:8])[0] & 0x1FFF)
    payload = b"".join(each[20:] for each in sorted(fragments, key=lambda x: struct.unpack("!H", x[6:8])[0] & 0x1FFF))
    source, target = ".".join(map(str, first[12:16])), ".".join(map(str, first[16:20]))
    return ipv4(source, target, first[9], payload)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_fragments_pass_translated_after_their_first_but_not_before(bench, order):
    fragments = cut(udp(A, 5000, "8.8.8.8", 53, bytes(range(200))), 80)
    passed, has_first = [], False
    for number in order:
        fate = bench.one(fragments[number], 5)
        has_first = has_first or number == 0
        if has_first:
            assert isinstance(fate, Passed)
            passed.append(fate.packet)
        else:
            assert fate == Drop.FRAGMENT_WITHOUT_FIRST
    if len(passed) == 3:
        assert faults(joined(passed)) == []
    assert all(fate[12:16] == bytes((198, 51, 100, 7)) for fate in passed)
    assert all("ip" not in faults(fate) for fate in passed)


def test_fragments_of_a_reply_are_translated_back(bench):
    bench.one(udp(A, 5000, "8.8.8.8", 53), 5)
    fates = [
        bench.one(each, 0, EXTERNAL_PORT) for each in cut(udp("8.8.8.8", 53, "198.51.100.7", 5000, bytes(300)), 160)
    ]
    assert all(fate.packet[16:20] == bytes((10, 0, 0, 1)) for fate in fates)
    assert faults(joined([fate.packet for fate in fates])) == []


def test_fragments_of_another_tenant_with_all_the_same_fields_have_no_first(bench):
    fragments = cut(udp(A, 5000, B, 53, bytes(200)), 80)
    assert isinstance(bench.one(fragments[0], 5), Passed)
    assert bench.one(fragments[1], 6) == Drop.FRAGMENT_WITHOUT_FIRST
    assert isinstance(bench.one(fragments[1], 5), Passed)


def test_a_later_fragment_that_overlaps_the_first_is_dropped(bench):
    packet = udp(A, 5000, B, 53, bytes(200))
    bench.one(cut(packet, 80)[0], 5)
    overlapping = ipv4(A, B, 17, bytes(80), identification=7, offset=40)
    assert bench.one(overlapping, 5) == Drop.BAD_FRAGMENT


def test_fragments_whose_first_was_refused_are_refused(bench):
    fragments = cut(udp("10.0.0.9", 5000, B, 53, bytes(200)), 80)
    assert bench.one(fragments[0], 5) == Drop.SPOOFED_SOURCE
    assert bench.one(fragments[1], 5) == Drop.FRAGMENT_WITHOUT_FIRST


def test_firsts_without_room_are_refused_until_others_time_out(bench):
    def first(number):
        return cut(udp(A, 5000, B, 53, bytes(200)), 80, identification=number)[0]

    fates = [bench.one(first(number), 5) for number in range(100)]
    kept = sum(isinstance(fate, Passed) for fate in fates)
    assert 8 <= kept <= 16
    assert {fate for fate in fates if not isinstance(fate, Passed)} == {Drop.FRAGMENTS_FULL}
    bench.now_ns += 31 * 10**9
    assert isinstance(bench.one(first(500), 5), Passed)
    assert bench.one(cut(udp(A, 5000, B, 53, bytes(200)), 80, identification=0)[1], 5) == Drop.FRAGMENT_WITHOUT_FIRST


WHOLE = udp(A, 5000, B, 53, bytes(range(200)) * 2)
PARTS = cut(WHOLE, 80)


@given(
    before=st.lists(st.sampled_from(range(len(PARTS))), max_size=12),
    repeated=st.sets(st.sampled_from(range(len(PARTS)))),
    idle_s=st.integers(0, 40),
    seven=st.booleans(),
)
@settings(max_examples=examples(200), deadline=None)
def test_a_whole_packet_passes_whatever_came_before_with_its_identification(before, repeated, idle_s, seven):
    bench = StateBench(make_tables(VPCS), LIMITS)
    for number in before:
        bench.one(PARTS[number] if seven else cut(WHOLE[:-40], 48)[number % 4], 5)
    bench.now_ns += idle_s * 10**9
    order = [number for number in range(len(PARTS)) for _ in range(1 + (number in repeated))]
    fates = [bench.one(PARTS[number], 5) for number in order]
    last = [fate for number, fate in zip(order, fates, strict=True) if number == len(PARTS) - 1]
    assert all(isinstance(fate, Passed) for fate in fates[: len(fates) - len(last) + 1])
    if not repeated:
        assert bench.state.counts[FRAGMENTS_HELD] == 0


@given(order=st.permutations(range(1, len(PARTS))), repeated=st.sets(st.sampled_from(range(1, len(PARTS))), min_size=1))
@example(order=[2, 3, 5, 4, 1], repeated={2, 3})  # sums of lengths and of squares are those of the whole packet
@settings(max_examples=examples(60), deadline=None)
def test_a_duplicate_does_not_stand_for_a_fragment_that_is_late(order, repeated):
    bench = StateBench(make_tables(VPCS), LIMITS)
    bench.one(PARTS[0], 5)
    come = set()
    for number in [each for each in order for _ in range(1 + (each in repeated))]:
        fate = bench.one(PARTS[number], 5)
        assert isinstance(fate, Passed) or number in come
        come.add(number)


def test_the_first_fragment_of_a_packet_to_another_port_takes_the_row_over(bench):
    bench.one(cut(udp(A, 5000, B, 53, bytes(200)), 80)[0], 5)
    first, second, third = cut(udp(A, 5001, B, 54, bytes(200)), 80)
    row = bench.one(first, 5).connection
    assert [bench.one(each, 5).connection for each in (second, third)] == [row, row]
    assert bench.state.counts[FRAGMENTS_HELD] == 0


def test_ipv6_fragments_follow_their_first(bench):
    whole = ip("2001:db8::1", "2001:db8::2", 17, struct.pack("!HHHH", 1, 2, 208, 0) + bytes(200))
    head, payload = whole[:40], whole[40:]

    def fragment(offset, more, part):
        extension = struct.pack("!BBHI", 17, 0, offset | more, 99)
        return head[:4] + struct.pack("!H", 8 + len(part)) + b"\x2c" + head[7:] + extension + part

    first, second = fragment(0, 1, payload[:104]), fragment(104, 0, payload[104:])
    assert bench.one(second, 5) == Drop.FRAGMENT_WITHOUT_FIRST
    row = bench.one(first, 5).connection
    assert bench.one(fragment(48, 0, payload[48:]), 5) == Drop.BAD_FRAGMENT
    assert bench.one(second, 5).connection == row

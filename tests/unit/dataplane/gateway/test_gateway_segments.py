"""Which TCP segments open, reset and close a connection: those with the next expected sequence number."""

import numpy as np
import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory.state import FIRST_RECORD_BYTES, RECORD
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.gateway.memory.partner import apply_records, collect, start_journal
from heddle.dataplane.gateway.memory.state import CLOSED, CLOSING, ESTABLISHED, FIN_OPENER, FIN_REPLIER, STARTED_NS
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import Passed, StateBench
from tests.oracles.inet_checksum import ip, ipv4, read, tcp

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

A, B, FAR, PUBLIC, FLOATING = "10.0.0.1", "10.0.0.2", "8.8.8.8", "198.51.100.7", "198.51.100.8"
LIMITS = Limits(connections=1 << 6, mappings=1 << 6, fragments=16)
SECOND = 10**9
SPACE = 1 << 32


class Site:
    """A gateway, and a connection between a machine and a host outside; `count` is how far each side has got."""

    def __init__(self, inside=5_000_000, outside=SPACE - 2):
        vpc = FakeVpc(5, endpoints=(A, B), routes={"0.0.0.0/0": EXTERNAL}, nat=PUBLIC, floating={FLOATING: B})
        self.bench = StateBench(make_tables([vpc]), LIMITS)
        self.bench.state.counts[STARTED_NS] = -(10**15)
        self.first, self.count, self.public = [inside, outside], [0, 0], 0

    def out(self, flags="A", data=b"", **numbers):
        """Send a segment of the machine, the next one but for the numbers given."""
        return self._send(0, flags, data, numbers)

    def back(self, flags="A", data=b"", **numbers):
        """Send a segment of the host outside."""
        return self._send(1, flags, data, numbers)

    def _send(self, side, flags, data, numbers):
        given = {"sequence": self.next(side), "ack": self.next(1 - side)}
        given = {name: value % SPACE for name, value in (given | numbers).items()}
        if not numbers:
            self.count[side] += len(data) + ("S" in flags) + ("F" in flags)
        if side:
            fate = self.bench.one(tcp(FAR, 443, PUBLIC, self.public, flags, data, **given), 0, EXTERNAL_PORT)
        else:
            fate = self.bench.one(tcp(A, 1, FAR, 443, flags, data, **given), 5)
            self.public = read(fate.packet)[1]
        assert isinstance(fate, Passed)
        self.row = fate.connection & ~1
        return fate

    def next(self, side):
        return (self.first[side] + self.count[side]) % SPACE

    def flags(self):
        return int(self.bench.state.connections[self.row]["flags"]) & (CLOSING | CLOSED | ESTABLISHED)

    def fins(self):
        return int(self.bench.state.connections[self.row]["flags"]) & (FIN_OPENER | FIN_REPLIER)

    def is_live(self):
        return self.flags() == ESTABLISHED

    def ended_after(self, seconds):
        """Return whether the connection ends if it is idle for so long."""
        for _ in range(64):
            self.bench.now_ns += seconds * SECOND // 64
            age(self.bench.tables, self.bench.state, self.bench.now_ns)
        return not self.bench.state.connections[self.row]["key"]


def open_site(**first):
    site = Site(**first)
    site.out("S", ack=0, sequence=site.next(0))
    site.count[0] = 1
    site.back("SA")
    site.out()
    assert site.is_live()
    return site


@pytest.mark.parametrize("flags", ["R", "RA", "FA", "F"])
@pytest.mark.parametrize("off", [1, 2, -1, 100, 1 << 16, 1 << 30, 1 << 31, -(1 << 20)])
@pytest.mark.parametrize("side", [0, 1])
def test_a_reset_or_fin_with_another_number_passes_and_changes_nothing(flags, off, side):
    site = open_site()
    send = (site.out, site.back)[side]
    send(flags, sequence=site.next(side) + off)
    assert (site.is_live(), site.fins()) == (True, 0)
    site.out("PA", b"goes on")
    site.back("PA", b"as before")
    site.out()
    assert (site.is_live(), site.fins()) == (True, 0)
    assert not site.ended_after(7400)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("data", [b"", b"some data"])
@pytest.mark.parametrize("flags", ["R", "RA"])
def test_a_reset_with_the_next_number_closes_a_connection_right_behind_data(flags, data, side):
    site = open_site()
    send = (site.out, site.back)[side]
    send("PA", data)
    send(flags)
    assert site.flags() & CLOSED
    assert site.ended_after(260)


def test_fins_of_both_sides_close_a_connection_and_one_of_them_ends_it_sooner():
    site = open_site()
    site.back("FA", b"bye")
    assert (site.flags(), site.fins()) == (ESTABLISHED | CLOSING, FIN_REPLIER)
    site.out("PA", b"wait")
    site.out("FA")
    assert (site.flags(), site.fins()) == (ESTABLISHED | CLOSING | CLOSED, FIN_OPENER | FIN_REPLIER)


def test_a_syn_on_a_live_connection_passes_and_changes_nothing():
    site = open_site()
    for send in (site.out, site.back):
        for number in (1, 99, SPACE - 1):
            send("S", sequence=number, ack=0)
    site.back("SA", sequence=4, ack=4)
    assert site.is_live()
    site.back("R", sequence=12345)
    fate = site.back("S", sequence=99, ack=0)
    assert read(fate.packet) == (FAR, 443, A, 1)
    assert site.is_live()
    assert site.out("PA", b"x").connection == site.row


def test_a_syn_on_a_connection_that_one_side_has_closed_changes_nothing():
    site = open_site()
    site.out("FA")
    for send in (site.out, site.back):
        send("S", sequence=77, ack=0)
    assert (site.flags(), site.fins()) == (ESTABLISHED | CLOSING, FIN_OPENER)
    assert site.back("PA", b"still coming").connection == site.row + 1


@pytest.mark.parametrize("flags", ["R", "S", "FA"])
def test_segments_that_change_nothing_do_not_keep_a_connection_either(flags):
    site = open_site()
    assert not site.ended_after(7000)
    site.back(flags, sequence=12345)
    assert site.ended_after(500)


def test_a_long_forged_segment_does_not_move_the_expected_number():
    site = open_site()
    for ahead in (-1000, 1, 500):
        at = site.next(1) + ahead
        site.back("PA", bytes(1200), sequence=at)
        site.back("R", sequence=at + 1200)
        site.back("FA", sequence=at + 1200)
        assert site.is_live()
    site.back("R")
    assert site.flags() & CLOSED


@pytest.mark.parametrize("side", [0, 1])
def test_data_that_is_sent_again_moves_no_number(side):
    site = open_site()
    send, other = (site.out, site.back) if side == 0 else (site.back, site.out)
    for _ in range(3):
        send("PA", b"some data")
    other()
    for back, count in ((27, 9), (27, 27), (18, 4), (9, 9), (1, 1), (1, 0)):
        send("PA", bytes(count), sequence=site.next(side) - back)
        send("R", sequence=site.next(side) - back)
        send("R", sequence=site.next(side) - back + count + (count == back))
    assert (site.is_live(), site.fins()) == (True, 0)
    send("R")
    assert site.flags() & CLOSED


def test_acknowledgements_of_what_was_never_sent_do_not_make_a_reset_valid():
    site = open_site()
    for number in (0, 1, SPACE - 2, site.next(0) + 5000):
        site.back("A", ack=number, sequence=site.next(1))
        site.back("R", sequence=number)
    assert site.is_live()
    site.out("R")
    assert site.flags() & CLOSED


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_fin_behind_lost_data_counts_once_it_is_acknowledged(acknowledged):
    site = open_site()
    at = site.next(1)
    site.back("FA", b"tail", sequence=at + 10)
    assert site.is_live()
    site.back("PA", b"0123456789", sequence=at)
    site.out("A", ack=at + (15 if acknowledged else 14), sequence=site.next(0))
    assert bool(site.flags() & CLOSING) == acknowledged


def test_a_forged_fin_that_the_data_passes_does_not_count():
    site = open_site()
    at = site.next(1)
    site.back("FA", sequence=at + 3)
    for _ in range(3):
        site.back("PA", b"0123")
        site.out()
    assert (site.is_live(), site.fins()) == (True, 0)


def test_a_reset_counts_again_once_a_gap_is_filled():
    site = open_site()
    at = site.next(1)
    site.back("PA", b"4567", sequence=at + 4)  # the segment before it was lost
    site.back("R", sequence=at + 8)
    assert site.is_live()
    site.back("PA", b"0123", sequence=at)
    site.out("A", ack=at + 8, sequence=site.next(0))
    site.back("PA", b"89", sequence=at + 8)
    site.back("R", sequence=at + 10)
    assert site.flags() & CLOSED


def test_a_refused_syn_closes_the_connection_only_by_its_number():
    for ack, is_closed in ((0, False), (1, False), (2, True)):
        site = Site(inside=1)
        site.out("S", sequence=1, ack=0)
        site.back("RA", sequence=0, ack=ack)
        assert bool(site.flags() & CLOSED) == is_closed


def test_both_ends_that_have_forgotten_a_connection_begin_a_new_one():
    site = open_site()
    site.back("FA")
    site.out("S", sequence=700_000_000, ack=0)
    site.back("SA", sequence=44, ack=700_000_001)
    site.out("A", sequence=700_000_001, ack=45)
    assert (site.is_live(), site.fins()) == (True, 0)
    site.back("R", sequence=45)
    assert site.flags() & CLOSED


def test_fragments_move_no_number_and_their_reset_must_be_exact():
    site = open_site()
    segment = tcp(FAR, 443, PUBLIC, site.public, "PA", bytes(40), sequence=site.next(1), ack=site.next(0))[20:]
    for offset, more in ((0, True), (40, False)):
        part = segment[offset : offset + 40] if more else segment[offset:]
        site.bench.one(ipv4(FAR, PUBLIC, 6, part, offset=offset, more=more), 0, EXTERNAL_PORT)
    site.back("R", sequence=site.next(1) + 40)
    assert site.is_live()
    site.out("A", ack=site.next(1) + 40, sequence=site.next(0))
    site.back("R", sequence=site.next(1) + 40)
    assert site.flags() & CLOSED


def handed_over(site, record_bytes=RECORD.itemsize):
    """Return the site at the partner, which has records of a size."""
    start_journal(site.bench.state)
    records = np.zeros(8, RECORD)
    count = collect(site.bench.state, records, site.bench.now_ns)
    words = records.view(np.int64).reshape(len(records), -1)
    words[:, record_bytes // 8 :] = 0
    other = Site()
    other.first, other.count, other.public = site.first, site.count, site.public
    assert apply_records(other.bench.tables, other.bench.state, records, count, other.bench.now_ns) == 0
    return other


@pytest.mark.parametrize("size", [FIRST_RECORD_BYTES, RECORD.itemsize])
@pytest.mark.parametrize("side", [0, 1])
def test_the_partner_expects_the_same_numbers_if_it_knows_them_and_none_otherwise(size, side):
    site = handed_over(open_site(), size)
    send = (site.out, site.back)[side]
    for number in (0, 1, site.next(side) + 1, site.next(side) - 1):
        send("R", sequence=number)
    assert site.is_live()
    send("R")
    assert bool(site.flags() & CLOSED) == (size == RECORD.itemsize)


def test_a_partner_that_knows_no_numbers_learns_them_from_both_sides():
    site = handed_over(open_site(), FIRST_RECORD_BYTES)
    site.back("PA", b"hello")
    site.out("PA", b"hello")
    site.back("R", sequence=site.next(1) + 1)
    assert site.is_live()
    site.back("R")
    assert site.flags() & CLOSED


def test_numbers_that_are_older_at_the_partner_follow_the_acknowledgements():
    site = open_site()
    copy = handed_over(site)
    for _ in range(5):
        site.back("PA", bytes(1000))  # at the first gateway, before the takeover
    copy.back("PA", bytes(1000))
    copy.back("R")
    assert copy.is_live()
    copy.out()
    copy.back("PA", bytes(1000))
    copy.back("R")
    assert copy.flags() & CLOSED


def adopted():
    """Return a connection to a floating IP of which a restarted gateway has seen nothing yet, and its two senders."""
    site = Site()
    site.bench.state.counts[STARTED_NS] = site.bench.now_ns

    def send(outside, flags, data=b"", *, sequence, ack):
        ends = (FAR, 443, FLOATING, 2) if outside else (B, 2, FAR, 443)
        numbers = {"sequence": sequence, "ack": ack}
        fate = site.bench.one(tcp(*ends, flags, data, **numbers), *((0, EXTERNAL_PORT) if outside else (5,)))
        assert isinstance(fate, Passed)
        site.row = fate.connection & ~1

    return site, send


def test_what_adopts_a_connection_is_not_believed_until_the_other_side_acknowledges_it():
    site, send = adopted()
    send(True, "A", sequence=666, ack=777)  # forged
    send(True, "R", sequence=666, ack=0)
    send(True, "S", sequence=1, ack=0)
    assert not site.flags() & CLOSED
    send(False, "PA", b"data", sequence=1000, ack=5000)
    send(True, "A", sequence=5000, ack=1004)
    send(True, "R", sequence=666, ack=0)
    assert not site.flags() & CLOSED
    send(True, "R", sequence=5000, ack=0)
    assert site.flags() & CLOSED


def test_ipv6_segments_are_counted_likewise():
    bench = StateBench(make_tables([FakeVpc(5, endpoints=("fd00::1", "fd00::2"))]), LIMITS)
    ends, reverse = ("fd00::1", 1, "fd00::2", 2), ("fd00::2", 2, "fd00::1", 1)
    for packet in (tcp(*ends, "S"), tcp(*reverse, "SA"), tcp(*ends, "A"), tcp(*reverse, "PA", b"x" * 9)):
        row = bench.one(packet, 5).connection & ~1
    assert packet == ip("fd00::2", "fd00::1", 6, packet[40:])
    bench.one(tcp(*reverse, "R"), 5)
    assert not bench.state.connections[row]["flags"] & CLOSED
    bench.one(tcp(*reverse, "R", sequence=17), 5)
    assert bench.state.connections[row]["flags"] & CLOSED

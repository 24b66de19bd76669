"""Under pressure, connections that are closed or half open end in favour of new ones; live ones never do."""

import numpy as np
import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory.state import GAVE_WAY, PARTNER_REFUSED, RECORD
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.memory.partner import apply_records, collect, start_journal
from heddle.dataplane.gateway.memory.state import RECLAIMED
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import Passed, StateBench
from tests.oracles.inet_checksum import echo, read, tcp, udp
from tests.unit.dataplane.gateway.test_gateway_lifetime import live, pass_time

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

A, B, C, FAR, PUBLIC = "10.0.0.1", "10.0.0.2", "10.0.0.3", "8.8.8.8", "198.51.100.7"
PORTS = 20
LIMITS = Limits(connections=1 << 8, mappings=1 << 8, fragments=16)
SECOND = 10**9


def site(percent=100, limits=LIMITS, ports=(20000, 20000 + PORTS - 1), **more):
    vpc = FakeVpc(5, endpoints=(A, B, C), routes={"0.0.0.0/0": EXTERNAL}, nat=PUBLIC, nat_ports=ports)
    return StateBench(make_tables([vpc], endpoint_percent=percent, **more), limits)


def out(bench, packet):
    """Return the public port of a packet that leaves, or why it does not."""
    bench.now_ns += 1000
    fate = bench.one(packet, 5)
    return read(fate.packet)[1] if isinstance(fate, Passed) else fate


def back(bench, packet):
    bench.now_ns += 1000
    return bench.one(packet, 0, EXTERNAL_PORT)


def opened(bench, port, inside=A):
    """Complete a handshake; return the public port, or why the SYN does not pass."""
    public = out(bench, tcp(inside, port, FAR, 80, "S"))
    if not isinstance(public, Drop):
        back(bench, tcp(FAR, 80, PUBLIC, public, "SA"))
        out(bench, tcp(inside, port, FAR, 80, "A"))
    return public


def closed(bench, port, inside=A):
    """Open and close a connection, the server first, as a web server does."""
    public = opened(bench, port, inside)
    if not isinstance(public, Drop):
        back(bench, tcp(FAR, 80, PUBLIC, public, "FA"))
        out(bench, tcp(inside, port, FAR, 80, "FA"))
        back(bench, tcp(FAR, 80, PUBLIC, public, "A"))
    return public


def passed(fates):
    return [fate for fate in fates if not isinstance(fate, Drop)]


def test_many_short_connections_use_few_ports_one_after_the_other_and_none_is_refused():
    bench = site()
    ports = [closed(bench, 1024 + number) for number in range(300)]
    assert passed(ports) == ports
    for window in range(len(ports) - PORTS):
        assert len(set(ports[window : window + PORTS])) == PORTS  # each port rests as long as possible
    assert bench.state.counts[RECLAIMED] == 300 - PORTS


def test_established_connections_never_give_way():
    bench = site()
    assert len(passed([opened(bench, 1024 + number) for number in range(PORTS)])) == PORTS
    assert {out(bench, tcp(A, 3000 + number, FAR, 80, "S")) for number in range(50)} == {Drop.PORTS_EXHAUSTED}
    assert {out(bench, tcp(B, 3000, FAR, 80, "S"))} == {Drop.PORTS_EXHAUSTED}
    assert all(not isinstance(out(bench, tcp(A, 1024 + number, FAR, 80, "A")), Drop) for number in range(PORTS))
    assert bench.state.counts[RECLAIMED] == 0


def test_a_half_closed_connection_is_live_and_a_reset_one_is_not():
    bench = site()
    ports = [opened(bench, 1024 + number) for number in range(PORTS)]
    back(bench, tcp(FAR, 80, PUBLIC, ports[3], "FA"))
    assert out(bench, tcp(A, 3000, FAR, 80, "S")) == Drop.PORTS_EXHAUSTED
    back(bench, tcp(FAR, 80, PUBLIC, ports[7], "R"))
    assert out(bench, tcp(A, 3000, FAR, 80, "S")) == ports[7]


def test_closed_connections_give_way_before_half_open_ones_and_the_oldest_of_them_first():
    bench = site()
    half = [out(bench, tcp(A, 1024 + number, FAR, 80, "S")) for number in range(PORTS - 4)]
    done = [closed(bench, 2000 + number) for number in range(4)]
    assert [out(bench, tcp(A, 3000 + number, FAR, 80, "S")) for number in range(8)] == done + half[:4]


def test_a_flood_of_syns_ends_its_own_half_open_connections_and_no_others():
    bench = site(percent=50)
    mine = [out(bench, tcp(B, 1024 + number, FAR, 80, "S")) for number in range(4)]
    assert len(passed([out(bench, tcp(A, 2000 + number, FAR, 80, "S")) for number in range(200)])) == 200
    for number, public in enumerate(mine):
        assert out(bench, tcp(B, 1024 + number, FAR, 80, "S")) == public
        assert isinstance(back(bench, tcp(FAR, 80, PUBLIC, public, "SA")), Passed)


def test_one_endpoint_gets_its_share_of_the_ports_and_others_the_rest():
    bench = site(percent=75)
    fates = [opened(bench, 1024 + number) for number in range(50)]
    assert (len(passed(fates)), fates[-1]) == (15, Drop.ENDPOINT_PORTS_LIMITED)
    assert len(passed([opened(bench, 1024 + number, B) for number in range(50)])) == 4
    assert len(passed([opened(bench, 1024 + number, C) for number in range(50)])) == 1


def test_what_an_endpoint_has_closed_gives_way_to_others_of_its_vpc():
    bench = site()
    [closed(bench, 1024 + number) for number in range(PORTS)]
    assert len(passed([opened(bench, 1024 + number, B) for number in range(50)])) == PORTS


def test_connections_of_another_protocol_free_no_port_and_stay():
    bench = site()
    [out(bench, udp(A, 1024 + number, FAR, 5000)) for number in range(8)]
    [opened(bench, 1024 + number) for number in range(PORTS)]
    assert out(bench, tcp(A, 3000, FAR, 80, "S")) == Drop.PORTS_EXHAUSTED
    assert live(bench) == PORTS + 8


def test_a_stream_without_replies_stays_while_it_lasts():
    bench = site()
    streams = [out(bench, udp(A, 1024 + number, FAR, 5000)) for number in range(PORTS)]
    bench.now_ns += 2 * SECOND
    for number in (0, 2):
        out(bench, udp(A, 1024 + number, FAR, 5000))
    assert [out(bench, udp(A, 3000 + number, FAR, 5000)) for number in range(2)] == [streams[1], streams[3]]


def test_requests_with_one_reply_each_give_way_but_not_an_exchange_that_goes_on():
    bench = site()
    ports = [out(bench, udp(A, 1024 + number, FAR, 53)) for number in range(PORTS)]
    for public in ports:
        back(bench, udp(FAR, 53, PUBLIC, public))
    for number in range(PORTS - 2):
        out(bench, udp(A, 1024 + number, FAR, 53))
    assert [out(bench, udp(A, 3000 + number, FAR, 53)) for number in range(3)][:2] == ports[-2:]


@pytest.mark.parametrize(
    ("port", "packets", "seconds"),
    [
        (53, "out back", 10),
        (53, "out out back back", 10),  # for the IPv4 and the IPv6 addresses of a name
        (53, "out back out", 300),
        (53, "out back back", 300),
        (3478, "out back", 300),  # STUN, which then uses the mapping
    ],
)
def test_a_request_and_its_reply_end_early_towards_well_known_ports(port, packets, seconds):
    bench, public = site(), 0
    for what in packets.split():
        if what == "out":
            public = out(bench, udp(A, 1024, FAR, port))
        else:
            back(bench, udp(FAR, port, PUBLIC, public))
    assert pass_time(bench, seconds - 1) == 0
    assert pass_time(bench, 8) == 1


def test_pings_with_an_identifier_each_never_run_out():
    bench = site(ports=(20000, 20007))
    for number in range(100):
        public = out(bench, echo(A, FAR, 3000 + number))
        assert not isinstance(public, Drop)
        assert isinstance(back(bench, echo(FAR, PUBLIC, public, reply=True)), Passed)


def test_a_full_table_of_connections_frees_rows_for_the_next_burst():
    bench = site(limits=Limits(connections=32, mappings=32, fragments=16), ports=(20000, 29999))
    fates = [closed(bench, 1024 + number) for number in range(200)]
    assert passed(fates) == fates
    assert live(bench) <= 32


def test_full_shares_are_reported_with_their_endpoint():
    bench = site(percent=75)
    [opened(bench, 1024 + number) for number in range(20)]
    [closed(bench, 1024 + number, B) for number in range(20)]
    rows = {int(row["lo"]) & 0xFF: row for row in bench.state.full if row["reason"]}
    assert set(rows) == {1, 2}
    assert [rows[1][name] for name in ("reason", "vni", "gave_way", "refused")] == [44, 5, 0, 5]
    assert (rows[2]["refused"], rows[2]["gave_way"]) == (0, 16)


def pair(**more):
    both = site(**more), site(**more)
    for bench in both:
        start_journal(bench.state)
    return both


def replicate(left, right):
    """Apply all records of one gateway at the other; return their kinds."""
    kinds, page = [], np.zeros(64, RECORD)
    while count := collect(left.state, page, left.now_ns):
        apply_records(right.tables, right.state, page, count, right.now_ns)
        kinds += page["what"][:count].tolist()
    return kinds


def mapped(bench):
    rows = bench.state.mappings
    return {tuple(map(int, row[["inside", "key", "public_port"]].item())) for row in rows[rows["key"] != 0]}


def test_a_port_that_changed_its_user_changes_it_at_the_partner_as_well():
    left, right = pair()
    for number in range(PORTS):
        public = closed(left, 1024 + number)
        replicate(left, right)
        assert isinstance(back(right, tcp(FAR, 80, PUBLIC, public, "A")), Passed)  # it is the partner's as well now
    for number in range(PORTS):
        closed(left, 3000 + number, B)
        replicate(left, right)
    assert mapped(right) == mapped(left)
    assert right.state.counts[PARTNER_REFUSED] == 0


def test_a_partner_that_missed_the_end_gives_the_port_to_its_new_user():
    left, right = pair()
    [closed(left, 1024 + number) for number in range(PORTS)]
    replicate(left, right)
    [closed(left, 3000 + number, B) for number in range(PORTS)]
    start_journal(left.state)  # the journal overflowed: all connections, and no ends
    assert GAVE_WAY not in replicate(left, right)
    assert mapped(right) == mapped(left)
    assert right.state.counts[PARTNER_REFUSED] == 0

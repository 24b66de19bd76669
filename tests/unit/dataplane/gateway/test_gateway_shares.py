"""One VPC's flood leaves room for the others in each table that traffic fills, and ends no live entry."""

import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory.state import ACCOUNTS_FREED, ACCOUNTS_USED, FRAGMENTS_AGED_NS
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.tables.schema import EXTERNAL, PROVIDER
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, PROVIDER_PORT, FakeRule, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import Passed, StateBench
from tests.oracles.inet_checksum import ipv4, udp
from tests.unit.dataplane.gateway.test_gateway_lifetime import exchange, pass_time

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

A, B = "10.0.0.1", "10.0.0.2"
LIMITS = Limits(connections=64, mappings=64, fragments=64, connections_per_endpoint=64)
SHARED, OWN = "198.51.100.7", "198.51.100.8"


def tenant(vni, nat=SHARED):
    storage = (FakeRule(remote="172.20.0.0/16"),)
    return FakeVpc(
        vni, endpoints=(A, B), routes={"0.0.0.0/0": EXTERNAL, "172.20.0.0/16": PROVIDER}, nat=nat, border=storage
    )


def site(percent=50, **limits):
    tables = make_tables([tenant(1), tenant(2), tenant(3, OWN), tenant(4)], vpc_percent=percent)
    return StateBench(tables, Limits(**{name: getattr(LIMITS, name) for name in LIMITS.__slots__} | limits))


def admitted(fates):
    return sum(isinstance(fate, Passed) for fate in fates)


def accounts(bench):
    counts = bench.state.counts
    return int(counts[ACCOUNTS_USED] - counts[ACCOUNTS_FREED])


def inside(bench, vni, ports):
    """Open live connections that need no mapping."""
    return [exchange(bench, port, vni=vni) for port in ports]


def first_of(vni_or_number, identification):
    """Return the first and the last fragment of a packet."""
    payload = udp(A, 5000, B, 53, bytes(200))[20:]
    return (
        ipv4(A, B, 17, payload[:80], identification=identification, more=True),
        ipv4(A, B, 17, payload[80:], identification=identification, offset=80),
    )


@pytest.mark.parametrize(("percent", "most"), [(50, 32), (25, 16), (80, 52), (100, 64)])
def test_one_vpc_alone_gets_its_share_of_the_connections_and_no_more(percent, most):
    bench = site(percent)
    fates = inside(bench, 1, range(1, 101))
    assert admitted(fates) == most
    refused = {fate for fate in fates if not isinstance(fate, Passed)}
    assert refused == {Drop.CONNECTIONS_FULL if percent == 100 else Drop.CONNECTIONS_LIMITED}
    assert admitted(inside(bench, 1, range(1, most + 1))) == most  # what lives goes on


def test_a_further_vpc_finds_room_however_many_flood_the_table():
    bench = site()
    had = [admitted(inside(bench, vni, range(1, 101))) for vni in (1, 2, 3)]
    assert had[0] > had[1] > had[2] >= 8
    assert admitted(inside(bench, 4, range(1, 5))) == 4


def test_ended_connections_do_not_count():
    bench = site()
    inside(bench, 1, range(1, 101))
    assert pass_time(bench, 400) == 32
    assert accounts(bench) == 0
    assert admitted(inside(bench, 1, range(1, 101))) == 32


def test_connections_from_outside_count_against_their_target():
    tables = make_tables(
        [
            FakeVpc(1, endpoints=(A,), routes={"0.0.0.0/0": EXTERNAL}, floating={OWN: A}, rules_in=(FakeRule(),)),
            tenant(2),
        ],
        vpc_percent=50,
    )
    bench = StateBench(tables, LIMITS)
    fates = []
    for port in range(1, 101):
        fates.append(bench.one(udp("8.8.8.8", port, OWN, 53), 0, EXTERNAL_PORT))
        bench.one(udp(A, 53, "8.8.8.8", port), 1)
        bench.one(udp("8.8.8.8", port, OWN, 53), 0, EXTERNAL_PORT)
    assert (admitted(fates), fates[-1]) == (32, Drop.CONNECTIONS_LIMITED)
    assert admitted(inside(bench, 2, range(1, 5))) == 4


def test_one_vpcs_mappings_leave_room_for_the_others():
    bench = site(connections=256, connections_per_endpoint=256)
    fates = [exchange(bench, port, "8.8.8.8", vni=3) for port in range(2000, 2100)]
    assert (admitted(fates), fates[-1]) == (32, Drop.PORTS_LIMITED)
    assert isinstance(bench.one(udp(A, 2000, "9.9.9.9", 53), 3), Passed)  # the mapping is there already
    assert admitted([bench.one(udp(A, port, "8.8.8.8", 53), 1) for port in range(2000, 2008)]) == 8
    pass_time(bench, 400)
    assert accounts(bench) == 0


@pytest.mark.parametrize(
    ("target", "mine", "others", "side"), [("8.8.8.8", 1, 2, EXTERNAL_PORT), ("172.20.0.9", 3, 1, PROVIDER_PORT)]
)
def test_ports_of_a_shared_address_are_limited_per_vpc(target, mine, others, side):
    bench = site(connections=256, connections_per_endpoint=256, mappings=256)
    for row in bench.tables.vpcs:
        row["nat_last"] = 1024 + 39
    bench.tables.own[12] = 1024 + 39
    fates = [exchange(bench, port, target, vni=mine, far_port=side) for port in range(2000, 2100)]
    assert (admitted(fates), fates[-1]) == (20, Drop.PORTS_LIMITED)
    assert admitted([bench.one(udp(A, port, target, 53), others) for port in range(2000, 2005)]) == 5


def test_a_vpc_may_use_all_ports_of_its_own_address():
    bench = site(connections=256, connections_per_endpoint=256, mappings=256)
    bench.tables.vpcs[2]["nat_last"] = 1024 + 39
    fates = [exchange(bench, port, "8.8.8.8", vni=3) for port in range(2000, 2100)]
    assert (admitted(fates), fates[-1]) == (40, Drop.PORTS_EXHAUSTED)


def test_one_vpcs_first_fragments_leave_room_for_the_others():
    bench = site(fragments=256, connections_per_endpoint=64)
    fates = [bench.one(first_of(1, number)[0], 1) for number in range(1000)]
    assert (admitted(fates), set(fates[400:])) == (128, {Drop.FRAGMENTS_LIMITED})
    assert admitted([bench.one(first_of(2, number)[0], 2) for number in range(1000)]) >= 32
    assert admitted([bench.one(first_of(4, number)[0], 4) for number in range(4)]) == 4


def test_fragments_from_outside_have_a_share_as_well():
    bench = site(fragments=256)
    payload = udp("8.8.8.8", 5000, SHARED, 53, bytes(200))[20:]
    fates = [
        bench.one(ipv4("8.8.8.8", SHARED, 17, payload[:80], identification=number, more=True), 0, EXTERNAL_PORT)
        for number in range(1000)
    ]
    assert fates.count(Drop.FRAGMENTS_LIMITED) == 1000 - 128
    assert admitted([bench.one(first_of(1, number)[0], 1) for number in range(8)]) == 8


def test_completed_packets_do_not_count():
    bench = site(fragments=16)
    for number in range(500):
        first, last = first_of(1, number)
        assert admitted([bench.one(first, 1), bench.one(last, 1)]) == 2
    assert bench.one(first_of(1, 7)[1], 1) == Drop.FRAGMENT_WITHOUT_FIRST


def test_incomplete_packets_do_not_count_after_their_timeout():
    bench = site(fragments=64)
    [bench.one(first_of(1, number)[0], 1) for number in range(200)]
    bench.now_ns += 31 * 10**9
    bench.state.counts[FRAGMENTS_AGED_NS] = bench.now_ns - 4 * 10**9
    assert pass_time(bench, 400) > 0
    assert not bench.state.fragments["vni"].any()
    assert accounts(bench) == 0

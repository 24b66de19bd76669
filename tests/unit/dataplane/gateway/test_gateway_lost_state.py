"""TCP connections that the gateway does not know any more: adopted if possible, else reset; never silently dropped."""

import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway.memory.state import STARTED_NS
from heddle.dataplane.tables.schema import EXTERNAL, PEER, PROVIDER
from tests.fakes.gateway.gateway_tables import (
    EXTERNAL_PORT,
    PROVIDER_ADDRESS,
    PROVIDER_PORT,
    FakeRule,
    FakeVpc,
    make_tables,
)
from tests.fakes.gateway.state_bench import Passed, StateBench
from tests.oracles.inet_checksum import faults, read, tcp
from tests.unit.dataplane.gateway.test_gateway_lifetime import live

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

A, B, SERVER, FAR, PUBLIC, FLOATING = "10.0.0.1", "10.0.0.2", "10.9.0.1", "8.8.8.8", "198.51.100.7", "198.51.100.8"
LIMITS = Limits(connections=1 << 6, mappings=1 << 6, fragments=16)
SECOND = 10**9


def site(since_s=10):
    """Return a gateway that started a while ago: red uses one port of green, and has NAT and a floating IP for B."""
    red = FakeVpc(
        5,
        endpoints=(A, B),
        routes={"0.0.0.0/0": EXTERNAL, "10.9.0.0/24": (PEER, 6), "172.20.0.0/16": PROVIDER},
        nat=PUBLIC,
        floating={FLOATING: B},
        border=(FakeRule(remote="172.20.0.0/16"),),
    )
    green = FakeVpc(
        6,
        endpoints=(SERVER,),
        routes={"10.0.0.0/24": (PEER, 5)},
        rules_in=(FakeRule(protocol=6, remote="10.0.0.0/24", ports=(443, 443)),),
    )
    bench = StateBench(make_tables([red, green]), LIMITS)
    bench.state.counts[STARTED_NS] = bench.now_ns - since_s * SECOND
    return bench


@pytest.mark.parametrize("flags", ["A", "PA", "FA"])
def test_a_connection_without_translation_continues_from_either_side(flags):
    request, reply = tcp(A, 5000, SERVER, 443, flags), tcp(SERVER, 443, A, 5000, flags)
    for first, second in (((request, 5), (reply, 6)), ((reply, 6), (request, 5))):
        bench = site()
        for packet, vni in (first, second):
            fate = bench.one(packet, vni)
            assert isinstance(fate, Passed)
            assert fate.packet == packet
        assert live(bench) == 1


def test_a_connection_by_floating_ip_continues_with_its_address_translated():
    bench = site()
    fate = bench.one(tcp(B, 5000, FAR, 443, "A"), 5)
    assert (read(fate.packet), faults(fate.packet)) == ((FLOATING, 5000, FAR, 443), [])
    assert read(bench.one(tcp(FAR, 443, FLOATING, 5000, "A"), 0, EXTERNAL_PORT).packet) == (FAR, 443, B, 5000)


def test_what_the_rules_allow_in_neither_direction_is_not_adopted():
    bench = site()
    assert bench.one(tcp(A, 5000, SERVER, 80, "A"), 5) == Drop.NO_STATE
    assert bench.one(tcp(SERVER, 80, A, 5000, "A"), 6) == Drop.NO_STATE
    assert bench.one(tcp(FAR, 5000, FLOATING, 443, "A"), 0, PROVIDER_PORT) == Drop.NO_STATE
    assert live(bench) == 0


def test_nothing_is_adopted_once_the_gateway_has_run_for_a_while():
    bench = site(since_s=301)
    assert bench.one(tcp(A, 5000, SERVER, 443, "A"), 5) == Drop.NO_STATE
    assert bench.one(tcp(SERVER, 443, A, 5000, "A"), 6) == Drop.NO_STATE


@pytest.mark.parametrize("since_s", [10, 10**6])
def test_a_connection_that_needs_a_mapping_is_reset_from_either_side_and_takes_none(since_s):
    bench = site(since_s)
    assert bench.one(tcp(A, 5000, FAR, 443, "PA", b"x"), 5) == Punt.NO_STATE
    assert bench.one(tcp(A, 5000, "172.20.0.9", 2049, "A"), 5) == Punt.NO_STATE
    assert bench.one(tcp(FAR, 443, PUBLIC, 5000, "A"), 0, EXTERNAL_PORT) == Punt.NO_STATE
    assert live(bench) == 0
    assert not bench.state.mappings["key"].any()


@pytest.mark.parametrize("flags", ["R", "RA", "SA", "F", "", "P"])
def test_no_reset_replies_to_a_reset_or_to_a_segment_without_ack(flags):
    bench = site()
    assert bench.one(tcp(A, 5000, FAR, 443, flags), 5) == Drop.NO_STATE
    assert bench.one(tcp(FAR, 443, PUBLIC, 5000, flags), 0, EXTERNAL_PORT) == Drop.NO_STATE


def test_the_reset_of_a_client_may_open_the_connection_again():
    bench = site()
    first = bench.one(tcp(A, 5000, FAR, 443, "S"), 5)
    bench.one(tcp(FAR, 443, PUBLIC, read(first.packet)[1], "A"), 0, EXTERNAL_PORT)  # TIME-WAIT of an older connection
    bench.one(tcp(A, 5000, FAR, 443, "R"), 5)
    again = bench.one(tcp(A, 5000, FAR, 443, "S"), 5)
    assert read(again.packet) == read(first.packet)


def test_providers_hosts_open_nothing_by_a_segment_within_a_connection():
    bench = site()
    assert bench.one(tcp("172.20.0.9", 2049, str(PROVIDER_ADDRESS), 5000, "A"), 0, PROVIDER_PORT) == Drop.NO_STATE

"""Which connections are admitted, by which next hop, and the drop reasons of the others."""

import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.tables import schema
from heddle.dataplane.tables.schema import CUSTOMER, DISCARD, EXTERNAL, LOCAL, PEER, PROVIDER
from tests.fakes.gateway.gateway_tables import (
    CUSTOMER_PORT,
    EXTERNAL_PORT,
    PROVIDER_ADDRESS,
    PROVIDER_PORT,
    FakeRule,
    FakeVpc,
    make_tables,
)
from tests.fakes.gateway.state_bench import Passed, Sent, StateBench, hop_of
from tests.oracles.inet_checksum import echo, faults, read, tcp, udp

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels


LIMITS = Limits(connections=1 << 8, mappings=1 << 7, fragments=1 << 6, connections_per_endpoint=1 << 8)
RED = FakeVpc(
    5,
    endpoints=("10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2"),
    routes={
        "0.0.0.0/0": EXTERNAL,
        "10.1.0.0/16": (PEER, 6),
        "10.9.0.0/16": CUSTOMER,
        "10.0.0.0/24": DISCARD,
        "10.0.0.254/32": LOCAL,
        "192.168.50.0/24": PROVIDER,
        "::/0": EXTERNAL,
    },
    border=(FakeRule(protocol=6, remote="192.168.50.0/25", ports=(443, 443)),),
    nat="198.51.100.7",
    floating={"198.51.100.9": "10.0.0.2"},
)
BLUE = FakeVpc(
    6,
    endpoints=("10.1.0.1",),
    routes={"10.0.0.0/24": (PEER, 5), "10.9.0.0/16": CUSTOMER},
    rules_in=(FakeRule(remote="10.0.0.0/24", protocol=17),),
)


@pytest.fixture
def bench():
    return StateBench(make_tables([RED, BLUE]), LIMITS)


def kind_of(bench, passed):
    assert isinstance(passed, Passed), passed
    return bench.tables.next_hops[passed.hop]["kind"]


def test_an_endpoint_reaches_another_of_its_vpc_unchanged(bench):
    packet = udp("10.0.0.1", 1000, "10.0.0.2", 2000)
    passed = bench.one(packet, 5)
    assert (passed.packet, passed.hop) == (packet, hop_of(bench.tables, 5, "10.0.0.2"))
    reply = udp("10.0.0.2", 2000, "10.0.0.1", 1000)
    assert bench.one(reply, 5)[:2] == (reply, hop_of(bench.tables, 5, "10.0.0.1"))


def test_an_ipv6_endpoint_reaches_another_of_its_vpc(bench):
    packet = tcp("2001:db8::1", 1000, "2001:db8::2", 80)
    assert bench.one(packet, 5)[:2] == (packet, hop_of(bench.tables, 5, "2001:db8::2"))


def test_ipv6_to_the_outside_is_not_translated_and_so_refused(bench):
    assert bench.one(tcp("2001:db8::1", 1000, "2001:db8:ffff::9", 80), 5) == Drop.NO_NAT


def test_an_unassigned_address_of_the_subnet_is_discarded(bench):
    assert bench.one(udp("10.0.0.1", 1, "10.0.0.77", 2), 5) == Drop.DISCARD_ROUTE


def test_a_packet_to_the_gateway_itself_passes_without_a_connection(bench):
    passed = bench.one(echo("10.0.0.1", "10.0.0.254", 9), 5)
    assert (kind_of(bench, passed), passed.connection) == (LOCAL, -1)


def test_a_source_that_is_neither_endpoint_nor_customer_is_refused(bench):
    assert bench.one(udp("10.0.0.99", 1, "10.0.0.2", 2), 5) == Drop.SPOOFED_SOURCE


def test_a_peers_endpoint_is_reached_if_the_peers_rules_allow_it(bench):
    passed = bench.one(udp("10.0.0.1", 1, "10.1.0.1", 53), 5)
    assert passed.hop == hop_of(bench.tables, 6, "10.1.0.1")
    reply = bench.one(udp("10.1.0.1", 53, "10.0.0.1", 1), 6)
    assert reply.hop == hop_of(bench.tables, 5, "10.0.0.1")
    assert bench.one(tcp("10.0.0.1", 1, "10.1.0.1", 53), 5) == Drop.DENIED_IN


def test_peering_is_not_transitive_to_the_peers_customer_or_the_outside(bench):
    assert bench.one(udp("10.1.0.1", 1, "10.0.0.77", 53), 6) == Drop.NO_ROUTE
    assert bench.one(udp("10.0.0.1", 1, "10.1.0.77", 53), 5) == Drop.NO_ROUTE


def test_a_customer_reaches_endpoints_only_where_a_rule_allows_it():
    open_vpc = FakeVpc(
        5, endpoints=("10.0.0.1",), routes={"10.9.0.0/16": CUSTOMER}, rules_in=(FakeRule(remote="10.9.1.0/24"),)
    )
    bench = StateBench(make_tables([open_vpc]), LIMITS)
    assert bench.one(udp("10.9.1.1", 1, "10.0.0.1", 2), 5, CUSTOMER_PORT).hop == hop_of(bench.tables, 5, "10.0.0.1")
    reply = bench.one(udp("10.0.0.1", 2, "10.9.1.1", 1), 5)
    assert kind_of(bench, reply) == CUSTOMER
    assert bench.one(udp("10.9.2.1", 1, "10.0.0.1", 2), 5, CUSTOMER_PORT) == Drop.DENIED_IN


def test_a_customer_reaches_only_the_vpc(bench):
    assert bench.one(udp("10.9.0.1", 1, "10.1.0.1", 2), 5, CUSTOMER_PORT) == Drop.NO_ROUTE
    assert bench.one(udp("10.9.0.1", 1, "8.8.8.8", 2), 5, CUSTOMER_PORT) == Drop.NO_ROUTE


def test_the_border_is_closed_unless_a_rule_opens_it(bench):
    passed = bench.one(tcp("10.0.0.1", 4000, "192.168.50.3", 443), 5)
    assert kind_of(bench, passed) == PROVIDER
    assert read(passed.packet) == (str(PROVIDER_ADDRESS), 4000, "192.168.50.3", 443)
    assert bench.one(tcp("10.0.0.1", 4000, "192.168.50.3", 80), 5) == Drop.DENIED_BORDER
    assert bench.one(tcp("10.0.0.1", 4000, "192.168.50.200", 443), 5) == Drop.DENIED_BORDER
    assert bench.one(udp("10.0.0.1", 4000, "192.168.50.3", 443), 5) == Drop.DENIED_BORDER


def test_the_providers_networks_reply_and_open_nothing(bench):
    bench.one(tcp("10.0.0.1", 4000, "192.168.50.3", 443), 5)
    reply = tcp("192.168.50.3", 443, str(PROVIDER_ADDRESS), 4000, "SA")
    assert bench.one(reply, 0, EXTERNAL_PORT) == Drop.MARTIAN
    passed = bench.one(reply, 0, PROVIDER_PORT)
    assert read(passed.packet) == ("192.168.50.3", 443, "10.0.0.1", 4000)
    assert bench.one(tcp("192.168.50.3", 443, str(PROVIDER_ADDRESS), 4001), 0, PROVIDER_PORT) == Drop.DENIED_BORDER


def test_nat_replies_return_to_the_opener(bench):
    passed = bench.one(udp("10.0.0.1", 5000, "8.8.8.8", 53), 5)
    assert kind_of(bench, passed) == EXTERNAL
    assert read(passed.packet) == ("198.51.100.7", 5000, "8.8.8.8", 53)
    reply = bench.one(udp("8.8.8.8", 53, "198.51.100.7", 5000), 0, EXTERNAL_PORT)
    assert read(reply.packet) == ("8.8.8.8", 53, "10.0.0.1", 5000)
    assert reply.hop == hop_of(bench.tables, 5, "10.0.0.1")
    assert faults(passed.packet) == faults(reply.packet) == []


def test_a_packet_from_outside_without_a_receiver_is_dropped(bench):
    assert bench.one(udp("8.8.8.8", 53, "198.51.100.7", 5000), 0, EXTERNAL_PORT) == Drop.NO_MAPPING
    assert bench.one(udp("8.8.8.8", 53, "198.51.100.77", 5000), 0, EXTERNAL_PORT) == Drop.NO_MAPPING


def test_outside_may_not_enter_through_a_mapping_or_a_floating_ip_without_a_rule(bench):
    bench.one(udp("10.0.0.1", 5000, "8.8.8.8", 53), 5)
    assert bench.one(udp("8.8.4.4", 53, "198.51.100.7", 5000), 0, EXTERNAL_PORT) == Drop.DENIED_IN
    assert bench.one(tcp("8.8.4.4", 53, "198.51.100.9", 22), 0, EXTERNAL_PORT) == Drop.DENIED_IN


def test_a_rule_opens_a_floating_ip_to_the_outside():
    vpc = FakeVpc(
        5,
        endpoints=("10.0.0.2",),
        routes={"0.0.0.0/0": EXTERNAL},
        rules_in=(FakeRule(protocol=6, ports=(22, 22)),),
        floating={"198.51.100.9": "10.0.0.2"},
    )
    bench = StateBench(make_tables([vpc]), LIMITS)
    passed = bench.one(tcp("8.8.4.4", 53, "198.51.100.9", 22), 0, EXTERNAL_PORT)
    assert read(passed.packet) == ("8.8.4.4", 53, "10.0.0.2", 22)
    reply = bench.one(tcp("10.0.0.2", 22, "8.8.4.4", 53, "SA"), 5)
    assert read(reply.packet) == ("198.51.100.9", 22, "8.8.4.4", 53)
    assert faults(passed.packet) == faults(reply.packet) == []


def test_an_endpoint_with_a_floating_ip_leaves_with_it(bench):
    passed = bench.one(udp("10.0.0.2", 5000, "8.8.8.8", 53), 5)
    assert read(passed.packet) == ("198.51.100.9", 5000, "8.8.8.8", 53)


@pytest.mark.parametrize("ports", [(4791, 4791), (49152, 4791), (4791, 53)])
@pytest.mark.parametrize("source", ["10.0.0.1", "10.0.0.2"])
def test_roce_is_never_translated(bench, source, ports):
    assert bench.one(udp(source, ports[0], "8.8.8.8", ports[1]), 5) == Drop.ROCE_NOT_TRANSLATED


def test_roce_is_forwarded_unchanged_within_a_vpc(bench):
    packet = udp("10.0.0.1", 49152, "10.0.0.2", 4791)
    assert bench.one(packet, 5).packet == packet


def test_a_source_outside_that_is_one_of_our_public_addresses_is_refused(bench):
    assert bench.one(udp("198.51.100.9", 1, "198.51.100.9", 2), 0, EXTERNAL_PORT) == Drop.MARTIAN


def test_a_packet_from_outside_with_a_source_in_the_vpc_is_refused(bench):
    for inside in ("10.0.0.1", "10.1.0.1", "10.9.0.1", "192.168.50.3"):
        assert bench.one(tcp(inside, 1, "198.51.100.9", 2), 0, EXTERNAL_PORT) == Drop.MARTIAN


def test_tcp_without_syn_and_without_a_connection_has_no_state(bench):
    for flags in ("A", "SA", "F", "R", "FA", "PA", ""):
        assert bench.one(tcp("10.0.0.1", 1, "10.0.0.2", 2, flags), 5) == Drop.NO_STATE


def test_an_unsolicited_echo_reply_has_no_state(bench):
    assert bench.one(echo("10.0.0.1", "10.0.0.2", 2, reply=True), 5) == Drop.NO_STATE
    assert bench.one(echo("2001:db8::1", "2001:db8::2", 2, reply=True), 5) == Drop.NO_STATE


def test_an_echo_request_with_our_identifier_is_not_a_reply(bench):
    bench.one(echo("10.0.0.2", "8.8.8.8", 7), 5)
    assert bench.one(echo("8.8.8.8", "198.51.100.9", 7), 0, EXTERNAL_PORT) == Drop.DENIED_IN
    reply = bench.one(echo("8.8.8.8", "198.51.100.9", 7, reply=True), 0, EXTERNAL_PORT)
    assert read(reply.packet)[2] == "10.0.0.2"
    assert faults(reply.packet) == []


def test_pings_in_both_directions_with_one_identifier_are_two_connections(bench):
    there = bench.one(echo("10.0.0.1", "10.0.0.2", 1), 5)
    back = bench.one(echo("10.0.0.2", "10.0.0.1", 1), 5)
    assert {there.hop, back.hop} == {hop_of(bench.tables, 5, "10.0.0.1"), hop_of(bench.tables, 5, "10.0.0.2")}
    assert int((bench.state.connections["key"] != 0).sum()) == 4


def test_a_packet_of_an_unknown_vpc_is_refused(bench):
    assert bench.one(udp("10.0.0.1", 1, "10.0.0.2", 2), 77) == Drop.UNKNOWN_VNI


def test_packets_of_one_burst_share_the_connection_that_the_first_of_them_opens(bench):
    packet = Sent(udp("10.0.0.1", 1, "8.8.8.8", 2), 5)
    rows = {passed.connection for passed in bench.send(packet, packet, packet)}
    assert len(rows) == 1
    assert bench.state.connections[rows.pop()]["packets"] == 3


def test_a_vpc_without_nat_reaches_nothing_outside():
    vpc = FakeVpc(
        5, endpoints=("10.0.0.1", "10.0.0.2"), routes={"0.0.0.0/0": EXTERNAL}, floating={"9.9.9.9": "10.0.0.2"}
    )
    bench = StateBench(make_tables([vpc]), LIMITS)
    assert bench.one(udp("10.0.0.1", 1, "8.8.8.8", 2), 5) == Drop.NO_NAT


def test_the_words_of_own_are_not_used_twice():
    names = [name for name in vars(schema) if name.startswith("OWN_") and name != "OWN_WORDS"]
    numbers = [getattr(schema, name) for name in names]
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) < schema.OWN_WORDS

"""Connections, mappings and fragments end with their VPC, peering, direct connect or floating IP, whatever follows."""

from dataclasses import replace

import pytest

from heddle.dataplane.config.local import Limits, PortShare
from heddle.dataplane.control.pair.duties import ALONE, on_duty
from heddle.dataplane.control.slow.directory import Duty
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway.memory.partner import start_journal
from tests.fakes.gateway.changing_networks import OPEN, ChangingGateway, Wanted, replicate, vpc
from tests.fakes.gateway.gateway_tables import CUSTOMER_PORT, EXTERNAL_PORT
from tests.fakes.gateway.state_bench import Passed
from tests.oracles.inet_checksum import ipv4, read, tcp, udp
from tests.unit.dataplane.gateway.test_gateway_fragments import cut

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

A, B, FAR, CUSTOMER = "10.0.0.10", "10.0.0.11", "198.51.100.9", "10.99.0.3"
NAT, FLOATING = "203.0.113.10", "203.0.113.20"
WHOLE = {"nat": NAT, "floating": ((FLOATING, B),), "vlans": (7,)}
OLD, NEW = vpc("old", 100, tenant="t1", **WHOLE), vpc("new", 100, tenant="t2", **WHOLE)
GONE = (Drop.NO_MAPPING, Drop.NO_STATE, Drop.DENIED_IN, Punt.NO_STATE)


def opened(gateway, source, far, port=5000, vni=100):
    """Open a TCP connection from an endpoint; return the public address and port that the far end sees."""
    public, number, *_ = read(gateway.one(tcp(source, port, far, 443), vni).packet)
    if far == FAR:
        assert isinstance(gateway.one(tcp(FAR, 443, public, number, "SA"), 0, EXTERNAL_PORT), Passed)
        assert isinstance(gateway.one(tcp(source, port, far, 443, "A"), vni), Passed)
    return public, number


def served(gateway):
    """Open a connection of each kind; return what the far ends send in them later: packet, VNI and port."""
    segments = []
    for source in (A, B):
        public, number = opened(gateway, source, FAR)
        segments.append((tcp(FAR, 443, public, number, "PA", b"for the old one"), 0, EXTERNAL_PORT))
    public, number, *_ = read(gateway.one(udp(A, 6000, FAR, 53), 100).packet)
    segments.append((udp(FAR, 53, public, number, b"for the old one"), 0, EXTERNAL_PORT))
    for sender, target, vni, port in ((FAR, FLOATING, 0, EXTERNAL_PORT), (CUSTOMER, A, 100, CUSTOMER_PORT)):
        assert isinstance(gateway.one(tcp(sender, 7000, target, OPEN), vni, port), Passed)
        segments.append((tcp(sender, 7000, target, OPEN, "PA", b"for the old one"), vni, port))
    assert isinstance(gateway.one(tcp(A, 8000, CUSTOMER, 443), 100), Passed)
    segments.append((tcp(CUSTOMER, 443, A, 8000, "PA", b"for the old one"), 100, CUSTOMER_PORT))
    return segments


@pytest.mark.parametrize("is_seen", [True, False], ids=["deletion seen", "away in between"])
@pytest.mark.parametrize("heir", [NEW, OLD], ids=["another tenant", "the same id"])
@pytest.mark.parametrize("sweeps", [True, False])
@pytest.mark.parametrize("started_s", [10, 1000])
def test_no_packet_of_a_deleted_vpc_reaches_what_has_its_numbers(is_seen, heir, sweeps, started_s):
    wanted = Wanted()
    gateway = ChangingGateway(wanted.put(OLD), started_s=started_s)
    segments = served(gateway)
    deleted = wanted.without("old")
    if is_seen:
        gateway.take(deleted)
    gateway.take(wanted.put(heir), sweeps=sweeps)
    for _ in range(2):
        for segment in segments:
            assert gateway.one(*segment) in GONE


def test_the_same_packets_reach_a_vpc_that_was_changed_but_not_deleted():
    wanted = Wanted()
    gateway = ChangingGateway(wanted.put(OLD))
    segments = served(gateway)
    gateway.take(wanted.put(vpc("old", 100, tenant="t1", third=0, **{**WHOLE, "vlans": (7, 8)})))
    assert all(isinstance(gateway.one(*segment), Passed) for segment in segments)


def test_nothing_of_a_deleted_vpc_stays_before_the_first_packet_of_its_heir():
    wanted = Wanted()
    gateway = ChangingGateway(wanted.put(OLD))
    served(gateway)
    wanted.without("old")
    gateway.take(wanted.put(NEW))
    assert gateway.used() == {"connections": 0, "mappings": 0, "accounts": 0}


def test_a_mapping_of_a_deleted_vpc_leads_to_no_endpoint_even_before_it_has_ended():
    wanted = Wanted()
    gateway = ChangingGateway(wanted.put(OLD))
    public, number = opened(gateway, A, FAR, port=OPEN)
    wanted.without("old")
    gateway.take(wanted.put(NEW), sweeps=False)
    assert gateway.one(tcp("8.8.8.8", 9000, public, number), 0, EXTERNAL_PORT) == Drop.NO_MAPPING
    assert read(gateway.one(tcp(A, OPEN, FAR, 443), 100).packet)[0] == NAT
    assert gateway.used()["mappings"] >= 1
    gateway.age()
    assert gateway.used()["mappings"] == 1


@pytest.mark.parametrize("count", [3, 20])
def test_a_new_vpc_has_all_the_room_that_a_deleted_one_with_its_vni_had(count):
    wanted = Wanted()
    room = Limits(connections=64, mappings=64, fragments=16, connections_per_endpoint=count)
    gateway = ChangingGateway(wanted.put(OLD), limits=room)
    for port in range(count):
        opened(gateway, A, FAR, port=5000 + port)
    wanted.without("old")
    gateway.take(wanted.put(NEW))
    for port in range(count):
        opened(gateway, A, FAR, port=6000 + port)


@pytest.mark.parametrize(("sender", "vni", "port"), [(A, 100, 0), (FAR, 0, EXTERNAL_PORT)])
def test_the_rest_of_a_fragmented_packet_does_not_follow_to_another_vpc(sender, vni, port):
    wanted = Wanted()
    gateway = ChangingGateway(wanted.put(OLD))
    for network in (None, wanted.put(NEW, remove=("old",))):
        if network is not None:
            gateway.now_ns += 10**9
            gateway.take(network)
        public, number, *_ = read(gateway.one(udp(A, 6000, FAR, 53), 100).packet)
        datagram = udp(A, 6000, FAR, 53, bytes(200)) if vni else udp(FAR, 53, public, number, bytes(200))
        first, *rest = cut(datagram, 80)
        if network is None:
            assert isinstance(gateway.one(first, vni, port), Passed)
    assert (public, number) == (NAT, 6000)
    assert [gateway.one(later, vni, port) for later in rest] == [Drop.FRAGMENT_WITHOUT_FIRST] * len(rest)
    assert all(isinstance(gateway.one(each, vni, port), Passed) for each in (first, *rest))


LEFT, RIGHT = vpc("left", 1), vpc("right", 2, third=1)
INNER = ((tcp(A, 5000, "10.0.1.10", OPEN), 1), (tcp("10.0.1.10", OPEN, A, 5000, "SA"), 2))


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_connection_ends_with_its_peering_and_not_with_that_of_others(is_seen):
    wanted = Wanted()
    third = vpc("third", 3, third=2)
    gateway = ChangingGateway(wanted.put(LEFT, RIGHT, third, peerings={("left", "right"), ("left", "third")}))
    assert all(isinstance(gateway.one(*each), Passed) for each in INNER)
    for others in ({("left", "right")}, {("left", "right"), ("left", "third")}):
        gateway.take(wanted.put(peerings=others))
        assert isinstance(gateway.one(tcp(A, 5000, "10.0.1.10", OPEN, "A"), 1), Passed)
    for pairs in (set(), {("left", "right")}):
        network = wanted.put(peerings=pairs)
        if is_seen or pairs:
            gateway.take(network)
    assert gateway.live == 0
    assert gateway.one(tcp("10.0.1.10", OPEN, A, 5000, "A"), 2) == Drop.NO_STATE


def test_a_segment_after_a_peering_was_made_again_is_reset_before_the_connection_is_swept():
    wanted = Wanted()
    gateway = ChangingGateway(wanted.put(LEFT, RIGHT, peerings={("left", "right")}))
    assert all(isinstance(gateway.one(*each), Passed) for each in INNER)
    wanted.put(peerings=set())
    gateway.take(wanted.put(peerings={("left", "right")}), sweeps=False)
    assert gateway.one(tcp("10.0.1.10", OPEN, A, 5000, "A"), 2) == Punt.NO_STATE


@pytest.mark.parametrize("part", ["vlans", "floating"])
def test_a_connection_ends_with_its_direct_connect_or_floating_ip_made_again_unseen(part):
    wanted = Wanted()
    gateway = ChangingGateway(wanted.put(OLD))
    segments = served(gateway)
    wanted.put(vpc("old", 100, tenant="t1", **{**WHOLE, part: ()}))
    gateway.take(wanted.put(OLD))
    passed = [isinstance(gateway.one(*segment), Passed) for segment in segments]
    is_its = [False, True, False, True, False, False] if part == "floating" else [False] * 4 + [True] * 2
    assert passed == [not its for its in is_its]


def pair(network):
    gateways = [ChangingGateway(network, ports=PortShare(first=first, last=last))
                for first, last in ((1024, 20_000), (20_001, 40_000))]  # fmt: skip
    for each in gateways:
        start_journal(each.state)
    return gateways


def test_a_copy_at_the_partner_ends_with_its_vpc_as_well():
    wanted = Wanted()
    left, right = pair(wanted.put(OLD))
    segments = served(left)
    assert replicate(left, right) == 0
    assert right.live == left.live == len(segments)
    wanted.without("old")
    right.take(wanted.put(NEW))
    assert right.live == 0
    assert all(right.one(*segment) in GONE for segment in segments)


def test_a_partner_that_is_behind_sends_no_connection_of_what_is_gone():
    wanted = Wanted()
    left, right = pair(wanted.put(OLD))
    wanted.without("old")
    right.take(wanted.put(NEW))
    segments = served(left)
    assert replicate(left, right) >= len(segments)
    assert right.live == 0


def test_a_gateway_that_is_behind_keeps_copies_of_what_it_does_not_know_yet():
    wanted = Wanted()
    left, right = pair(wanted.put(OLD))
    replicated = served(left)
    replicate(left, right)
    wanted.without("old")
    newest = wanted.put(NEW)
    left.take(newest)
    segments = served(left)
    assert len(segments) == len(replicated)
    assert replicate(left, right) == 0
    right.wait(8)
    right.take(newest)
    assert right.live == len(segments)
    assert all(isinstance(right.one(*segment), Passed) for segment in segments)


def test_an_old_record_ends_no_connection_of_the_heir():
    wanted = Wanted()
    left, right = pair(wanted.put(OLD))
    served(left)
    replicate(left, right)
    newest = wanted.put(NEW, remove=("old",))
    right.take(newest)
    segments = served(right)
    left.take(wanted.without("new"))
    replicate(left, right)
    assert all(isinstance(right.one(*segment), Passed) for segment in segments)


def test_a_connection_by_mapping_goes_on_after_its_endpoint_gets_a_floating_ip():
    wanted = Wanted()
    gateway = ChangingGateway(wanted.put(vpc("one", 100, nat=NAT)))
    public, number = opened(gateway, A, FAR)
    for floating in (((FLOATING, A),), (), ((FLOATING, A),)):
        gateway.take(wanted.put(vpc("one", 100, nat=NAT, floating=floating)))
        assert read(gateway.one(tcp(A, 5000, FAR, 443, "PA", b"x"), 100).packet) == (public, number, FAR, 443)
        reply = gateway.one(tcp(FAR, 443, public, number, "PA", b"y"), 0, EXTERNAL_PORT)
        assert read(reply.packet) == (FAR, 443, A, 5000)
    assert read(gateway.one(tcp(A, 5001, FAR, 443), 100).packet)[0] == FLOATING


@pytest.mark.parametrize("nat", [NAT, ""])
def test_a_connection_by_floating_ip_is_reset_from_both_sides_after_that_was_made_again(nat):
    wanted = Wanted()
    bound = vpc("one", 100, nat=nat, floating=((FLOATING, A),))
    gateway = ChangingGateway(wanted.put(bound))
    assert opened(gateway, A, FAR) == (FLOATING, 5000)
    assert isinstance(gateway.one(tcp(FAR, 7000, FLOATING, OPEN), 0, EXTERNAL_PORT), Passed)
    gateway.take(wanted.put(vpc("one", 100, nat=nat)))
    gateway.take(wanted.put(bound))
    assert gateway.one(tcp(A, 5000, FAR, 443, "PA", b"x"), 100) == Punt.NO_STATE
    assert gateway.one(tcp(A, OPEN, FAR, 7000, "PA", b"x"), 100) == Punt.NO_STATE
    assert gateway.one(tcp(FAR, 7000, FLOATING, OPEN, "PA", b"x"), 0, EXTERNAL_PORT) == Punt.NO_STATE


def test_a_sender_is_reset_where_the_public_address_of_its_connection_is_another_one():
    wanted = Wanted()
    gateway = ChangingGateway(wanted.put(vpc("one", 100, nat=NAT, floating=((FLOATING, B),))))
    opened(gateway, A, FAR)
    opened(gateway, B, FAR)
    gateway.take(wanted.put(vpc("one", 100, nat="203.0.113.77", floating=(("203.0.113.21", B),))))
    for source in (A, B):
        assert gateway.one(tcp(source, 5000, FAR, 443, "PA", b"x"), 100) == Punt.NO_STATE


@pytest.mark.parametrize("protocol", [4, 47, 50, 132])
@pytest.mark.parametrize("is_public", [True, False])
def test_the_gateway_of_a_pair_with_the_public_addresses_translates_protocols_without_ports(protocol, is_public):
    for gateway in pair(Wanted().put(vpc("one", 100, nat=NAT))):
        gateway.tables = on_duty(gateway.tables, replace(ALONE, duty=Duty(public=is_public)), 2)
        fate = gateway.one(ipv4(A, FAR, protocol, bytes(16)), 100)
        assert isinstance(fate, Passed) == is_public
        assert is_public or fate == Drop.PORTS_EXHAUSTED
        back = gateway.one(ipv4(FAR, NAT, protocol, bytes(16)), 0, EXTERNAL_PORT)
        assert isinstance(back, Passed) == is_public


def test_a_connection_without_ports_continues_at_the_partner_and_its_endpoint_keeps_the_address():
    left, right = pair(Wanted().put(vpc("one", 100, nat=NAT)))
    assert isinstance(left.one(ipv4(A, FAR, 47, bytes(16)), 100), Passed)
    replicate(left, right)
    assert isinstance(right.one(ipv4(FAR, NAT, 47, bytes(16)), 0, EXTERNAL_PORT), Passed)
    assert isinstance(right.one(ipv4(A, FAR, 47, bytes(16)), 100), Passed)
    assert right.one(ipv4(B, FAR, 47, bytes(16)), 100) == Drop.PORTS_EXHAUSTED

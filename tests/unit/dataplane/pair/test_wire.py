"""Networks survive encoding as messages, whole or as updates; malformed text is refused with its field."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.dataplane.config import updates as changes
from heddle.dataplane.config.desired import Desired, for_host
from heddle.dataplane.config.network import NetworkConfig, Protocol
from heddle.dataplane.config.refusal import MAX_LINES, ConfigError
from heddle.dataplane.config.replica import Replica
from heddle.dataplane.config.updates import updates
from heddle.dataplane.config.wire import border_from, border_to, peering_from, peering_to, vpc_from, vpc_to
from heddle.foundation.network import Network
from heddle.v1 import heddle_pb2 as pb
from tests.property.gateway.networks import VTEPS, networks
from tests.support.examples import examples


@settings(max_examples=examples(60), deadline=None)
@given(networks())
def test_a_network_survives_encoding(network):
    for vpc in network.vpcs:
        rules = tuple(rule for rule in vpc.rules if (rule.port_min, rule.port_max) != (0, 0))  # 0 and 0 are all ports
        vpc = replace(vpc, rules=rules)
        assert vpc_from(pb.Vpc.FromString(vpc_to(vpc).SerializeToString())) == vpc
    border = tuple(rule for rule in network.border if (rule.port_min, rule.port_max) != (0, 0))
    assert border_from(border_to(border)) == border
    assert all(peering_from(peering_to(peering)) == peering for peering in network.peerings)


def test_omitted_fields_have_the_contracts_default():
    rule = pb.SecurityRule(allow=True, direction="in", remote_cidr="0.0.0.0/0")
    vpc = vpc_from(pb.Vpc(id="a", vni=1, security_rules=[rule]))
    assert (vpc.realm, vpc.nat) == (Network.BUSINESS, None)
    assert (vpc.rules[0].protocol, vpc.rules[0].port_min, vpc.rules[0].port_max) == (Protocol.ANY, 0, 65_535)


def test_the_order_of_a_peerings_vpcs_does_not_matter():
    assert peering_from(pb.Peering(vpc_a="b", vpc_b="a")) == peering_from(pb.Peering(vpc_a="a", vpc_b="b"))


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"subnets": [pb.Subnet(cidr="10.0.0.1/24", gateway_ip="10.0.0.1")]},
            "subnets[0].cidr: '10.0.0.1/24' has bits set",
        ),
        ({"subnets": [pb.Subnet(cidr="10.0.0.0", gateway_ip="10.0.0.1")]}, "subnets[0].cidr: '10.0.0.0' is no prefix"),
        ({"subnets": [pb.Subnet(cidr="10.0.0.0/24")]}, "subnets[0].gateway_ip: '' is no IP address"),
        ({"endpoints": [pb.Endpoint(ip="x", mac="02:00:00:00:00:01", vtep_ip="192.0.2.1")]}, "endpoints[0].ip: 'x'"),
        ({"endpoints": [pb.Endpoint(ip="fe80::1%x", mac="02:00:00:00:00:01", vtep_ip="192.0.2.1")]}, "has a zone"),
        (
            {"endpoints": [pb.Endpoint(ip="10.0.0.1", mac="2:0:0:0:0:1", vtep_ip="192.0.2.1")]},
            "endpoints[0].mac: '2:0:0:0:0:1'",
        ),
        ({"endpoints": [pb.Endpoint(ip="10.0.0.1", mac="02:00:00:00:00:01")]}, "endpoints[0].vtep_ip: ''"),
        (
            {"endpoints": [pb.Endpoint(ip="10.0.0.1", mac="02:00:00:00:00:01", vtep_ip="::1")]},
            "'::1' is no IPv4 address",
        ),
        ({"nat": pb.NatGateway()}, "nat.public_ip: ''"),
        ({"network": "lab"}, "network: 'lab' is none of compute, storage, business, management"),
        (
            {"security_rules": [pb.SecurityRule(remote_cidr="::/0")]},
            "security_rules[0].direction: '' is none of in, out",
        ),
        (
            {"security_rules": [pb.SecurityRule(remote_cidr="::/0", direction="in", protocol="sctp")]},
            "protocol: 'sctp' is none of any, icmp, tcp, udp",
        ),
        ({"network": "\n" * 500}, "network: '"),
    ],
)
def test_malformed_text_is_refused_with_its_field(fields, line):
    with pytest.raises(ConfigError) as caught:
        vpc_from(pb.Vpc(id="blue", vni=1, **fields))
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith("vpc blue: ")
    assert line in caught.value.problems[0]
    assert "\n" not in caught.value.problems[0]
    assert len(caught.value.problems[0]) < 200


def test_many_problems_are_reported_in_a_bounded_number_of_lines():
    with pytest.raises(ConfigError) as caught:
        vpc_from(pb.Vpc(id="blue", vni=1, endpoints=[pb.Endpoint()] * 1000))
    assert len(caught.value.problems) == MAX_LINES + 1
    assert caught.value.problems[-1] == f"and {3000 - MAX_LINES} more problems"


def normal(network):
    """Ports 0 to 0 have no form on the wire."""

    def kept(rules):
        return tuple(rule for rule in rules if (rule.port_min, rule.port_max) != (0, 0))

    vpcs = tuple(replace(vpc, rules=kept(vpc.rules)) for vpc in network.vpcs)
    return replace(network, vpcs=vpcs, border=kept(network.border))


def same(one, other):
    assert one.gateways == other.gateways
    assert set(one.network.vpcs) == set(other.network.vpcs)
    assert replace(one.network, vpcs=()) == replace(other.network, vpcs=())


@st.composite
def histories(draw):
    gateways = st.dictionaries(st.sampled_from(["g1", "g2"]), st.sampled_from(VTEPS), max_size=2)
    found = []
    for generation in range(1, 1 + draw(st.integers(1, 4))):
        network = normal(draw(networks(most=3)))
        found.append(Desired(network=replace(network, generation=generation), gateways=draw(gateways)))
    return found


@settings(max_examples=examples(60), deadline=None)
@given(histories(), st.sampled_from([1, 200, 1 << 20]))
def test_a_replica_that_applies_every_message_has_the_senders_state(history, size):
    before, replica, whole = None, Replica(), changes.MAX_UPDATE_BYTES
    changes.MAX_UPDATE_BYTES = size
    try:
        for state in history:
            messages = [pb.NetworkUpdate.FromString(m.SerializeToString()) for m in updates(before, state)]
            assert [message.more for message in messages] == [True] * (len(messages) - 1) + [False]
            states = [replica.apply(message) for message in messages]
            assert states[:-1] == [None] * (len(states) - 1)
            same(states[-1], state)
            before = state
    finally:
        changes.MAX_UPDATE_BYTES = whole


def test_a_change_before_the_whole_is_refused():
    with pytest.raises(ConfigError):
        Replica().apply(pb.NetworkUpdate(generation=1))


def test_a_refused_update_leaves_the_state_unchanged():
    replica = Replica()
    before = replica.apply(next(updates(None, Desired(network=NetworkConfig(generation=3)))))
    broken = pb.NetworkUpdate(generation=4, border=pb.Border(rules=[pb.BorderRule(vpc="a", network="x")]))
    with pytest.raises(ConfigError):
        replica.apply(broken)
    assert replica.desired == before
    for generation in (4, 5):  # the rest of the same one, or changes of it
        with pytest.raises(ConfigError, match="attach anew"):
            replica.apply(pb.NetworkUpdate(generation=generation))
    whole = Desired(network=NetworkConfig(generation=6))
    assert replica.apply(next(updates(None, whole))) == whole


@settings(max_examples=examples(40), deadline=None)
@given(networks(), st.sampled_from(VTEPS))
def test_a_host_gets_only_the_vpcs_with_an_endpoint_on_it(network, vtep):
    serves = {vpc.id: frozenset(endpoint.vtep for endpoint in vpc.endpoints) for vpc in network.vpcs}
    part = for_host(Desired(network=network, gateways={"g": IPv4Address("192.0.2.9")}), vtep, serves)
    assert [vpc.id for vpc in part.network.vpcs] == [v.id for v in network.vpcs if vtep in serves[v.id]]
    assert (part.network.peerings, part.network.border) == (frozenset(), ())

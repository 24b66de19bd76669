"""Invalid virtual networks are refused with one line per problem, which names the object and the field."""

import re
from dataclasses import replace
from ipaddress import IPv4Address, ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.dataplane.config import limit
from heddle.dataplane.config.check import floating_problems, overlaps, vpc_problems
from heddle.dataplane.config.check_change import NetworkChange, Whole, change_problems, changed, network_problems
from heddle.dataplane.config.network import (
    BorderRule,
    DirectConnect,
    Direction,
    Endpoint,
    FloatingIp,
    NetworkConfig,
    Peering,
    SecurityRule,
    Subnet,
    Vpc,
)
from heddle.foundation.network import Network
from tests.property.gateway.networks import networks, prefixes_of
from tests.support.examples import examples

VTEP = IPv4Address("192.0.2.1")


def endpoint(ip="10.0.0.5", mac=0x0200_0000_0005, vtep=VTEP):
    return Endpoint(ip=ip_address(ip), mac=mac, vtep=vtep)


def subnet(cidr="10.0.0.0/24", gateway="10.0.0.1"):
    return Subnet(prefix=ip_network(cidr), gateway=ip_address(gateway))


def connect(vlan=7, cidr="172.30.0.0/16", next_hop="192.168.9.1"):
    return DirectConnect(vlan=vlan, customer=ip_network(cidr), next_hop=ip_address(next_hop))


def floating(public="203.0.113.5", ip="10.0.0.5"):
    return FloatingIp(public=IPv4Address(public), endpoint=IPv4Address(ip))


def rule(cidr="0.0.0.0/0", low=0, high=65_535):
    return SecurityRule(allow=True, direction=Direction.IN, remote=ip_network(cidr), port_min=low, port_max=high)


def vpc(name="blue", vni=5, **fields):
    return Vpc(**{"id": name, "vni": vni, "subnets": (subnet(),), "endpoints": (endpoint(),), **fields})


ALONE = [
    ({"vni": 0}, "vni: 0 is not within 1 to 16777215"),
    ({"vni": 1 << 24}, "vni: 16777216 is not within"),
    ({"tenant": "x" * 129}, "tenant: longer than 128"),
    ({"endpoints": (endpoint("10.0.1.5"),)}, r"endpoints\[0\].ip: 10.0.1.5 is in no subnet"),
    ({"endpoints": (endpoint("fd00::5"),)}, r"endpoints\[0\].ip: fd00::5 is in no subnet"),
    ({"endpoints": (endpoint("10.0.0.1"),)}, r"endpoints\[0\].ip: 10.0.0.1 is a gateway's address"),
    ({"endpoints": (endpoint("10.0.0.255"),)}, "network's or broadcast address of 10.0.0.0/24"),
    ({"endpoints": (endpoint(), endpoint(mac=6))}, r"endpoints\[1\].ip: 10.0.0.5 is endpoints\[0\]'s already"),
    (
        {"endpoints": (endpoint(), endpoint("10.0.0.6", vtep=IPv4Address("192.0.2.2")))},
        r"endpoints\[1\].mac: 02:00:00:00:00:05 is endpoints\[0\]'s already, behind another VTEP",
    ),
    ({"endpoints": (endpoint(mac=0x0100_0000_0005),)}, "01:00:00:00:00:05 is no unicast MAC"),
    ({"endpoints": (endpoint(mac=0),)}, "00:00:00:00:00:00 is no unicast MAC"),
    ({"endpoints": (endpoint(mac=0x0248_0000_0005),)}, "02:48:00:00:00:05 is the MAC of the VPC's gateways"),
    ({"endpoints": (endpoint(vtep=IPv4Address("192.0.2.9")),)}, r"endpoints\[0\].vtep_ip: 192.0.2.9 is no VTEP"),
    (
        {"subnets": (subnet(), subnet("10.0.0.128/25", "10.0.0.129"))},
        r"subnets\[1\].cidr: 10.0.0.128/25 overlaps subnets\[0\]",
    ),
    ({"subnets": (subnet(gateway="10.0.1.1"),)}, r"subnets\[0\].gateway_ip: 10.0.1.1 is not in 10.0.0.0/24"),
    ({"subnets": (subnet(gateway="10.0.0.0"),)}, r"subnets\[0\].gateway_ip: 10.0.0.0 is the network's"),
    ({"subnets": (subnet(), subnet("fe80::/64", "fe80::1"))}, r"subnets\[1\].cidr: fe80::/64 is not for endpoints"),
    ({"subnets": (subnet(), subnet("::ffff:10.1.0.0/112", "::ffff:10.1.0.1"))}, "is not for endpoints"),
    ({"rules": (rule(low=9, high=8),)}, r"security_rules\[0\].port_min: 9 to 8 is no range"),
    ({"rules": (rule(high=65_536),)}, "0 to 65536 is no range"),
    ({"rules": (rule("::ffff:10.0.0.0/104"),)}, r"security_rules\[0\].remote_cidr: .* IPv4 in IPv6's form"),
    ({"direct_connects": (connect(vlan=0),)}, r"direct_connects\[0\].vlan: 0 is not within 1 to 4094"),
    ({"direct_connects": (connect(vlan=4095),)}, "4095 is not within"),
    (
        {"direct_connects": (connect(), connect(cidr="172.31.0.0/16"))},
        r"direct_connects\[1\].vlan: 7 is direct_connects\[0\]",
    ),
    (
        {"direct_connects": (connect(cidr="10.0.0.0/8"),)},
        r"direct_connects\[0\].customer_cidr: 10.0.0.0/8 overlaps subnets\[0\]",
    ),
    ({"direct_connects": (connect(cidr="fd00::/16"),)}, r"direct_connects\[0\].next_hop_ip: .* not of the family"),
    (
        {"direct_connects": (connect(), connect(8, "172.30.1.0/24"))},
        r"direct_connects\[1\].customer_cidr: .* overlaps direct",
    ),
    ({"floating_ips": (floating(),), "nat": IPv4Address("203.0.113.5")}, "203.0.113.5 is nat.public_ip's already"),
    (
        {"floating_ips": (floating(), floating("203.0.113.6"))},
        r"floating_ips\[1\].endpoint_ip: 10.0.0.5 is floating_ips\[0\]",
    ),
    ({"nat": IPv4Address("224.0.0.1")}, "nat.public_ip: 224.0.0.1 is no address of a host"),
    ({"nat": IPv4Address("10.0.0.77")}, "nat.public_ip: 10.0.0.77 is in 10.0.0.0/24, a subnet of the VPC itself"),
    ({"floating_ips": (floating("10.0.0.5"),)}, r"floating_ips\[0\].public_ip: 10.0.0.5 is in 10.0.0.0/24, a subnet"),
    ({"floating_ips": (floating("192.0.2.2"),)}, r"floating_ips\[0\].public_ip: 192.0.2.2 is a VTEP's"),
    ({"nat": VTEP}, "nat.public_ip: 192.0.2.1 is a VTEP's"),
    ({"subnets": (subnet(),) * 257}, "subnets: 257; at most 256"),
]


def test_unknown_vteps_are_one_line_with_the_remedy():
    strange = [
        endpoint(f"10.0.0.{host}", mac=host, vtep=IPv4Address(f"198.51.100.{host % 8}")) for host in range(10, 30)
    ]
    (line,) = vpc_problems(vpc(endpoints=(endpoint(), *strange)), {VTEP}.__contains__)
    assert line.startswith("vpc blue: endpoints[1].vtep_ip: 198.51.100.2 is no VTEP that this controller knows")
    assert "nor are 198.51.100.3, " in line
    assert " and 2 more (20 endpoints)" in line
    assert "vteps" in line
    assert "--server" in line


def test_an_address_that_is_not_unicast_is_no_vtep():
    strange = endpoint(vtep=IPv4Address("224.0.0.1"))
    (line,) = vpc_problems(vpc(endpoints=(strange,)))
    assert line == "vpc blue: endpoints[0].vtep_ip: 224.0.0.1 is no VTEP: no host has such an address"


@pytest.mark.parametrize(("fields", "words"), ALONE)
def test_an_invalid_vpc_is_refused_in_one_line(fields, words):
    lines = list(vpc_problems(vpc(**fields), {VTEP, IPv4Address("192.0.2.2")}.__contains__))
    assert len(lines) == 1
    assert re.search("^vpc blue: .*" + words, lines[0])


def test_a_floating_ip_leads_to_an_endpoint_or_a_virtual_ip():
    wanted = vpc(floating_ips=(floating(), floating("203.0.113.6", "10.0.0.6")))
    (line,) = floating_problems(wanted)
    assert line == "vpc blue: floating_ips[1].endpoint_ip: 10.0.0.6 is no endpoint and no virtual IP of the VPC"
    assert list(floating_problems(wanted, {IPv4Address("10.0.0.6")})) == []


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 129, "a\n"])
def test_a_malformed_id_is_refused(name):
    assert any("id: must be" in line and "\n" not in line for line in vpc_problems(vpc(name)))


def test_an_interface_may_have_several_addresses_behind_one_vtep():
    fields = {"subnets": (subnet(), subnet("fd00::/64", "fd00::1")), "endpoints": (endpoint(), endpoint("fd00::5"))}
    assert list(vpc_problems(vpc(**fields))) == []


def beside_problems(wanted, network):
    return after(network, vpcs=(wanted,))


def peering_problems(wanted, network):
    return after(network, peerings=frozenset({wanted}))


def after(network, **objects):
    """Return the problems of a network with these objects beside its own, or in their place."""
    there = changed(Whole(), NetworkChange(vpcs=network.vpcs, peerings=network.peerings))
    change = NetworkChange(**objects)
    return list(change_problems(there, change, changed(there, change)))


BESIDE = [
    ({}, {"name": "red"}, "vni: 5 is used by vpc blue already"),
    (
        {"direct_connects": (connect(),)},
        {"direct_connects": (connect(),)},
        r"direct_connects[0].vlan: 7 is used by vpc blue",
    ),
    (
        {"floating_ips": (floating(),)},
        {"floating_ips": (floating(),)},
        "floating_ips[0].public_ip: 203.0.113.5 is used",
    ),
    ({"floating_ips": (floating(),)}, {"nat": IPv4Address("203.0.113.5")}, "nat.public_ip: 203.0.113.5 is used"),
    ({"nat": IPv4Address("203.0.113.5")}, {"floating_ips": (floating(),)}, "public_ip: 203.0.113.5 is used"),
]


@pytest.mark.parametrize(("there", "new", "words"), BESIDE)
def test_a_global_resource_has_one_owner(there, new, words):
    late = vpc(**{"name": "red", "vni": 6 if new != {"name": "red"} else 5, **new})
    (line,) = beside_problems(late, NetworkConfig(vpcs=(vpc(**there),)))
    assert line.startswith("vpc red: ")
    assert words in line


def test_a_nat_address_may_serve_several_vpcs():
    shared = IPv4Address("203.0.113.5")
    assert list(beside_problems(vpc("red", 6, nat=shared), NetworkConfig(vpcs=(vpc(nat=shared),)))) == []


def test_a_vpc_may_be_replaced_and_may_use_addresses_of_others():
    network = NetworkConfig(vpcs=(vpc(), vpc("red", 6)))
    assert list(beside_problems(vpc(tenant="new"), network)) == []


def other(name, vni, cidr, **fields):
    gateway = str(ip_network(cidr)[1])
    return vpc(name, vni, subnets=(subnet(cidr, gateway),), endpoints=(), **fields)


def test_peers_with_a_common_address_are_refused():
    network = NetworkConfig(vpcs=(vpc(), other("red", 6, "10.0.0.128/25")))
    lines = list(peering_problems(Peering(a="blue", b="red"), network))
    assert lines
    assert all(
        "peering blue with red: " in line and "10.0.0.128/25" in line and "10.0.0.0/24" in line for line in lines
    )


def test_two_peers_of_one_vpc_with_a_common_address_are_refused():
    network = NetworkConfig(
        vpcs=(vpc(), other("red", 6, "10.1.0.0/16"), other("green", 7, "10.1.2.0/24")),
        peerings=frozenset({Peering(a="blue", b="red")}),
    )
    (line,) = peering_problems(Peering(a="blue", b="green"), network)
    assert "10.1.2.0/24" in line
    assert "blue reaches both" in line


def test_a_customers_network_counts_in_a_peering():
    network = NetworkConfig(vpcs=(vpc(direct_connects=(connect(),)), other("red", 6, "172.30.9.0/24")))
    assert any("direct_connects[0]" in line for line in peering_problems(Peering(a="blue", b="red"), network))


def test_a_change_of_a_peered_vpc_is_checked_against_its_peers():
    network = NetworkConfig(
        vpcs=(vpc(), other("red", 6, "10.1.0.0/16")), peerings=frozenset({Peering(a="blue", b="red")})
    )
    assert list(beside_problems(other("red", 6, "10.2.0.0/16"), network)) == []
    assert any("overlaps" in line for line in beside_problems(other("red", 6, "10.0.0.0/16"), network))


@pytest.mark.parametrize(
    ("peering", "words"),
    [
        (Peering(a="blue", b="absent"), "vpc_b: there is no vpc 'absent'"),
        (Peering(a="", b="blue"), "vpc_a: there is no vpc ''"),
        (Peering(a="blue", b="blue"), "a VPC is not its own peer"),
        (Peering(a="blue", b="store"), "only a border rule opens a path"),
    ],
)
def test_an_invalid_peering_is_refused(peering, words):
    network = NetworkConfig(vpcs=(vpc(), other("store", 6, "10.1.0.0/16", realm=Network.STORAGE)))
    assert any(words in line for line in peering_problems(peering, network))


def test_a_border_rule_for_an_unknown_vpc_is_refused():
    unknown = BorderRule(allow=True, vpc="absent", realm=Network.STORAGE, remote=ip_network("10.9.0.0/16"))
    (line,) = network_problems(NetworkConfig(vpcs=(vpc(),), border=(replace(unknown, vpc="*"), unknown)))
    assert line == "border: rules[1].vpc: there is no vpc 'absent'; '*' is for all"


def test_more_peerings_than_a_vpc_may_have_are_refused():
    vpcs = [vpc("hub", 1)] + [other(f"v{i}", 2 + i, f"10.1.{i}.0/24") for i in range(limit.MAX_PEERINGS_OF_A_VPC + 1)]
    peerings = frozenset(Peering(a="hub", b=each.id) for each in vpcs[1:])
    lines = list(network_problems(NetworkConfig(vpcs=tuple(vpcs), peerings=peerings)))
    assert len(lines) == 1
    assert "hub has 128 peerings already" in lines[0]


@settings(max_examples=examples(60), deadline=None)
@given(networks())
def test_sound_networks_have_no_problems(network):
    assert list(network_problems(network)) == []


@settings(max_examples=examples(100), deadline=None)
@given(st.data(), networks())
def test_a_peering_is_refused_exactly_if_an_address_becomes_ambiguous(data, network):
    if len(network.vpcs) < 2:
        return
    a, b = data.draw(st.lists(st.sampled_from(network.vpcs), min_size=2, max_size=2, unique=True))
    peers = {each.id: {each.id} for each in network.vpcs}
    for p in [*network.peerings, Peering(a=a.id, b=b.id)]:
        peers[p.a].add(p.b)
        peers[p.b].add(p.a)
    clash = a.realm is not b.realm
    for centre in (a, b):
        ring = [each for each in network.vpcs if each.id in peers[centre.id]]
        clash |= any(
            one.version == two.version and one.overlaps(two)
            for i, each in enumerate(ring)
            for later in ring[i + 1 :]
            for one in prefixes_of(each)
            for two in prefixes_of(later)
        )
    wanted = Peering(a=min(a.id, b.id), b=max(a.id, b.id))
    assert bool(list(peering_problems(wanted, network))) == clash


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 4)), max_size=8))
def test_overlaps_are_those_found_by_comparing_every_pair(places):
    prefixes = [
        ip_network((0x0A00_0000 + (place >> (4 - length) << (4 - length)) * 16, 24 + length), strict=True)
        for place, length in places
    ]
    found = list(overlaps([(prefix, str(i)) for i, prefix in enumerate(prefixes)]))
    pairs = {frozenset((i, j)) for i, one in enumerate(prefixes) for j in range(i) if one.overlaps(prefixes[j])}
    assert {frozenset(map(int, pair)) for pair in found} <= pairs
    assert {i for pair in pairs for i in pair} == {int(i) for pair in found for i in pair}

"""A change of virtual networks is judged by what it leads to: what two VPCs swap is no conflict, in any order."""

from dataclasses import replace
from ipaddress import IPv4Address, ip_network

import pytest

from heddle.dataplane.config.balancers import BackEnd, LoadBalancer
from heddle.dataplane.config.check_change import (
    EVERYTHING,
    NetworkChange,
    View,
    Whole,
    change_problems,
    changed,
    named_twice,
    network_problems,
)
from heddle.dataplane.config.network import (
    BorderRule,
    DirectConnect,
    Endpoint,
    FloatingIp,
    NetworkConfig,
    Peering,
    Subnet,
    Vpc,
)
from heddle.foundation.network import Network

VTEP = IPv4Address("192.0.2.3")
SHARED = IPv4Address("203.0.113.40")


def vpc(name, number, **fields):
    prefix = ip_network(f"10.{number}.0.0/16")
    return Vpc(
        **{
            "id": name,
            "vni": number,
            "subnets": (Subnet(prefix=prefix, gateway=prefix[1]),),
            "endpoints": (Endpoint(ip=prefix[7], mac=0x0200_0000_0007, vtep=VTEP),),
            "floating_ips": (
                FloatingIp(public=IPv4Address(f"203.0.113.{number}"), endpoint=IPv4Address(f"10.{number}.0.7")),
            ),
            "direct_connects": (
                DirectConnect(vlan=100 + number, customer=ip_network(f"172.{number}.0.0/16"), next_hop=prefix[9]),
            ),
            **fields,
        }
    )


def web(of, name="web", **fields):
    prefix = of.subnets[0].prefix
    ends = (BackEnd(ip=prefix[7], port=443),)
    return LoadBalancer(**{"id": name, "vpc": of.id, "vip": prefix[80], "port": 443, "back_ends": ends, **fields})


NORTH, SOUTH, EAST = vpc("north", 21), vpc("south", 22), vpc("east", 23)


def state(*vpcs, **objects):
    return changed(Whole(), NetworkChange(vpcs=vpcs, **objects))


def problems(there, view=EVERYTHING, **objects):
    change = NetworkChange(**objects)
    return list(change_problems(there, change, changed(there, change, view), view))


@pytest.mark.parametrize("field", ["vni", "direct_connects", "floating_ips", "subnets"])
@pytest.mark.parametrize("reverse", [False, True])
def test_two_vpcs_swap_what_only_one_may_have(field, reverse):
    fields = {field} | ({"subnets", "endpoints", "direct_connects", "floating_ips"} if field == "subnets" else set())
    if field == "floating_ips":
        fields |= {"subnets", "endpoints", "direct_connects"}
    north = replace(NORTH, **{name: getattr(SOUTH, name) for name in fields})
    south = replace(SOUTH, **{name: getattr(NORTH, name) for name in fields})
    there = state(NORTH, SOUTH, EAST, peerings=frozenset({Peering(a="north", b="south")}))
    both = (south, north) if reverse else (north, south)
    assert problems(there, vpcs=both) == []
    after = changed(there, NetworkChange(vpcs=both))
    assert after.claims == state(north, south, EAST).claims
    assert problems(there, vpcs=both[:1])


def test_an_address_moves_from_nat_to_a_floating_ip_of_another_vpc():
    north, south = vpc("north", 21, nat=SHARED), vpc("south", 22, nat=SHARED)
    floating = (FloatingIp(public=SHARED, endpoint=IPv4Address("10.23.0.7")),)
    east = replace(EAST, floating_ips=floating)
    there = state(north, south, EAST)
    assert problems(there, vpcs=(east, NORTH, SOUTH)) == []
    assert problems(there, vpcs=(east, NORTH)) == [
        "vpc east: floating_ips[0].public_ip: 203.0.113.40 is used by vpc south already"
    ]
    assert changed(there, NetworkChange(vpcs=(NORTH,))).claims["nat", int(SHARED)] == "south"


def test_a_virtual_ip_its_back_ends_and_its_floating_ip_come_and_move_together():
    floating = (FloatingIp(public=SHARED, endpoint=IPv4Address("10.21.0.80")),)
    north = replace(NORTH, floating_ips=floating)
    assert problems(Whole(), vpcs=(north,), load_balancers=(web(north),)) == []
    there = state(north, SOUTH, load_balancers=(web(north),))
    moved = replace(web(SOUTH), id="web")
    assert problems(there, vpcs=(NORTH,), load_balancers=(moved,)) == []
    assert problems(there, load_balancers=(moved,)) == [
        "vpc north: floating_ips[0].endpoint_ip: 10.21.0.80 is no endpoint and no virtual IP of the VPC"
    ]


def test_two_load_balancers_swap_their_ports():
    one, two = web(NORTH), web(NORTH, "dns", vip=IPv4Address("10.21.0.81"))
    there = state(NORTH, load_balancers=(one, two))
    swapped = replace(one, vip=two.vip), replace(two, vip=one.vip)
    assert problems(there, load_balancers=swapped) == []
    assert problems(there, load_balancers=swapped[:1]) == [
        "load balancer web: vip: 10.21.0.81 port 443 of vpc north is served by dns already"
    ]


def test_an_endpoint_that_a_load_balancer_needs_is_not_taken_away():
    there = state(NORTH, load_balancers=(web(NORTH),))
    assert problems(there, vpcs=(replace(NORTH, endpoints=(), floating_ips=()),)) == [
        "vpc north: load balancer web: backends[0].ip: 10.21.0.7 is no endpoint of north"
    ]


def test_a_mistyped_vpc_in_one_peering_is_named_and_the_others_are_judged():
    peerings = frozenset({Peering(a="east", b="north"), Peering(a="north", b="suoth"), Peering(a="", b="north")})
    assert problems(state(NORTH, EAST), peerings=peerings) == [
        "peering  with north: vpc_a: there is no vpc ''",
        "peering north with suoth: vpc_b: there is no vpc 'suoth'",
    ]
    network = NetworkConfig(vpcs=(NORTH, EAST), peerings=peerings | {Peering(a="east", b="suoth")})
    assert len(list(network_problems(network))) == 3


def test_objects_beyond_the_file_count():
    overlapping = replace(EAST, subnets=NORTH.subnets, endpoints=NORTH.endpoints, floating_ips=(), direct_connects=())
    there = state(NORTH, SOUTH, peerings=frozenset({Peering(a="north", b="south")}), load_balancers=(web(NORTH),))
    assert problems(there, peerings=frozenset({Peering(a="north", b="south")})) == []
    found = problems(there, vpcs=(overlapping,), peerings=frozenset({Peering(a="east", b="south")}))
    assert found
    assert all(line.startswith("peering east with south: ") for line in found)
    rule = BorderRule(allow=True, vpc="north", realm=Network.STORAGE, remote=ip_network("10.9.0.0/16"))
    assert problems(there, border=(rule,)) == []
    assert problems(there, border=(replace(rule, vpc="nort"),)) == [
        "border: rules[0].vpc: there is no vpc 'nort'; '*' is for all"
    ]


def test_a_changed_vpc_may_not_overlap_another_peer_of_its_peer():
    both = frozenset({Peering(a="east", b="north"), Peering(a="east", b="south")})
    there = state(NORTH, SOUTH, EAST, peerings=both)
    prefix = ip_network("10.22.128.0/17")
    into_south = replace(NORTH, subnets=(Subnet(prefix=prefix, gateway=prefix[1]),), endpoints=(), floating_ips=())
    assert problems(there, vpcs=(into_south,)) == [
        "vpc north: north subnets[0].cidr: 10.22.128.0/17 overlaps south subnets[0].cidr: 10.22.0.0/16, "
        "and east reaches both"
    ]


def test_what_a_file_names_twice_is_refused():
    twice = NetworkChange(vpcs=(NORTH, SOUTH, NORTH, NORTH), load_balancers=(web(NORTH), web(NORTH)))
    assert list(named_twice(twice)) == ["vpc north: id: used twice", "load balancer web: id: used twice"]
    assert "vpc north: id: used twice" in list(network_problems(NetworkConfig(vpcs=(NORTH, NORTH))))


def test_hidden_vpcs_are_as_if_they_did_not_exist():
    hidden = View(hidden={"south"})
    overlapping = replace(NORTH, subnets=SOUTH.subnets, endpoints=SOUTH.endpoints, floating_ips=(), direct_connects=())
    theirs, absent = (
        problems(state(NORTH, SOUTH), hidden, vpcs=(overlapping,), peerings=frozenset({Peering(a="north", b=name)}))
        for name in ("south", "sxuth")
    )
    assert [line.replace("south", "sxuth") for line in theirs] == absent
    theirs, absent = (
        problems(state(NORTH, SOUTH), hidden, load_balancers=(web(SOUTH, vpc=name),)) for name in ("south", "sxuth")
    )
    assert [line.replace("south", "sxuth") for line in theirs] == absent

"""What cannot be served of one VPC harms that one alone; what a controller does not know stays in force."""

from dataclasses import replace
from ipaddress import IPv4Address, ip_network

import pytest

from heddle.dataplane.config.acceptance.accept import ABSENT, KEPT, REDUCED, accepted
from heddle.dataplane.config.acceptance.accept_services import accepted_services
from heddle.dataplane.config.balancers import BackEnd, BalancerConfig, LoadBalancer, VirtualIp
from heddle.dataplane.config.desired import Desired
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
from heddle.dataplane.config.replica import Replica
from heddle.dataplane.config.updates import updates
from heddle.foundation.network import Network
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.gateway.accepting_site import RESERVED, ROUTER

STORAGE = BorderRule(allow=True, vpc="old", realm=Network.STORAGE, remote=ip_network("172.31.0.0/24"))


def vpc(name, vni, third=None, **more):
    prefix = ip_network(f"10.{vni if third is None else third}.0.0/24")
    ends = (Endpoint(ip=prefix[5], mac=0x0200_0000_0005, vtep=IPv4Address("192.0.2.1")),)
    return Vpc(id=name, vni=vni, subnets=(Subnet(prefix=prefix, gateway=prefix[1]),), endpoints=ends, **more)


def address(last):
    return IPv4Address(f"203.0.113.{last}")


def floating(last, of):
    return (FloatingIp(public=address(last), endpoint=of.endpoints[0].ip),)


def wanted(*vpcs, peerings=(), **more):
    return Desired(network=NetworkConfig(generation=9, vpcs=vpcs, peerings=frozenset(peerings)), **more)


def served(*vpcs, peerings=()):
    return NetworkConfig(generation=8, vpcs=vpcs, peerings=frozenset(peerings))


BAD = vpc("blue", 1, nat=ROUTER)


def test_a_vpc_that_cannot_be_served_stays_as_it_is_and_others_are_served_as_wanted():
    before, green = vpc("blue", 1, nat=address(10)), vpc("green", 2)
    found = accepted(wanted(BAD, replace(green, nat=address(11))), served(before, green), (), RESERVED)
    assert found.network.vpcs == (before, replace(green, nat=address(11)))
    assert found.network.generation == 9
    assert found.kept == {
        "blue": f"{KEPT}: nat.public_ip: {ROUTER} is the router of gateway gw on x0; "
        "choose an address that nothing else has"
    }


def test_without_a_state_of_before_a_vpc_is_served_without_its_wrong_addresses():
    whole = replace(BAD, floating_ips=floating(12, BAD))
    found = accepted(wanted(whole), NetworkConfig(), (), RESERVED)
    assert found.network.vpcs == (replace(whole, nat=None),)
    again = accepted(wanted(whole), found.network, (), RESERVED)
    assert again == found
    assert found.kept["blue"].startswith(REDUCED)


def test_what_others_have_by_now_is_not_served_of_an_earlier_state():
    customer = DirectConnect(vlan=7, customer=ip_network("172.16.0.0/16"), next_hop=IPv4Address("172.16.0.1"))
    before = replace(vpc("blue", 1, nat=address(10), direct_connects=(customer,)), floating_ips=floating(12, BAD))
    green = vpc("green", 2)
    takes = replace(green, floating_ips=floating(10, green), direct_connects=(customer,), nat=address(12))
    found = accepted(wanted(BAD, takes), served(before, green), (), RESERVED)
    assert found.network.vpcs == (replace(before, nat=None, floating_ips=(), direct_connects=()), takes)


def test_a_vni_that_another_has_by_now_leaves_the_new_state_without_what_is_wrong():
    found = accepted(wanted(replace(BAD, vni=3), vpc("green", 1)), served(vpc("blue", 1)), (), RESERVED)
    assert found.network.vpcs == (replace(BAD, vni=3, nat=None), vpc("green", 1))
    assert accepted(wanted(BAD, vpc("green", 1)), served(), (), RESERVED).kept["blue"].startswith(ABSENT)


def test_a_peering_stays_unless_an_address_would_mean_two_things():
    pairs = [Peering(a="blue", b="green"), Peering(a="green", b="red")]
    green, red = vpc("green", 2), vpc("red", 3, third=1)  # red has the subnet that blue had before
    before = vpc("blue", 1)
    moved = vpc("blue", 1, third=9, nat=ROUTER)
    assert accepted(wanted(BAD, green, peerings=pairs[:1]), served(before), (), RESERVED).network.peerings == {pairs[0]}
    found = accepted(wanted(moved, green, red, peerings=pairs), served(before, green), (), RESERVED)
    assert found.network.peerings == {pairs[1]}


def test_virtual_ips_are_those_of_the_state_that_is_served():
    new, old = (VirtualIp(vpc="blue", ip=IPv4Address(f"10.1.0.{n}"), vteps=()) for n in (8, 9))
    assert accepted(wanted(BAD, virtual_ips=(new,)), served(vpc("blue", 1)), (old,), RESERVED).virtual_ips == (old,)
    assert accepted(wanted(BAD, virtual_ips=(new,)), served(), (), RESERVED).virtual_ips == (new,)


def balancer(name, of, **more):
    ends = (BackEnd(ip=of.endpoints[0].ip, port=80),)
    return LoadBalancer(
        **{"id": name, "vpc": of.id, "vip": of.subnets[0].prefix[9], "port": 80, "back_ends": ends, **more}
    )


def test_a_wrong_load_balancer_harms_its_own_vpc_alone():
    blue, green = vpc("blue", 1), vpc("green", 2)
    bad = balancer("b", blue, vip=blue.endpoints[0].ip)
    before = BalancerConfig(network=served(blue), balancers=(balancer("b", blue),))
    after = BalancerConfig(network=wanted(blue, green).network, balancers=(bad, balancer("g", green)))
    found = accepted_services(after, before)
    assert {each.id: each for each in found.services.balancers} == {"b": before.balancers[0], "g": after.balancers[1]}
    assert list(found.kept) == ["blue"]
    assert accepted_services(after, BalancerConfig()).services.balancers == after.balancers[1:]


def sent(replica, before, after):
    """Send the difference between two states to a replica; return its state."""
    for message in updates(before, after):
        found = replica.apply(pb.NetworkUpdate.FromString(message.SerializeToString()))
    return found


def applied(replica, message):
    found = replica.apply(message)
    assert found is not None
    return found


def undecodable(vpc_id="blue"):
    return pb.Vpc(id=vpc_id, vni=1, network="of a later version")


def test_a_vpc_that_cannot_be_decoded_stays_as_it_is_and_a_later_state_of_it_is_taken():
    replica, blue, green = Replica(), vpc("blue", 1), vpc("green", 2)
    sent(replica, None, wanted(blue, green))
    (message,) = updates(wanted(blue, green), wanted(blue, replace(green, nat=address(9))))
    message.vpcs.append(undecodable())
    found = applied(replica, message)
    assert {each.id: each for each in found.network.vpcs} == {"blue": blue, "green": replace(green, nat=address(9))}
    assert "its state of before stays in force" in found.refused["blue"]
    assert "none of compute, storage, business, management" in found.refused["blue"]
    repaired = applied(replica, pb.NetworkUpdate(generation=11, vpcs=next(updates(None, wanted(blue))).vpcs))
    assert repaired.refused == {}


def test_a_vpc_that_cannot_be_decoded_is_kept_across_sessions_and_absent_without_a_state_of_before():
    blue, green = vpc("blue", 1), vpc("green", 2)
    (message,) = updates(None, wanted(green, peerings=[]))
    message.vpcs.append(undecodable())
    message.peerings.peerings.add(vpc_a="blue", vpc_b="green")
    fresh, again = applied(Replica(), message), applied(Replica(wanted(blue)), message)
    assert (fresh.network.vpcs, fresh.network.peerings) == ((green,), frozenset())
    assert "it is not served" in fresh.refused["blue"]
    assert set(again.network.vpcs) == {blue, green}
    assert again.network.peerings == {Peering(a="blue", b="green")}


def test_a_load_balancer_that_cannot_be_decoded_harms_its_own_vpc_alone():
    blue, green = vpc("blue", 1), vpc("green", 2)
    mine, others = balancer("b", blue), balancer("g", green)
    before = wanted(blue, green, load_balancers=(mine, others))
    (message,) = updates(None, replace(before, load_balancers=(replace(mine, port=81), replace(others, port=81))))
    message.load_balancers.load_balancers[0].protocol = "of a later version"
    found = applied(Replica(before), message)
    assert set(found.load_balancers) == {mine, replace(others, port=81)}
    assert list(found.refused) == ["blue"]


OLD, NEW = vpc("old", 1, nat=address(10)), vpc("new", 2)
BEFORE = replace(
    wanted(OLD, NEW, peerings=[Peering(a="new", b="old")], load_balancers=(balancer("o", OLD), balancer("n", NEW))),
    gateways={"gw2": IPv4Address("192.0.2.9")},
)
BEFORE = replace(BEFORE, network=replace(BEFORE.network, border=(STORAGE,)))


def news(*vpcs, known_since=20, generation=20, **more):
    found = replace(wanted(*vpcs), known_since=known_since, **more)
    return replace(found, network=replace(found.network, generation=generation))


def test_vpcs_of_generations_that_a_controller_does_not_know_stay_with_all_that_is_theirs():
    found = sent(Replica(BEFORE), None, news(NEW, has_border=False))
    assert (found.network.vpcs, found.unknown) == ((NEW, OLD), {"old"})
    assert found.network.peerings == {Peering(a="new", b="old")}
    assert found.network.border == (STORAGE,)
    assert [each.id for each in found.load_balancers] == ["o"]
    assert found.gateways == BEFORE.gateways


@pytest.mark.parametrize("known_since", [0, 9])
def test_what_a_controller_knew_and_does_not_name_is_gone(known_since):
    found = sent(Replica(BEFORE), None, news(NEW, known_since=known_since))
    assert (found.network.vpcs, found.network.border, found.unknown) == ((NEW,), (), frozenset())


def test_an_unknown_vpc_is_taken_over_when_it_is_named_and_ends_when_it_is_deleted():
    replica, first = Replica(BEFORE), news(NEW)
    sent(replica, None, first)
    second = news(NEW, replace(OLD, nat=None), generation=21)
    found = sent(replica, first, second)
    assert (found.network.vpcs, found.unknown) == ((NEW, replace(OLD, nat=None)), frozenset())
    assert sent(replica, second, news(NEW, generation=22)).network.vpcs == (NEW,)


def test_unknown_vpcs_outlive_sessions_until_the_controller_knows_all():
    first = news(NEW)
    kept = sent(Replica(BEFORE), None, first)
    again = Replica(kept)
    assert sent(again, None, news(NEW, generation=21)).unknown == {"old"}
    whole = sent(again, news(NEW, generation=21), news(NEW, known_since=0, generation=22))
    assert (whole.network.vpcs, whole.unknown) == ((NEW,), frozenset())


def test_a_named_vpc_has_precedence_over_an_unknown_one():
    thief = vpc("thief", OLD.vni)
    assert sent(Replica(BEFORE), None, news(thief)).network.vpcs == (thief, NEW)
    floats = replace(NEW, floating_ips=floating(10, NEW))
    assert sent(Replica(BEFORE), None, news(floats)).network.vpcs == (floats, replace(OLD, nat=None))


def test_a_border_that_is_applied_replaces_all_rules_but_those_of_unknown_vpcs():
    rule = replace(STORAGE, vpc="*")
    first = news(NEW)
    first = replace(first, network=replace(first.network, border=(rule,)))
    assert sent(Replica(BEFORE), None, first).network.border == (rule, STORAGE)

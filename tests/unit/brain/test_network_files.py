"""The objects of a network file are one change: one decision, one generation, and one write; or nothing."""

from dataclasses import replace
from ipaddress import IPv4Address, ip_network

import pytest

from heddle.controller.brain.networks.gateways import away
from heddle.controller.model.effect import NetworksChanged, Persist, Reply
from heddle.controller.model.error import AlreadyExistsError, BudgetExceededError, InputError
from heddle.controller.model.network_event import ApplyNetwork, DeleteVpc, ForgetGateway, GatewayDown
from heddle.controller.model.tenant import Quota, Tenant
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import BorderRule, FloatingIp, Peering
from heddle.foundation.network import Network
from tests.unit.brain.network_site import NAT, Site, acknowledged_site, load_balancer, vpc, vtep

RULE = BorderRule(allow=True, vpc="c", realm=Network.STORAGE, remote=ip_network("10.9.0.0/16"))
PAIR = frozenset({Peering(a="a", b="b")})


@pytest.fixture
def site():
    return acknowledged_site()


def file(*vpcs, **more):
    vteps = {each.id: frozenset(end.vtep for end in each.endpoints) for each in vpcs}
    return {"vpcs": vpcs, "vteps": vteps, **more}


def swapped():
    return vpc("a", 2, 11), vpc("b", 1, 12)


def acknowledge(site, *names):
    for name in names:
        site.ack(name, int(name[1:]))


def test_a_file_that_swaps_vnis_and_subnets_is_one_generation_and_one_write():
    site = Site(is_journaled=True)
    site.apply(vpc("a", 1, 11))
    site.apply(vpc("b", 2, 12))
    before = site.networks.generation
    caller = site.call(
        ApplyNetwork, **file(*swapped(), peerings=PAIR, load_balancers=(load_balancer("web", swapped()[0]),))
    )
    kinds = [type(each) for each in site.effects]
    assert kinds == [Persist, NetworksChanged, Reply]
    assert site.replies[caller] == site.networks.generation > before
    assert {key for each in site.effects if isinstance(each, Persist) for key in each.values} == {
        ("vpc", "a"), ("vpc", "b"), ("peering", "a b"), ("load_balancer", "web"), ("network_generation", ""),
        ("network_ended", ""),
    }  # fmt: skip
    assert [site.networks.vpcs[name].vni for name in "ab"] == [2, 1]


def test_the_caller_waits_for_every_gateway_and_every_host_of_the_file(site):
    caller = site.call(ApplyNetwork, **file(*swapped()))
    acknowledge(site, "g1", "g2", "h11")
    assert caller not in site.replies
    acknowledge(site, "h12")
    assert site.replies[caller] == site.networks.generation


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"peerings": frozenset({Peering(a="a", b="none")})}, "peering a with none: vpc_b: there is no vpc 'none'"),
        ({"load_balancers": (load_balancer("web", vpc("c", 3, 13)),)}, "vpc_id: there is no vpc 'c'"),
        ({"border": (RULE,)}, "border: rules[0].vpc: there is no vpc 'c'"),
    ],
)  # fmt: skip
def test_a_file_with_one_wrong_object_changes_nothing(site, more, words):
    before = site.networks
    refused = site.outcome(ApplyNetwork, **file(replace(vpc("a", 1, 11), nat=NAT), **more))
    assert isinstance(refused, InputError)
    assert words in str(refused)
    assert site.networks is before
    assert [type(each) for each in site.effects] == [Reply]


def test_a_conflict_with_a_vpc_that_the_file_does_not_name_is_refused(site):
    before = site.networks
    refused = site.outcome(ApplyNetwork, **file(vpc("c", 3, 13), vpc("a", 2, 11)))
    assert str(refused) == "vpc a: vni: 2 is used by vpc b already"
    assert site.networks is before


def test_a_file_of_what_is_there_already_waits_for_the_generation_that_is_there(site):
    generation = site.networks.generation
    assert site.outcome(ApplyNetwork, **file(vpc("a", 1, 11), vpc("b", 2, 12))) == generation
    assert [type(each) for each in site.effects] == [Reply]


def test_a_file_that_names_nothing_publishes_nothing():
    site = Site()
    site.attach("g1", 1, generation=7)
    assert site.outcome(ApplyNetwork) == 0
    assert [type(each) for each in site.effects] == [Reply]


def test_after_a_restart_a_file_is_published_at_once_and_whole():
    site = Site()
    site.attach("g1", 1, generation=7)
    floating = (FloatingIp(public=NAT, endpoint=IPv4Address("10.1.1.1")),)
    wanted = vpc("a", 1, 11, floating_ips=floating)
    site.call(ApplyNetwork, **file(wanted, vpc("b", 2, 12), load_balancers=(load_balancer("web", wanted),)))
    assert [type(each) for each in site.effects] == [NetworksChanged]
    assert set(site.networks.vpcs) == {"a", "b"}


def test_a_tenant_s_file_is_held_to_its_quota_and_to_its_own_vpcs():
    site, red = Site(), Tenant(name="red", quota=Quota(vpcs=2))
    first, second, third = (vpc(name, number, 11, tenant="red") for number, name in enumerate("abc", 1))
    assert site.outcome(ApplyNetwork, **file(first, second), tenant=red)
    before = site.networks
    passed = site.outcome(ApplyNetwork, **file(replace(second, nat=NAT), third), tenant=red)
    assert isinstance(passed, BudgetExceededError)
    assert "has 1 of 2 VPCs, and this asks for 2 more" in str(passed)
    taken = site.outcome(ApplyNetwork, **file(replace(first, tenant="blue")), tenant=Tenant(name="blue"))
    assert isinstance(taken, AlreadyExistsError)
    assert site.networks is before


def test_a_host_whose_agent_ended_stays_known_while_a_vpc_has_endpoints_there(site):
    site.feed(GatewayDown(session=11, gateway_id="h11"))
    assert site.networks.gateways["h11"].session is None
    caller = site.call(ApplyNetwork, **file(replace(vpc("a", 1, 11), nat=NAT)))
    acknowledge(site, "g1", "g2")
    assert site.replies[caller] == site.networks.generation
    assert [name for name, _ in away(site.networks, {vtep(11)})] == ["h11"]
    assert away(site.networks, {vtep(12)}) == away(site.networks, None) == []
    site.attach("h11", 11, Kind.HOST)
    assert away(site.networks, {vtep(11)}) == []


def test_a_host_without_endpoints_is_forgotten_when_its_session_ends(site):
    site.attach("h13", 13, Kind.HOST)
    site.feed(GatewayDown(session=13, gateway_id="h13"))
    assert "h13" not in site.networks.gateways


def test_a_host_that_is_away_is_forgotten_on_request_or_when_another_has_its_vtep(site):
    generation = site.networks.generation
    for session, name in ((11, "h11"), (12, "h12")):
        site.feed(GatewayDown(session=session, gateway_id=name))
    assert site.outcome(ForgetGateway, gateway_id="h12") == generation
    site.attach("new", 11, Kind.HOST)
    assert set(site.networks.gateways) == {"g1", "g2", "new"}


def test_a_host_that_is_away_makes_room_for_another():
    site = Site(max_gateways=2)
    site.apply(vpc("a", 1, 11))
    for name, number, kind in (("g1", 1, Kind.GATEWAY), ("h11", 11, Kind.HOST)):
        site.attach(name, number, kind)
    site.feed(GatewayDown(session=11, gateway_id="h11"))
    site.attach("h12", 12, Kind.HOST)
    assert set(site.networks.gateways) == {"g1", "h12"}


def test_a_deleted_vpc_leaves_a_shared_nat_address_to_the_others(site):
    first, second = (replace(vpc(name, number, 11), nat=NAT) for number, name in enumerate("ab", 1))
    site.call(ApplyNetwork, **file(first, second))
    site.call(DeleteVpc, vpc_id="a")
    assert site.networks.claims["nat", int(NAT)] == "b"

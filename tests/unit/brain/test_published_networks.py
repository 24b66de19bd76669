"""What gateways, hosts and balancers are sent of the virtual networks, and what balancers report."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from heddle.controller.brain.networks.publishing import update_for
from heddle.controller.model.effect import NetworksChanged
from heddle.controller.model.error import AlreadyExistsError, InputError, InUseError, NotFoundError
from heddle.controller.model.network_event import ApplyLoadBalancer, BackEndsReported, DeleteLoadBalancer, GatewayDown
from heddle.controller.model.tenant import Tenant
from heddle.dataplane.config.balancers import BackEndState, Mode, balancer_mac, pool_mac
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import FloatingIp
from tests.unit.brain.network_site import NAT, Site, acknowledged_site, changed_a, load_balancer, vpc, vtep

POOLS = {"a": (IPv4Address("10.1.2.1"),), "b": (IPv4Address("10.2.2.1"),)}


@pytest.fixture
def site():
    return acknowledged_site()


@pytest.fixture
def balanced(site):
    """`full` of VPC a translates, and b21 alone has addresses there; `direct` of VPC b is served by b21 and b22."""
    site.attach("b21", 21, Kind.BALANCER, pools=POOLS)
    site.attach("b22", 22, Kind.BALANCER, pools={"b": (IPv4Address("10.2.2.2"),)})
    site.call(ApplyLoadBalancer, balancer=load_balancer("full", vpc("a", 1, 11), Mode.FULL_NAT))
    site.call(ApplyLoadBalancer, balancer=load_balancer("direct", vpc("b", 2, 12)))
    return site


def test_a_balancer_is_sent_the_vpcs_that_it_can_serve_and_their_load_balancers(balanced):
    for name, vpcs, ids in (("b21", ["a", "b"], ["full", "direct"]), ("b22", ["b"], ["direct"])):
        sent = update_for(balanced.networks, name, None)
        assert sent is not None
        assert [each.id for each in sent.network.vpcs] == vpcs
        assert [each.id for each in sent.load_balancers] == ids
        assert (sent.gateways, sent.virtual_ips) == ({"g1": vtep(1), "g2": vtep(2)}, ())


def test_a_gateway_is_sent_virtual_ips_and_pool_addresses_as_endpoints_behind_balancers(balanced):
    sent = update_for(balanced.networks, "g1", None)
    assert sent is not None
    a, b = ({each.ip: (each.mac, each.vtep) for each in each.endpoints[1:]} for each in sent.network.vpcs)
    assert a == {
        IPv4Address("10.1.1.1"): (balancer_mac(1), vtep(21)),
        POOLS["a"][0]: (pool_mac(vtep(21)), vtep(21)),
    }
    assert b == {
        IPv4Address("10.2.1.1"): (balancer_mac(2), vtep(21)),  # of two, chosen by VNI 2
        POOLS["b"][0]: (pool_mac(vtep(21)), vtep(21)),
        IPv4Address("10.2.2.2"): (pool_mac(vtep(22)), vtep(22)),
    }
    assert sent.load_balancers == ()
    (direct,) = sent.virtual_ips
    assert (direct.vpc, direct.ip, direct.vteps) == ("b", IPv4Address("10.2.1.1"), (vtep(21), vtep(22)))
    assert direct.back_ends == (IPv4Address("10.2.0.12"),)


def test_a_host_is_sent_the_vpcs_of_its_endpoints_and_where_their_virtual_ips_are(balanced):
    sent = update_for(balanced.networks, "h12", None)
    assert sent is not None
    (only,) = sent.network.vpcs
    assert (only.id, len(only.endpoints)) == ("b", 3)
    assert [(each.vpc, each.vteps) for each in sent.virtual_ips] == [("b", (vtep(21), vtep(22)))]
    assert (sent.gateways, sent.load_balancers) == ({"g1": vtep(1), "g2": vtep(2)}, ())


def test_where_no_balancer_serves_a_virtual_ip_a_gateway_has_no_endpoint_for_it(site):
    site.call(ApplyLoadBalancer, balancer=load_balancer("direct", vpc("b", 2, 12)))
    sent = update_for(site.networks, "g1", None)
    assert sent is not None
    assert [len(each.endpoints) for each in sent.network.vpcs] == [1, 1]


def test_hosts_and_balancers_are_sent_only_what_changes_for_them_and_gateways_every_generation(balanced):
    names = ("g1", "h11", "h12", "b22")
    sent = {name: update_for(balanced.networks, name, None) for name in names}
    assert {update_for(balanced.networks, name, sent[name]) for name in names} == {None}
    balanced.apply(changed_a())
    assert [name for name in names if update_for(balanced.networks, name, sent[name])] == ["g1", "h11"]
    assert update_for(balanced.networks, "g9", None) is None
    assert update_for(Site().networks, "g1", None) is None


def test_a_balancer_that_leaves_or_returns_moves_traffic_and_is_a_new_generation(balanced):
    before = balanced.networks.generation
    balanced.feed(GatewayDown(session=21, gateway_id="b21"))
    away = balanced.networks.generation
    assert away > before
    assert balanced.effects[1] == NetworksChanged(generation=away)
    sent = update_for(balanced.networks, "h12", None)
    assert sent is not None
    assert [each.vteps for each in sent.virtual_ips] == [(vtep(22),)]
    balanced.attach("b21", 21, Kind.BALANCER, pools=POOLS)
    assert balanced.networks.generation > away


def test_of_a_pool_that_a_pair_shares_hosts_reach_the_attached_member(balanced):
    balanced.feed(GatewayDown(session=21, gateway_id="b21"))
    balanced.attach("b25", 25, Kind.BALANCER, pools=POOLS, partner="b21")
    sent = update_for(balanced.networks, "g1", None)
    assert sent is not None
    assert {each.ip: each.vtep for each in sent.network.vpcs[0].endpoints}[POOLS["a"][0]] == vtep(25)


def test_a_pool_address_of_another_balancer_is_refused(balanced):
    found = balanced.attach("b26", 26, Kind.BALANCER, pools=POOLS)
    assert isinstance(found, InputError)
    assert "10.1.2.1 is of the pool of b21" in str(found)
    assert "b26" not in balanced.networks.gateways


def test_an_equal_load_balancer_changes_nothing_and_a_clash_is_refused(balanced):
    generation = balanced.networks.generation
    balanced.call(ApplyLoadBalancer, balancer=load_balancer("direct", vpc("b", 2, 12)))
    assert isinstance(balanced.outcome(ApplyLoadBalancer, balancer=load_balancer("two", vpc("b", 2, 12))), InputError)
    assert (balanced.networks.generation, set(balanced.networks.load_balancers)) == (generation, {"full", "direct"})


def test_a_deleted_load_balancer_is_no_more_and_hosts_of_its_vpc_are_waited_for(balanced):
    caller = balanced.call(DeleteLoadBalancer, balancer_id="direct")
    for name, number in (("g1", 1), ("g2", 2), ("b21", 21), ("b22", 22)):
        balanced.ack(name, number)
    assert caller not in balanced.replies
    balanced.ack("h12", 12)
    assert balanced.replies[caller] == balanced.networks.generation
    assert set(balanced.networks.load_balancers) == {"full"}
    assert isinstance(balanced.outcome(DeleteLoadBalancer, balancer_id="direct"), NotFoundError)


def reported(site, session=21, **states):
    found = tuple(
        BackEndState(balancer=name, ip=end.ip, port=end.port, is_up=is_up)
        for name, is_up in states.items()
        for end in site.networks.load_balancers[name].back_ends
    )
    site.feed(BackEndsReported(session=session, gateway_id="b21", states=found))


def test_what_a_balancer_reports_of_back_ends_is_kept_and_what_turned_is_logged(balanced):
    reported(balanced, full=False)
    assert balanced.notes() == []  # never up: no news
    reported(balanced, full=True, direct=True)
    assert balanced.notes() == [
        ("info", "full", "back end 10.1.0.11 port 80 is up at b21"),
        ("info", "direct", "back end 10.2.0.12 port 80 is up at b21"),
    ]
    reported(balanced, session=20, full=False)
    assert balanced.notes() == []  # of an older session
    reported(balanced, full=True, direct=False)
    assert balanced.notes() == [
        ("warning", "direct", "back end 10.2.0.12 port 80 is down at b21"),
        ("error", "direct", "all back ends are down at b21; new connections are refused"),
    ]
    assert balanced.networks.gateways["b21"].health == {
        ("full", IPv4Address("10.1.0.11"), 80): True,
        ("direct", IPv4Address("10.2.0.12"), 80): False,
    }


def test_a_load_balancer_that_a_floating_ip_leads_to_is_not_deleted_or_moved_away(site):
    a = vpc("a", 1, 11)
    site.call(ApplyLoadBalancer, balancer=load_balancer("web", a))
    floating = FloatingIp(public=NAT, endpoint=IPv4Address("10.1.1.1"))
    site.apply(replace(a, floating_ips=(floating,)))
    assert site.networks.vpcs["a"].floating_ips == (floating,)
    needed = site.outcome(DeleteLoadBalancer, balancer_id="web")
    assert isinstance(needed, InUseError)
    assert str(needed).startswith("load balancer web is needed: ")
    elsewhere = replace(load_balancer("web", a), vip=IPv4Address("10.1.1.9"))
    assert isinstance(site.outcome(ApplyLoadBalancer, balancer=elsewhere), InputError)
    assert site.networks.load_balancers == {"web": load_balancer("web", a)}
    site.call(ApplyLoadBalancer, balancer=load_balancer("web", a, port=81))
    assert site.networks.load_balancers["web"].port == 81


def test_the_id_of_another_tenants_load_balancer_is_taken(site):
    site.call(ApplyLoadBalancer, balancer=load_balancer("web", vpc("a", 1, 11)))
    other = replace(load_balancer("web", vpc("b", 2, 12)), tenant="red")
    refused = site.outcome(ApplyLoadBalancer, balancer=other, tenant=Tenant(name="red"))
    assert isinstance(refused, AlreadyExistsError)
    assert str(refused) == "id: load balancer web is in use; choose another id"


@pytest.mark.parametrize(("hosts", "more"), [(20, []), (22, [("warning", "b21", "2 more back ends went up or down")])])
def test_of_many_back_ends_that_turn_the_log_names_twenty(balanced, hosts, more):
    large = vpc("a", 1, 11, *range(30, 29 + hosts))
    balanced.apply(large)
    balanced.call(ApplyLoadBalancer, balancer=load_balancer("full", large, Mode.FULL_NAT))
    reported(balanced, full=True)
    assert balanced.notes()[20:] == more
    assert len({text for _, _, text in balanced.notes()[:20]}) == 20

"""Virtual networks: who is waited for before a change is acknowledged, what is refused, and what each is sent."""

from dataclasses import replace
from ipaddress import IPv4Address, ip_network

import pytest

from heddle.controller.model.effect import EndSession, NetworksChanged, Reply
from heddle.controller.model.error import BudgetExceededError, InputError, InUseError, NotFoundError, UnavailableError
from heddle.controller.model.event import Tick
from heddle.controller.model.network_event import (
    ApplyBorder,
    ApplyLoadBalancer,
    ApplyPeering,
    DeletePeering,
    DeleteVpc,
    ForgetGateway,
    GatewayDown,
)
from heddle.dataplane.config.network import BorderRule, FloatingIp, Peering
from heddle.foundation.network import Network
from tests.unit.brain.network_site import NAT, NOW, Site, acknowledged_site, changed_a, load_balancer, vpc


@pytest.fixture
def site():
    return acknowledged_site()


def test_a_change_is_acknowledged_when_each_gateway_and_each_host_concerned_runs_it(site):
    before = site.networks.generation
    caller = site.apply(changed_a())
    generation = site.networks.generation
    assert generation > before
    assert site.effects == (NetworksChanged(generation=generation),)
    site.ack("g1", 1)
    site.ack("g2", 2, before)  # an older one
    site.ack("h11", 11)
    assert caller not in site.replies
    site.ack("g2", 2, generation + 1)  # of another controller
    site.ack("g2", 1)  # of an older session
    assert caller not in site.replies
    site.ack("g2", 2)
    assert site.replies[caller] == generation
    assert site.networks.waiting == ()


def test_a_host_that_a_change_moves_endpoints_away_from_is_waited_for(site):
    caller = site.apply(vpc("a", 1, 12))
    for name, number in (("g1", 1), ("g2", 2), ("h12", 12)):
        site.ack(name, number)
    assert caller not in site.replies
    site.ack("h11", 11)
    assert caller in site.replies


def test_callers_wait_each_for_their_own_generation(site):
    first, generation = site.apply(changed_a()), site.networks.generation
    second = site.apply(vpc("a", 1, 11))
    for name, number in (("g1", 1), ("g2", 2), ("h11", 11)):
        site.ack(name, number, generation)
    assert (site.replies[first], second in site.replies) == (generation, False)
    for name, number in (("g1", 1), ("g2", 2), ("h11", 11)):
        site.ack(name, number)
    assert site.replies[second] == site.networks.generation > generation


def test_an_equal_vpc_changes_nothing_and_waits_for_the_generation_that_is_there(site):
    generation = site.networks.generation
    assert site.replies[site.apply(vpc("a", 1, 11))] == generation
    assert site.effects == (Reply(reply=site.callers, outcome=generation),)
    site.apply(changed_a())
    again = site.apply(changed_a())
    assert again not in site.replies
    for name, number in (("g1", 1), ("g2", 2), ("h11", 11)):
        site.ack(name, number)
    assert site.replies[again] == site.networks.generation


def test_whose_session_ends_is_not_waited_for_and_stays_known(site):
    caller = site.apply(changed_a())
    site.ack("g1", 1)
    site.feed(GatewayDown(session=1, gateway_id="g2"))  # an older session's end
    assert caller not in site.replies
    site.feed(GatewayDown(session=2, gateway_id="g2"))
    assert site.notes() == [("warning", "g2", "its session ended; it keeps its configuration")]
    assert caller not in site.replies
    site.feed(GatewayDown(session=11, gateway_id="h11"))
    assert site.replies[caller] == site.networks.generation
    assert [site.networks.gateways[name].session for name in ("g1", "g2", "h11", "h12")] == [1, None, None, 12]


def test_a_refusal_fails_the_callers_that_wait_for_it_and_no_other(site):
    first, generation = site.apply(changed_a()), site.networks.generation
    second = site.apply(vpc("a", 1, 11))
    site.ack("g1", 1, generation, refused="no room")
    assert isinstance(site.replies[first], UnavailableError)
    assert "gateway g1 refused it: no room" in str(site.replies[first])
    assert ("error", "g1", "generation refused: no room") in site.notes()
    assert site.networks.gateways["g1"].refused == "no room"
    assert second not in site.replies
    for name, number in (("g1", 1), ("g2", 2), ("h11", 11)):
        site.ack(name, number)
    assert (site.replies[second], site.networks.gateways["g1"].refused) == (site.networks.generation, "")


@pytest.mark.parametrize(("silent", "end"), [(10, "g19"), (11, "g19 and 1 more"), (12, "g19 and 2 more")])
def test_at_its_deadline_a_caller_learns_who_has_not_acknowledged(silent, end):
    site = Site(gateway_timeout_ms=500)
    for number in range(10, 10 + silent):
        site.attach(f"g{number}", number)
    caller = site.apply(vpc("a", 1, 99))
    later = site.apply(vpc("b", 2, 99))
    site.now += 499
    site.feed(Tick())
    assert caller not in site.replies
    site.now += 1
    site.feed(Tick())
    first = ", ".join(f"g{number}" for number in range(10, 19))
    text = f"not acknowledged in time by {first}, {end};"
    assert isinstance(site.replies[caller], UnavailableError)
    assert text in str(site.replies[caller]) == str(site.replies[later])
    assert site.networks.waiting == ()


def test_who_attaches_gets_the_generation_and_ends_an_older_session_of_its_own(site):
    generation = site.networks.generation
    assert site.attach("g1", 3) == generation < site.networks.generation  # its VTEP is another one now
    assert [effect for effect in site.effects if isinstance(effect, EndSession)] == [
        EndSession(gateway_id="g1", session=1)
    ]
    assert ("info", "g1", "attached, VTEP 192.0.2.3") in site.notes()
    caller = site.apply(changed_a())
    for name, number in (("g1", 1), ("g2", 2), ("h11", 11)):
        site.ack(name, number)
    assert caller not in site.replies  # the acknowledgement was of the older session


def test_a_gateway_beyond_the_maximum_is_refused_and_a_known_one_is_not():
    site = Site(max_gateways=1)
    site.attach("g1", 1)
    refused = site.attach("g2", 2)
    assert isinstance(refused, BudgetExceededError)
    assert "1 gateways and hosts are known already" in str(refused)
    assert set(site.networks.gateways) == {"g1"}
    assert site.attach("g1", 3) == 0


def test_a_gateway_ahead_of_the_controller_gets_a_generation_above_its_own(site):
    ahead = site.networks.generation + 50
    site.feed(GatewayDown(session=1, gateway_id="g1"))
    site.attach("g1", 1, generation=ahead)
    assert site.networks.generation == ahead + 1
    assert NetworksChanged(generation=ahead + 1) in site.effects


def test_after_a_restart_nothing_is_published_before_the_last_change_of_a_network():
    site = Site()
    site.attach("g1", 1, generation=7)
    assert site.notes()[1][:2] == ("warning", "g1")
    assert site.replies[site.apply(vpc("a", 1, 11), more=True)] == 0
    assert site.outcome(ApplyBorder, rules=(), more=True) == 0
    assert [*site.effects] == [Reply(reply=site.callers, outcome=0)]
    site.apply(vpc("b", 2, 12), more=True)
    assert site.outcome(ApplyPeering, peering=Peering(a="a", b="b"), more=True) == 0
    assert [*site.effects] == [Reply(reply=site.callers, outcome=0)]
    caller = site.apply(vpc("a", 1, 11))  # equal, and the last
    assert site.networks.generation == NOW
    assert [*site.effects] == [NetworksChanged(generation=NOW)]
    site.ack("g1", 1)
    assert site.replies[caller] == NOW


def test_a_vpc_in_use_is_not_deleted(site):
    site.call(ApplyPeering, peering=Peering(a="a", b="b"))
    found = site.outcome(DeleteVpc, vpc_id="a")
    assert isinstance(found, InUseError)
    assert str(found) == "vpc a is peered with b; delete its peerings first"
    site.call(DeletePeering, peering=Peering(a="a", b="b"))
    rule = BorderRule(allow=True, vpc="b", realm=Network.BUSINESS, remote=ip_network("203.0.113.0/24"))
    site.call(ApplyBorder, rules=(rule,))
    assert str(site.outcome(DeleteVpc, vpc_id="b")) == "vpc b is named by a border rule; take it out first"
    site.call(ApplyLoadBalancer, balancer=load_balancer("web", vpc("a", 1, 11)))
    assert str(site.outcome(DeleteVpc, vpc_id="a")) == "vpc a has load balancers, web; delete them first"
    assert set(site.networks.vpcs) == {"a", "b"}
    assert isinstance(site.outcome(DeleteVpc, vpc_id="c"), NotFoundError)


def test_a_deleted_vpc_leaves_nothing_and_its_hosts_are_waited_for(site):
    caller = site.call(DeleteVpc, vpc_id="a")
    for name, number in (("g1", 1), ("g2", 2)):
        site.ack(name, number)
    assert caller not in site.replies
    site.ack("h11", 11)
    assert site.replies[caller] == site.networks.generation
    assert (set(site.networks.vpcs), set(site.networks.vteps), site.networks.endpoints) == ({"b"}, {"b"}, 1)
    assert set(site.networks.claims.values()) == {"b"}


def test_a_shared_nat_address_stays_claimed_until_no_vpc_has_it(site):
    site.apply(changed_a())
    site.apply(replace(vpc("b", 2, 12), nat=NAT))
    floating = FloatingIp(public=NAT, endpoint=IPv4Address("10.3.0.11"))
    third = vpc("c", 3, 11, floating_ips=(floating,))
    for name in ("a", "b"):
        assert isinstance(site.replies[site.apply(third)], InputError)
        site.call(DeleteVpc, vpc_id=name)
    site.apply(third)
    assert set(site.networks.vpcs) == {"c"}


def test_peerings_are_made_once_and_end_once(site):
    peering, generation = Peering(a="a", b="b"), site.networks.generation
    site.call(ApplyPeering, peering=peering)
    assert site.networks.peers == {"a": frozenset({"b"}), "b": frozenset({"a"})}
    first = site.networks.generation
    site.call(ApplyPeering, peering=peering)
    assert site.networks.generation == first > generation
    caller = site.call(DeletePeering, peering=peering)
    for name, number in (("g1", 1), ("g2", 2)):
        site.ack(name, number)
    assert site.replies[caller] == site.networks.generation > first
    assert not site.networks.peerings
    assert isinstance(site.outcome(DeletePeering, peering=peering), NotFoundError)


def test_a_border_rule_of_an_unknown_vpc_is_refused(site):
    rule = BorderRule(allow=True, vpc="c", realm=Network.BUSINESS, remote=ip_network("203.0.113.0/24"))
    assert isinstance(site.outcome(ApplyBorder, rules=(rule,)), InputError)
    assert site.networks.border == ()


def test_only_a_gateway_that_is_away_is_forgotten(site):
    assert isinstance(site.outcome(ForgetGateway, gateway_id="g9"), NotFoundError)
    assert isinstance(site.outcome(ForgetGateway, gateway_id="g1"), InUseError)
    site.feed(GatewayDown(session=1, gateway_id="g1"))
    caller = site.call(ForgetGateway, gateway_id="g1")
    assert set(site.networks.gateways) == {"g2", "h11", "h12"}
    site.ack("g2", 2)
    assert site.replies[caller] == site.networks.generation
    new = Site()
    new.attach("g1", 1)
    new.feed(GatewayDown(session=1, gateway_id="g1"))
    assert new.outcome(ForgetGateway, gateway_id="g1") == 0  # nothing is published yet
    assert new.networks.gateways == {}


def incarnation_of(site, name):
    return site.networks.vpcs[name].incarnation


def test_a_vpc_that_was_deleted_and_applied_again_is_another_one_and_equal_ones_stay(site):
    site.call(DeleteVpc, vpc_id="a")
    ended = site.networks.generation
    site.apply(vpc("a", 1, 11))
    assert (incarnation_of(site, "a"), incarnation_of(site, "b")) == (ended, 0)
    before = site.networks.generation
    site.apply(replace(vpc("a", 1, 11), incarnation=7))
    assert site.networks.generation == before
    site.apply(replace(changed_a(), incarnation=7))
    assert incarnation_of(site, "a") == ended

"""A gateway that does not serve one VPC as wanted harms its caller alone; addresses of gateways are refused; VPCs that
the controller does not know are named, and ended on request."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, ip_network

import pytest

from heddle.controller.brain.networks.publishing import update_for
from heddle.controller.model.effect import NetworksChanged, Reply
from heddle.controller.model.error import InputError, UnavailableError
from heddle.controller.model.network_event import (
    ApplyBorder,
    ApplyLoadBalancer,
    ApplyPeering,
    DropUnknownVpcs,
    GatewayDown,
)
from heddle.dataplane.config.balancers import BackEnd, LoadBalancer, Mode
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import BorderRule, FloatingIp, GatewayPort, Peering
from heddle.dataplane.config.updates import updates
from heddle.foundation.network import Network
from tests.unit.brain.network_site import NAT, Site, acknowledged_site, changed_a, vpc, vtep

ROUTER, WAN = IPv4Address("198.51.100.1"), IPv4Address("198.51.100.2")
PORTS = (GatewayPort(name="wan", address=WAN, network=IPv4Network("198.51.100.0/24"), router=ROUTER),)
WHY = "its state of before stays in force: nat.public_ip: it is the router"


@pytest.fixture
def site():
    return acknowledged_site()


def acknowledge(site, **kept):
    for name, number in (("g1", 1), ("g2", 2), ("h11", 11), ("h12", 12)):
        site.ack(name, number, **(kept if name == "g1" else {}))


def test_a_vpc_that_a_gateway_keeps_fails_its_own_caller_and_no_other(site):
    first = site.apply(changed_a())
    second = site.apply(replace(vpc("b", 2, 12), nat=NAT))
    acknowledge(site, kept={"a": WHY})
    assert isinstance(site.replies[first], UnavailableError)
    assert str(site.replies[first]) == f"the change is kept, but not in force: vpc a at gateway g1: {WHY}"
    assert site.replies[second] == site.networks.generation


def test_what_a_gateway_keeps_is_an_event_of_its_vpc_once_and_its_repair_another(site):
    site.apply(changed_a())
    site.ack("g1", 1, kept={"a": WHY})
    assert site.notes() == [("error", "a", f"at g1 {WHY}")]
    site.apply(replace(vpc("b", 2, 12), nat=NAT))
    site.ack("g1", 1, kept={"a": WHY})
    assert site.notes() == []
    site.apply(vpc("a", 1, 11))
    site.ack("g1", 1)
    assert site.notes() == [("info", "a", "at g1 its newest state is in force")]


def test_the_same_call_again_fails_again_while_the_gateway_keeps_the_vpc(site):
    site.apply(changed_a())
    acknowledge(site, kept={"a": WHY})
    assert isinstance(site.replies[site.apply(changed_a())], UnavailableError)
    assert site.replies[site.apply(vpc("b", 2, 12))] == site.networks.generation


def test_a_peering_with_a_vpc_that_is_kept_fails_its_caller(site):
    caller = site.call(ApplyPeering, peering=Peering(a="a", b="b"))
    acknowledge(site, kept={"b": WHY})
    assert isinstance(site.replies[caller], UnavailableError)


def test_an_acknowledgement_of_an_older_generation_changes_nothing(site):
    before = site.networks.generation
    site.apply(changed_a())
    site.ack("g1", 1, kept={"a": WHY})
    site.ack("g1", 1, before)
    assert site.networks.gateways["g1"].kept == {"a": WHY}


def sent(site, name="g1", before=None):
    found = update_for(site.networks, name, before)
    assert found is not None
    return found


def floats(public):
    return replace(vpc("a", 1, 11), floating_ips=(FloatingIp(public=public, endpoint=IPv4Address("10.1.0.11")),))


@pytest.mark.parametrize(
    ("public", "owner"),
    [
        (ROUTER, "the router of gateway g9 on wan"),
        (WAN, "an own address of gateway g9 on wan"),
        (IPv4Address("198.51.100.255"), "the network's or broadcast address of 198.51.100.0/24, of gateway g9 on wan"),
    ],
)
def test_an_address_of_a_gateway_that_has_attached_is_refused_also_while_it_is_away(site, public, owner):
    site.attach("g9", 9, ports=PORTS)
    site.feed(GatewayDown(session=9, gateway_id="g9"))
    before = site.networks
    refused = site.replies[site.apply(floats(public))]
    assert isinstance(refused, InputError)
    line = f"floating_ips[0].public_ip: {public} is {owner}; choose an address that nothing else has"
    assert str(refused) == f"vpc a: {line}"
    assert site.networks == before


def border(remote, name="a", allow=True):
    return (BorderRule(allow=allow, vpc=name, realm=Network.STORAGE, remote=ip_network(remote)),)


@pytest.mark.parametrize(
    ("remote", "words"),
    [
        (f"{ROUTER}/32", "is the router of gateway g9"),
        (f"{vtep(11)}/32", "is a VTEP's"),
        (f"{NAT}/32", "is a public address of a VPC"),
        ("10.1.7.0/24", "is within a subnet of vpc a"),
    ],
)
def test_a_border_rule_that_opens_what_is_no_providers_is_refused(site, remote, words):
    site.attach("g9", 9, ports=PORTS)
    site.apply(replace(vpc("b", 2, 12), nat=NAT))
    refused = site.outcome(ApplyBorder, rules=border(remote))
    assert isinstance(refused, InputError)
    assert f"border: rules[0].remote_cidr: {remote} {words}" in str(refused)
    for harmless in (border(remote, allow=False), border("192.0.0.0/8", "*"), border("10.1.7.0/24", "*")):
        assert not isinstance(site.replies.get(site.call(ApplyBorder, rules=harmless)), InputError)


def test_a_vpc_is_refused_that_takes_what_a_border_rule_opens(site):
    site.call(ApplyBorder, rules=border(f"{NAT}/32", "*"))
    assert "rules[0].remote_cidr: 198.51.100.9/32 is a public address of the VPC" in str(
        site.replies[site.apply(changed_a())]
    )


def ip_in_ip(back_end):
    ends = (BackEnd(ip=back_end, port=80),)
    vip = IPv4Address("10.1.1.1")
    return LoadBalancer(id="web", vpc="a", vip=vip, port=80, mode=Mode.IP_IN_IP, back_ends=ends)


@pytest.mark.parametrize(("back_end", "words"), [(ROUTER, "is the router of gateway g9"), (NAT, "is a public address")])
def test_a_back_end_in_the_underlay_with_an_address_of_something_else_is_refused(site, back_end, words):
    site.attach("g9", 9, ports=PORTS)
    site.apply(replace(vpc("b", 2, 12), nat=NAT))
    refused = site.outcome(ApplyLoadBalancer, balancer=ip_in_ip(back_end))
    assert f"load balancer web: backends[0].ip: {back_end} {words}" in str(refused)


def test_a_vpc_is_refused_that_takes_the_address_of_a_back_end_in_the_underlay(site):
    site.call(ApplyLoadBalancer, balancer=ip_in_ip(NAT))
    refused = site.replies[site.apply(replace(vpc("b", 2, 12), nat=NAT))]
    assert "load balancer web: backends[0].ip: 198.51.100.9 is a public address of the VPC" in str(refused)


def test_vpcs_that_the_controller_does_not_know_are_named_until_they_are_applied():
    site = Site()
    site.attach("g1", 1, generation=500)
    site.apply(vpc("a", 1, 11))
    first = site.networks.generation
    assert sent(site).known_since == first
    site.ack("g1", 1, unknown=frozenset({"b", "c"}))
    ((severity, subject, text),) = site.notes()
    assert (severity, subject) == ("warning", "g1")
    assert "does not know: b, c; apply a file that names them, or" in text
    site.apply(vpc("b", 2, 12))
    site.ack("g1", 1, unknown=frozenset({"c"}))
    assert site.notes() == []
    assert site.networks.unknown_at(site.networks.gateways["g1"]) == {"c"}
    assert sent(site).known_since == first


def test_a_host_ends_a_vpc_that_it_was_not_sent_because_it_has_no_part_in_it():
    site = Site()
    site.attach("h11", 11, Kind.HOST, generation=500)
    site.apply(vpc("b", 2, 11))
    before = sent(site, "h11")
    site.ack("h11", 11, unknown=frozenset({"a", "old"}))
    site.apply(vpc("a", 1, 12))
    after = sent(site, "h11", before)
    assert after.ended == {"a"}
    assert [*next(updates(before, after)).deleted_vpcs] == ["a"]
    site.ack("h11", 11, unknown=frozenset({"old"}))
    assert update_for(site.networks, "h11", after) is None


def test_a_host_that_reports_late_what_it_has_no_part_in_is_sent_the_same_generation_again(site):
    before = sent(site, "h11")
    site.ack("h11", 11, unknown=frozenset({"b"}))
    after = sent(site, "h11", before)
    assert (after.ended, after.network.generation) == ({"b"}, before.network.generation)
    assert update_for(site.networks, "h11", after) is None


def test_unknown_vpcs_end_on_request_at_gateways_and_hosts():
    site = Site()
    assert isinstance(site.outcome(DropUnknownVpcs), InputError)
    site.attach("g1", 1, generation=500)
    site.attach("h11", 11, Kind.HOST, generation=500)
    site.apply(vpc("b", 2, 12))
    site.ack("g1", 1)
    before = {name: sent(site, name) for name in ("g1", "h11")}
    caller = site.call(DropUnknownVpcs)
    assert isinstance(site.effects[0], NetworksChanged)
    assert [sent(site, name, was).known_since for name, was in before.items()] == [0, 0]
    site.ack("g1", 1)
    assert caller not in site.replies
    site.ack("h11", 11)
    assert site.replies[caller] == site.networks.generation


def test_a_file_that_names_what_gateways_serve_unknown_is_published_as_one_generation():
    site = Site()
    site.attach("g1", 1, generation=500)
    site.apply(vpc("a", 1, 11))
    first = site.networks.generation
    site.ack("g1", 1, unknown=frozenset({"b"}))
    assert site.replies[site.apply(vpc("b", 2, 12), more=True)] == first
    assert site.effects == (Reply(reply=site.callers, outcome=first),)
    peering = Peering(a="a", b="b")
    site.call(ApplyPeering, peering=peering, more=True)
    assert sent(site).network.generation == first
    caller = site.apply(vpc("a", 1, 11))  # the last of the file, which changes nothing by itself
    assert sent(site).network.generation > first
    assert sent(site).network.peerings == {peering}
    site.ack("g1", 1)
    assert site.replies[caller] == site.networks.generation
    site.apply(vpc("c", 3, 12), more=True)  # nothing is unknown any more
    assert sent(site).network.generation > site.replies[caller]


def test_a_gateway_ahead_of_a_controller_that_was_restored_keeps_what_that_does_not_know(site):
    ahead = site.networks.generation + 50
    site.attach("g1", 3, generation=ahead)
    assert sent(site).known_since == site.networks.generation == ahead + 1
    assert sent(site, "g2").known_since == site.networks.known_since


def test_a_border_that_was_never_applied_is_not_sent_until_it_is_applied_be_it_empty():
    site = Site()
    site.attach("g1", 1, generation=500)
    site.apply(vpc("a", 1, 11))
    assert not sent(site).has_border
    site.call(ApplyBorder, rules=())
    assert sent(site).has_border

"""Virtual networks: who is waited for before a change is acknowledged, what is refused, and what each is sent."""

from dataclasses import replace
from ipaddress import IPv4Address, ip_network
from typing import Any

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.brain.decide import decide
from heddle.controller.brain.networks.publishing import update_for
from heddle.controller.brain.settings import Settings
from heddle.controller.model.effect import Effect, EndSession, NetworksChanged, Note, Reply
from heddle.controller.model.error import BudgetExceededError, InputError, InUseError, NotFoundError, UnavailableError
from heddle.controller.model.event import (
    ApplyBorder,
    ApplyLoadBalancer,
    ApplyPeering,
    ApplyVpc,
    BackEndsReported,
    DeleteLoadBalancer,
    DeletePeering,
    DeleteVpc,
    ForgetGateway,
    GatewayAcked,
    GatewayDown,
    GatewayUp,
    Tick,
)
from heddle.dataplane.config.balancers import BackEnd, BackEndState, LoadBalancer, Mode, balancer_mac, pool_mac
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import BorderRule, Endpoint, FloatingIp, Peering, Subnet, Vpc
from heddle.foundation.network import Network
from tests.unit.brain.driver import small_fabric

NOW = 1_000_000
NAT = IPv4Address("198.51.100.9")


def vtep(number: int) -> IPv4Address:
    return IPv4Address(f"192.0.2.{number}")


def vpc(name: str, vni: int, *hosts: int, **more) -> Vpc:
    """A VPC 10.VNI.0.0/16 with an endpoint .0.HOST at each host's VTEP."""
    endpoints = tuple(
        Endpoint(ip=IPv4Address(f"10.{vni}.0.{host}"), mac=0x020000000000 + host, vtep=vtep(host)) for host in hosts
    )
    subnet = Subnet(prefix=ip_network(f"10.{vni}.0.0/16"), gateway=IPv4Address(f"10.{vni}.0.254"))
    return Vpc(id=name, vni=vni, subnets=(subnet,), endpoints=endpoints, **more)


def load_balancer(name: str, of: Vpc, mode: Mode = Mode.DIRECT_RETURN, port: int = 80) -> LoadBalancer:
    ends = tuple(BackEnd(ip=each.ip, port=port) for each in of.endpoints)
    vip = IPv4Address(f"10.{of.vni}.1.1")
    return LoadBalancer(id=name, vpc=of.id, vip=vip, port=port, mode=mode, back_ends=ends)


class Site:
    """A controller's virtual networks: events go in, and their effects are kept."""

    def __init__(self, **settings):
        self.state, self.now, self.callers = begin(small_fabric(), Settings(**settings)), NOW, 0
        self.effects: tuple[Effect, ...] = ()
        self.replies: dict[int, Any] = {}

    @property
    def networks(self):
        return self.state.networks

    def feed(self, event):
        self.state, self.effects = decide(self.state, event, self.now)
        self.replies |= {effect.reply: effect.outcome for effect in self.effects if isinstance(effect, Reply)}

    def call(self, event, /, **fields):
        """Feed a request; return its caller's number, by which `replies` has the outcome once there is one."""
        self.callers += 1
        self.feed(event(reply=self.callers, **fields))
        return self.callers

    def outcome(self, event, /, **fields):
        return self.replies[self.call(event, **fields)]

    def attach(self, name, number, kind=Kind.GATEWAY, **more):
        return self.outcome(GatewayUp, session=number, gateway_id=name, vtep=vtep(number), kind=kind, **more)

    def ack(self, name, session, generation=None, **more):
        newest = self.networks.generation if generation is None else generation
        self.feed(GatewayAcked(session=session, gateway_id=name, generation=newest, **more))

    def apply(self, wanted, **more):
        return self.call(ApplyVpc, vpc=wanted, vteps=frozenset(each.vtep for each in wanted.endpoints), **more)

    def notes(self):
        return [(each.severity, each.subject, each.text) for each in self.effects if isinstance(each, Note)]


@pytest.fixture
def site():
    """Two gateways and two hosts, and VPCs `a` at host 11 and `b` at host 12, which nobody has acknowledged yet."""
    found = Site()
    for name, number in (("g1", 1), ("g2", 2)):
        found.attach(name, number)
    for name, number in (("h11", 11), ("h12", 12)):
        found.attach(name, number, Kind.HOST)
    found.apply(vpc("a", 1, 11))
    found.apply(vpc("b", 2, 12))
    for name, number in (("g1", 1), ("g2", 2), ("h11", 11), ("h12", 12)):
        found.ack(name, number)
    assert set(found.replies) == set(range(1, 7))
    return found


def changed_a(**more):
    return replace(vpc("a", 1, 11), nat=NAT, **more)


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


def test_whose_session_ends_is_not_waited_for_and_a_host_is_forgotten(site):
    caller = site.apply(changed_a())
    site.ack("g1", 1)
    site.feed(GatewayDown(session=1, gateway_id="g2"))  # an older session's end
    assert caller not in site.replies
    site.feed(GatewayDown(session=2, gateway_id="g2"))
    assert site.notes() == [("warning", "g2", "its session ended; it keeps its configuration")]
    assert caller not in site.replies
    site.feed(GatewayDown(session=11, gateway_id="h11"))
    assert site.replies[caller] == site.networks.generation
    assert set(site.networks.gateways) == {"g1", "g2", "h12"}
    assert site.networks.gateways["g2"].session is None


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


POOLS = {"a": (IPv4Address("10.1.2.1"),), "b": (IPv4Address("10.2.2.1"),)}


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
    assert update_for(balanced.networks, "nobody", None) is None
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

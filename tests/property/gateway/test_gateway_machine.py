"""Gateways and hosts connect, disconnect, lag and refuse in any order; all are sent the newest generation.

The controller knows which generation each runs. Every call of the API returns, whatever the gateways do.
"""

from dataclasses import replace
from ipaddress import IPv4Address, ip_network

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from heddle.controller.brain.begin import begin
from heddle.controller.brain.decide import decide
from heddle.controller.brain.networks.publishing import desired_of, update_for
from heddle.controller.model.effect import EndSession, NetworksChanged, Reply
from heddle.controller.model.error import HeddleError, InputError, InUseError, NotFoundError, UnavailableError
from heddle.controller.model.event import Tick
from heddle.controller.model.network_event import (
    ApplyBorder,
    ApplyLoadBalancer,
    ApplyNetwork,
    ApplyPeering,
    ApplyVpc,
    DeleteLoadBalancer,
    DeletePeering,
    DeleteVpc,
    ForgetGateway,
    GatewayAcked,
    GatewayDown,
    GatewayUp,
)
from heddle.controller.views.load_balancers import load_balancer_views, view_of
from heddle.dataplane.config.balancers import BackEnd, LoadBalancer, Mode
from heddle.dataplane.config.check_balancers import load_balancer_problems
from heddle.dataplane.config.check_change import network_problems
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import BorderRule, Endpoint, Peering, Subnet, Vpc
from heddle.dataplane.config.replica import Replica
from heddle.dataplane.config.updates import updates
from heddle.foundation.network import Network
from tests.support.examples import examples
from tests.unit.brain.driver import small_fabric

POOLS = {"b1": {"a": (IPv4Address("10.9.9.1"),)}}
MODES = [Mode.DIRECT_RETURN, Mode.FULL_NAT]
NAMES = st.sampled_from(["a", "b", "c"])
KINDS = {"g": Kind.GATEWAY, "h": Kind.HOST, "b": Kind.BALANCER}
PLACES = st.sampled_from(["g1", "g2", "h1", "h2", "b1", "b2"])
VTEPS = {name: IPv4Address(f"192.0.2.{i}") for i, name in enumerate(["g1", "g2", "h1", "h2", "b1", "b2"], start=1)}


def vpc(name, vni, third, places):
    prefix = ip_network(f"10.0.{third}.0/24")
    ends = tuple(
        Endpoint(ip=prefix[10 + i], mac=0x0600_0000_0000 | i, vtep=VTEPS[place]) for i, place in enumerate(places)
    )
    return Vpc(id=name, vni=vni, subnets=(Subnet(prefix=prefix, gateway=prefix[1]),), endpoints=ends)


def own(each):
    """Return a VPC without the addresses of balancers."""
    return replace(each, endpoints=tuple(end for end in each.endpoints if end.mac >> 40 == 0x06))


class Place:
    """One that attaches, as the shell serves it: one generation in flight at a time, deltas after the first."""

    def __init__(self, session):
        self.session = session
        self.sent = None
        self.replica = Replica()
        self.under_way = []
        self.runs = 0
        self.refused = ""


class GatewayMachine(RuleBasedStateMachine):
    """Three VPCs, two load balancers, two gateways, two hosts, two balancers of which one can translate in one VPC."""

    def __init__(self):
        super().__init__()
        self.state = begin(small_fabric(leaves=2))
        self.now = 1_000_000
        self.requests = {}
        self.replies = {}
        self.places = {}
        self.sessions = 0

    def feed(self, event):
        self.state, effects = decide(self.state, event, self.now)
        for effect in effects:
            if isinstance(effect, Reply):
                assert effect.reply not in self.replies
                self.replies[effect.reply] = effect.outcome
            elif isinstance(effect, EndSession):
                assert self.places[effect.gateway_id].session != effect.session
            elif isinstance(effect, NetworksChanged):
                assert effect.generation == self.state.networks.generation

    def ask(self, make):
        number = len(self.requests) + 1
        event = make(number)
        self.requests[number] = (event, self.now)
        self.feed(event)

    @rule(name=NAMES, vni=st.integers(1, 3), third=st.integers(0, 2), places=st.lists(PLACES, max_size=3))
    def apply(self, name, vni, third, places):
        wanted = vpc(name, vni, third, places)
        vteps = frozenset(endpoint.vtep for endpoint in wanted.endpoints)
        self.ask(lambda reply: ApplyVpc(reply=reply, vpc=wanted, vteps=vteps))

    @rule(
        wanted=st.lists(st.builds(vpc, NAMES, st.integers(1, 3), st.integers(0, 2), st.lists(PLACES, max_size=2)),
                        max_size=3, unique_by=lambda each: each.id),
        pairs=st.sets(st.sampled_from(["ab", "ac", "bc"]), max_size=1),
    )  # fmt: skip
    def apply_file(self, wanted, pairs):
        vteps = {each.id: frozenset(end.vtep for end in each.endpoints) for each in wanted}
        peerings = frozenset(Peering(a=pair[0], b=pair[1]) for pair in pairs)
        self.ask(lambda reply: ApplyNetwork(reply=reply, vpcs=tuple(wanted), vteps=vteps, peerings=peerings))

    @rule(name=NAMES)
    def delete(self, name):
        self.ask(lambda reply: DeleteVpc(reply=reply, vpc_id=name))

    @rule(pair=st.sampled_from(["ab", "ac", "bc"]), gone=st.booleans())
    def peer(self, pair, gone):
        kind = DeletePeering if gone else ApplyPeering
        self.ask(lambda reply: kind(reply=reply, peering=Peering(a=pair[0], b=pair[1])))

    @rule(names=st.lists(st.sampled_from(["a", "b", "*"]), max_size=2))
    def border(self, names):
        rules = tuple(
            BorderRule(allow=True, vpc=name, realm=Network.STORAGE, remote=ip_network("10.9.0.0/16")) for name in names
        )
        self.ask(lambda reply: ApplyBorder(reply=reply, rules=rules))

    @rule(
        name=st.sampled_from(["web", "dns"]),
        where=NAMES,
        third=st.integers(0, 2),
        mode=st.sampled_from(MODES),
    )
    def balance(self, name, where, third, mode):
        """For an endpoint of that VPC, if it is there in that subnet."""
        wanted = LoadBalancer(
            id=name, vpc=where, vip=IPv4Address(f"10.0.{third}.100"), port=80, mode=mode,
            back_ends=(BackEnd(ip=IPv4Address(f"10.0.{third}.10"), port=80),),
        )  # fmt: skip
        self.ask(lambda reply: ApplyLoadBalancer(reply=reply, balancer=wanted))

    @rule(name=st.sampled_from(["web", "dns"]))
    def unbalance(self, name):
        self.ask(lambda reply: DeleteLoadBalancer(reply=reply, balancer_id=name))

    @rule(name=PLACES)
    def attach(self, name):
        """Also while an old session of that name exists, which has not noticed its end."""
        self.sessions += 1
        self.places[name] = Place(self.sessions)
        kind, session = KINDS[name[0]], self.sessions
        self.ask(
            lambda reply: GatewayUp(
                reply=reply, session=session, gateway_id=name, vtep=VTEPS[name], kind=kind, pools=POOLS.get(name, {})
            )
        )

    @rule(name=PLACES)
    def detach(self, name):
        place = self.places.pop(name, None)
        if place is not None:
            self.feed(GatewayDown(session=place.session, gateway_id=name))

    @rule(name=PLACES)
    def forget(self, name):
        self.ask(lambda reply: ForgetGateway(reply=reply, gateway_id=name))
        assert (name in self.state.networks.gateways) == (name in self.places)

    @rule(name=PLACES, session=st.integers(0, 3))
    def an_old_session_ends_late(self, name, session):
        if name not in self.places or self.places[name].session != session:
            self.feed(GatewayDown(session=session, gateway_id=name))
            self.feed(GatewayAcked(session=session, gateway_id=name, generation=self.state.networks.generation))

    @rule(name=PLACES, refused=st.booleans())
    def serve(self, name, refused):
        """Send the next update, or deliver and acknowledge the one in flight."""
        place = self.places.get(name)
        if place is None:
            return
        if not place.under_way:
            news = update_for(self.state.networks, name, place.sent)
            if news is not None:
                place.under_way = list(updates(place.sent, news))
                place.sent = news
            return
        for message in place.under_way:
            place.replica.apply(message)
        place.under_way = []
        generation, place.refused = place.sent.network.generation, "full" if refused else ""
        place.runs = place.runs if refused else generation
        self.feed(GatewayAcked(session=place.session, gateway_id=name, generation=generation, refused=place.refused))

    @rule(ms=st.sampled_from([1, 1_000, 6_000]))
    def time_passes(self, ms):
        self.now += ms
        self.feed(Tick())

    @invariant()
    def what_is_wanted_is_sound(self):
        assert list(network_problems(desired_of(self.state.networks).network)) == []

    @invariant()
    def load_balancers_fit_their_vpcs(self):
        networks = self.state.networks
        for each in networks.load_balancers.values():
            assert list(load_balancer_problems(each, networks.vpcs.get(each.vpc), None)) == []

    @invariant()
    def the_views_of_all_load_balancers_are_those_of_each_alone(self):
        networks = self.state.networks
        every = sorted(networks.load_balancers.values(), key=lambda each: each.id)
        assert load_balancer_views(networks) == tuple(view_of(networks, each) for each in every)

    def balanced(self, name):
        """Return the load balancers that a balancer can serve."""
        every = self.state.networks.load_balancers.values()
        translated = {each.vpc for each in every if each.mode is Mode.FULL_NAT}
        return [each for each in every if each.vpc not in translated or each.vpc in POOLS.get(name, {})]

    def has_services(self, vpc):
        return any(each.vpc == vpc for each in self.state.networks.load_balancers.values())

    def served_at(self, vpc):
        """Return the VTEPs that serve a VPC's virtual IPs: those of attached balancers, else of known ones."""
        known = [name for name in self.state.networks.gateways if name.startswith("b")]
        able = {name for name in known if any(each.vpc == vpc for each in self.balanced(name))}
        return {VTEPS[name] for name in able & self.places.keys() or able}

    @invariant()
    def refusals_have_a_reason(self):
        for number, outcome in self.replies.items():
            if isinstance(outcome, HeddleError):
                assert isinstance(outcome, InputError | NotFoundError | InUseError | UnavailableError), number
                assert str(outcome).strip()

    @invariant()
    def no_call_waits_for_an_absent_gateway(self):
        networks = self.state.networks
        for waiting in networks.waiting:
            assert waiting.missing <= {name for name, g in networks.gateways.items() if g.session is not None}

    def teardown(self):
        for name in list(self.places):
            for _ in range(4):
                self.serve(name, refused=False)
        networks = self.state.networks
        for name, place in self.places.items():
            if not networks.generation:
                assert place.replica.desired is None
                continue
            known, held, whole = networks.gateways[name], place.replica.desired, desired_of(networks)
            assert (known.acknowledged, known.refused) == (place.runs, place.refused)
            mine = whole.network.vpcs
            if name.startswith("h"):
                mine = tuple(each for each in mine if VTEPS[name] in networks.vteps[each.id])
                ips = {each.vpc: set(each.vteps) for each in held.virtual_ips}
                assert ips == {each.id: self.served_at(each.id) for each in mine if self.has_services(each.id)}
            if name.startswith("b"):
                assert list(held.load_balancers) == self.balanced(name)
                mine = tuple(each for each in mine if any(lb.vpc == each.id for lb in self.balanced(name)))
            assert {own(each) for each in held.network.vpcs} == set(mine)
            assert held.gateways == whole.gateways
            if name.startswith("g"):
                reached = {
                    (vpc.id, end.vtep) for vpc in held.network.vpcs for end in vpc.endpoints if end.ip.packed[3] == 100
                }
                assert {vpc for vpc, _ in reached} == {each.id for each in mine if self.served_at(each.id)}
                assert all(vtep in self.served_at(vpc) for vpc, vtep in reached)
                assert replace(held.network, vpcs=()) == replace(whole.network, vpcs=())
                assert place.sent.network.generation == networks.generation
        self.now += 10_000
        self.feed(Tick())
        assert set(self.replies) == set(self.requests)
        assert networks.endpoints == sum(len(each.endpoints) for each in networks.vpcs.values())


def test_a_gateway_that_refuses_the_newest_generation_has_acknowledged_none():
    machine = GatewayMachine()
    machine.border(names=[])
    machine.attach(name="g2")
    machine.serve(name="g2", refused=False)
    machine.serve(name="g2", refused=True)
    machine.teardown()
    assert machine.state.networks.gateways["g2"].acknowledged == 0


TestGatewayMachine = GatewayMachine.TestCase
TestGatewayMachine.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)

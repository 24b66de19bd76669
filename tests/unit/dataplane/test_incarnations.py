"""What goes on keeps its incarnation; what was removed and made again has another one; messages carry them."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.dataplane.config.desired import Desired
from heddle.dataplane.config.incarnations import Incarnated, is_unchanged, numbers_of, succeeding
from heddle.dataplane.config.network import NetworkConfig, Peering
from heddle.dataplane.config.replica import Replica
from heddle.dataplane.config.updates import updates
from tests.fakes.gateway.changing_networks import vpc
from tests.support.examples import examples

FLOATING = ("203.0.113.20", "203.0.113.21")
ENDPOINTS = ("10.0.0.10", "10.0.0.11")


@st.composite
def wanted(draw):
    """A few VPCs with few choices, so that each thing often goes and comes back."""
    found = {}
    for name in draw(st.sets(st.sampled_from("abc"))):
        ends = draw(st.permutations(ENDPOINTS))
        public = draw(st.lists(st.sampled_from(FLOATING), unique=True, max_size=2))
        vlans = draw(st.lists(st.sampled_from((7, 8)), unique=True, max_size=1))
        floating = tuple(zip(public, ends[: len(public)], strict=True))
        vni, tenant = draw(st.integers(1, 2)), draw(st.sampled_from("xy"))
        found[name] = vpc(name, vni, floating=floating, vlans=vlans, tenant=tenant)
    pairs = draw(st.sets(st.sampled_from([("a", "b"), ("a", "c")])))
    return found, frozenset(Peering(a=a, b=b) for a, b in pairs if {a, b} <= found.keys())


def parts(vpcs, peerings):
    """Return the incarnation of each thing, by what it is."""
    found = {}
    for each in vpcs.values():
        own = (each.id, each.tenant, each.vni)
        found[own] = each.incarnation
        found |= {(own, part.public, part.endpoint): part.incarnation for part in each.floating_ips}
        found |= {(own, part.vlan, part.customer): part.incarnation for part in each.direct_connects}
    for each in peerings:
        both = tuple((vpcs[name].tenant, vpcs[name].vni) for name in (each.a, each.b))
        found[each.a, each.b, both] = each.incarnation
    return found


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(wanted(), max_size=12))
def test_a_thing_has_one_number_while_it_is_there_and_a_larger_one_when_it_is_made_again(states):
    now, last, there = Incarnated({}, frozenset()), {}, set()
    for generation, (vpcs, peerings) in enumerate(states, 1):
        now = succeeding(now, vpcs, peerings, generation)
        assert (now.vpcs, now.peerings) == (vpcs, peerings)
        found = parts(now.vpcs, now.peerings)
        for what, number in found.items():
            if what in there:
                assert number == last[what]
            elif what in last:
                assert number > last[what]
        last, there = last | found, set(found)


@given(wanted())
def test_the_first_networks_have_the_same_numbers_whenever_they_are_applied(state):
    first = succeeding(Incarnated({}, frozenset()), state[0], state[1], 1_700_000_000_000)
    assert set(parts(first.vpcs, first.peerings).values()) <= {0}


@given(wanted())
def test_what_does_not_change_is_the_same_object(state):
    first = succeeding(Incarnated({}, frozenset()), state[0], state[1], 5)
    again = succeeding(first, first.vpcs, first.peerings, 6)
    assert (again.vpcs, again.peerings, again.ended) == (first.vpcs, first.peerings, first.ended)
    assert all(again.vpcs[name] is first.vpcs[name] for name in first.vpcs)


def test_incarnations_that_a_caller_names_are_ignored():
    first = succeeding(Incarnated({}, frozenset()), {"a": replace(vpc("a", 1), incarnation=9)}, frozenset(), 1)
    assert first.vpcs["a"].incarnation == 0
    again = succeeding(first, {"a": replace(vpc("a", 1, nat="203.0.113.9"), incarnation=9)}, frozenset(), 2)
    assert again.vpcs["a"].incarnation == 0


def test_another_router_continues_a_direct_connect():
    one = vpc("a", 1, vlans=(7,))
    first = succeeding(Incarnated({}, frozenset()), {"a": one}, frozenset(), 1)
    moved = replace(one.direct_connects[0], next_hop=IPv4Address("10.99.0.9"))
    again = succeeding(first, {"a": replace(one, direct_connects=(moved,))}, frozenset(), 2)
    assert (again.ended, again.vpcs["a"].direct_connects[0].incarnation) == (0, 0)


def desired(state, generation):
    return Desired(network=NetworkConfig(generation=generation, vpcs=tuple(state.vpcs.values()),
                                         peerings=state.peerings))  # fmt: skip


def held_by(replica):
    assert replica.desired is not None
    network = replica.desired.network
    return parts({each.id: each for each in network.vpcs}, network.peerings)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(wanted(), st.booleans()), min_size=1, max_size=8))
def test_a_gateway_has_the_incarnations_of_the_controller_also_if_it_missed_some_generations(states):
    now, sent, replica = Incarnated({}, frozenset()), None, Replica()
    for generation, ((vpcs, peerings), is_sent) in enumerate(states, 1):
        now = succeeding(now, vpcs, peerings, generation)
        if is_sent:
            newest = desired(now, generation)
            for message in updates(sent, newest):
                replica.apply(message)
            sent = newest
            assert held_by(replica) == parts(now.vpcs, now.peerings)


def test_a_controller_without_its_state_leaves_a_gateway_its_incarnations():
    whole = vpc("a", 1, floating=((FLOATING[0], ENDPOINTS[0]),), vlans=(7,))
    state = Incarnated({}, frozenset())
    for generation, vpcs in enumerate(({"a": whole}, {}, {"a": whole, "b": vpc("b", 2)}), 1):
        state = succeeding(state, vpcs, frozenset({Peering(a="a", b="b")} if "b" in vpcs else ()), generation)
    assert state.vpcs["a"].incarnation
    replica = Replica()
    begun_again = succeeding(Incarnated({}, frozenset()), state.vpcs, state.peerings, 4)
    for newest in (desired(state, 3), desired(begun_again, 4)):
        for message in updates(None, newest):
            replica.apply(message)
    assert held_by(replica) == parts(state.vpcs, state.peerings)


def test_a_vpc_that_differs_in_its_incarnation_alone_is_sent():
    one = vpc("a", 1, floating=((FLOATING[0], ENDPOINTS[0]),))
    other = replace(one, floating_ips=(replace(one.floating_ips[0], incarnation=7),))
    assert one == other
    assert not is_unchanged(one, other)
    assert numbers_of(other) == (0, 7)
    network = NetworkConfig(generation=1, vpcs=(one,))
    (message,) = updates(Desired(network=network), Desired(network=replace(network, generation=2, vpcs=(other,))))
    assert [list(each.numbers) for each in message.incarnations] == [[0, 7]]


@pytest.mark.parametrize("numbers", [[1], [1, 2, 3]])
def test_a_vpc_with_another_number_of_incarnations_is_refused(numbers):
    one = vpc("a", 1, floating=((FLOATING[0], ENDPOINTS[0]),))
    (message,) = updates(None, Desired(network=NetworkConfig(generation=1, vpcs=(one,))))
    message.incarnations.add(vpc_id="a", numbers=numbers)
    found = Replica().apply(message)
    assert found is not None
    assert "vpc a: incarnations" in found.refused["a"]

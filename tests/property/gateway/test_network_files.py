"""A random network file over a random state is applied whole or changes nothing.

What it leads to is what its objects lead to, one after the other, in any order in which each of them is accepted.
"""

from dataclasses import replace
from ipaddress import IPv4Address, ip_network
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from heddle.controller.brain.begin import begin
from heddle.controller.brain.decide import decide
from heddle.controller.brain.settings import Settings
from heddle.controller.model.effect import NetworksChanged, Persist, Reply
from heddle.controller.model.error import InputError
from heddle.controller.model.network_event import ApplyBorder, ApplyLoadBalancer, ApplyNetwork, ApplyPeering, ApplyVpc
from heddle.dataplane.config.balancers import BackEnd, LoadBalancer
from heddle.dataplane.config.network import BorderRule, DirectConnect, Endpoint, FloatingIp, Peering, Subnet, Vpc
from heddle.foundation.network import Network
from tests.oracles.whole_networks import is_sound
from tests.support.examples import examples
from tests.unit.brain.driver import small_fabric

EMPTY = begin(small_fabric(), Settings(is_journaled=True))
NOW = 1_000_000
NAMES = st.sampled_from("abc")
PUBLIC = [IPv4Address(f"203.0.113.{last}") for last in (21, 22, 23)]
VTEP = IPv4Address("192.0.2.7")


def at(third, last):
    return IPv4Address(f"10.4.{third}.{last}")


@st.composite
def vpcs(draw):
    """Return a VPC that is valid by itself: few numbers and addresses, so that it conflicts with others."""
    third, hosts = draw(st.integers(0, 2)), draw(st.sets(st.sampled_from((10, 11)), min_size=1))
    nat, public = draw(st.sampled_from((None, *PUBLIC[:2]))), draw(st.sampled_from((None, None, *PUBLIC)))
    vlan = draw(st.sampled_from((None, None, 31, 32)))
    prefix = ip_network(f"10.4.{third}.0/24")
    return Vpc(
        id=draw(NAMES),
        vni=draw(st.integers(1, 4)),
        subnets=(Subnet(prefix=prefix, gateway=prefix[1]),),
        endpoints=tuple(Endpoint(ip=at(third, host), mac=0x0600 << 32 | host, vtep=VTEP) for host in sorted(hosts)),
        nat=nat,
        floating_ips=()
        if public in (None, nat)
        else (FloatingIp(public=public, endpoint=at(third, draw(st.sampled_from((10, 100))))),),
        direct_connects=()
        if vlan is None
        else (DirectConnect(vlan=vlan, customer=ip_network(f"172.20.{draw(st.integers(0, 1))}.0/24"), next_hop=VTEP),),
        realm=draw(st.sampled_from((Network.BUSINESS, Network.BUSINESS, Network.STORAGE))),
    )


@st.composite
def balancers(draw):
    third = draw(st.integers(0, 2))
    return LoadBalancer(
        id=draw(st.sampled_from(("web", "dns"))),
        vpc=draw(st.sampled_from("aabbccx")),
        vip=at(third, draw(st.sampled_from((11, 100, 100)))),
        port=80,
        back_ends=(BackEnd(ip=at(third, 10), port=80),),
    )


RULE = BorderRule(allow=True, vpc="a", realm=Network.STORAGE, remote=ip_network("10.9.0.0/16"))
RULES = st.builds(
    lambda name: replace(RULE, vpc=name),
    st.sampled_from("aabb*x"),
)
PEERINGS = st.sets(st.sampled_from(("ab", "ab", "ac", "bc", "aa", "ax")), max_size=2)
FILES = st.builds(
    dict,
    vpcs=(st.lists(vpcs(), max_size=3, unique_by=lambda vpc: (vpc.id, vpc.vni)) | st.lists(vpcs(), max_size=3)).map(
        tuple
    ),
    peerings=PEERINGS.map(lambda pairs: frozenset(Peering(a=min(pair), b=max(pair)) for pair in pairs)),
    load_balancers=st.lists(balancers(), max_size=2).map(tuple),
    border=st.none() | st.lists(RULES, max_size=2).map(tuple),
)


NO_MORE = {"peerings": frozenset(), "load_balancers": (), "border": None}
SWAPPED = (("vni",), ("direct_connects",), ("nat",), ("floating_ips", "subnets", "endpoints"))
"""Fields that belong together."""


@st.composite
def starts(draw):
    """Return a file without conflicts: of each VPC the numbers and addresses are its own."""
    balanced = draw(st.sets(st.sampled_from((0, 1))))
    return {
        "vpcs": tuple(draw(own(number, name, balanced)) for number, name in enumerate("abc")),
        "peerings": frozenset(Peering(a=a, b=b) for a, b in draw(st.sets(st.sampled_from(("ab", "ac", "bc"))))),
        "load_balancers": tuple(
            LoadBalancer(
                id=("web", "dns")[number],
                vpc="ab"[number],
                vip=at(number, 100),
                port=80,
                back_ends=(BackEnd(ip=at(number, 10), port=80),),
            )
            for number in sorted(balanced)
        ),
        "border": draw(st.sampled_from((None, (RULE,)))),
    }


@st.composite
def own(draw, number, name, balanced):
    prefix = ip_network(f"10.4.{number}.0/24")
    ends = tuple(Endpoint(ip=prefix[host], mac=0x0600 << 32 | host, vtep=VTEP) for host in (10, 11))
    leads_to = at(number, draw(st.sampled_from((10, 100, 100) if number in balanced else (10,))))
    connect = DirectConnect(vlan=30 + number, customer=ip_network(f"172.20.{number}.0/24"), next_hop=VTEP)
    return Vpc(
        id=name,
        vni=number + 1,
        subnets=(Subnet(prefix=prefix, gateway=prefix[1]),),
        endpoints=ends[: draw(st.integers(1, 2))],
        floating_ips=(FloatingIp(public=PUBLIC[number], endpoint=leads_to),) * min(1, draw(st.integers(0, 2))),
        direct_connects=(connect,) * draw(st.integers(0, 1)),
    )


@st.composite
def tweaks(draw, networks):
    """Return a file with one object of a state that differs a little."""
    if networks.load_balancers and draw(st.booleans()):
        each = draw(st.sampled_from(sorted(networks.load_balancers.values(), key=lambda each: each.id)))
        return {**NO_MORE, "vpcs": (), "load_balancers": (replace(each, vip=each.vip + draw(st.sampled_from((1, 2)))),)}
    vpc = draw(st.sampled_from(sorted(networks.vpcs.values(), key=lambda vpc: vpc.id)))
    other, fields = draw(vpcs()), draw(st.sampled_from((*SWAPPED, ("endpoints",), ("realm",))))
    new = {name: getattr(other, name) for name in fields}
    if fields == ("endpoints",):
        new = {"endpoints": tuple(replace(end, ip=end.ip + 1) for end in vpc.endpoints[:1])}
    changed = replace(vpc, **new)
    is_sound = changed.nat is None or changed.nat not in {each.public for each in changed.floating_ips}
    return {"vpcs": (changed,) if is_sound else (), **NO_MORE}


@st.composite
def swaps(draw, networks):
    """Return a file in which VPCs of a state change places, all of them or some."""
    known = sorted(networks.vpcs.values(), key=lambda vpc: vpc.id)
    order, fields = draw(st.permutations(known)), draw(st.sampled_from(SWAPPED))
    moved = [
        replace(vpc, **{name: getattr(other, name) for name in fields})
        for vpc, other in zip(known, order, strict=True)
        if vpc is not other
    ]
    sound = [vpc for vpc in moved if vpc.nat is None or vpc.nat not in {each.public for each in vpc.floating_ips}]
    return {"vpcs": tuple(sound[draw(st.sampled_from((0, 0, 0, 1))) :]), **NO_MORE}


def hosts_of(vpc):
    return frozenset(end.vtep for end in vpc.endpoints)


def applied(state, file):
    """Return the state after a file, the outcome of its caller, and the other effects."""
    vteps = {vpc.id: hosts_of(vpc) for vpc in file["vpcs"]}
    state, effects = decide(state, ApplyNetwork(reply=1, vteps=vteps, **file), NOW)
    (outcome,) = (each.outcome for each in effects if isinstance(each, Reply))
    return state, outcome, [each for each in effects if not isinstance(each, Reply)]


def merged(networks, file):
    """Return the objects of a state with those of a file in place of theirs."""
    return (
        networks.vpcs | {vpc.id: vpc for vpc in file["vpcs"]},
        {(each.a, each.b) for each in networks.peerings | file["peerings"]},
        networks.load_balancers | {each.id: each for each in file["load_balancers"]},
        networks.border if file["border"] is None else file["border"],
    )


def objects_of(networks):
    pairs = {(each.a, each.b) for each in networks.peerings}
    return networks.vpcs, pairs, networks.load_balancers, networks.border


def whole(networks):
    """Return all that a change decides, but numbers of generations, and who of a shared NAT address claims it."""
    claims = {claim: owner if claim[0] != "nat" else None for claim, owner in networks.claims.items()}
    return replace(networks, claims=claims, generation=0, known_since=0, ended=0)


def one_by_one(file):
    events: list[Any] = [ApplyVpc(reply=1, vpc=vpc, vteps=hosts_of(vpc)) for vpc in file["vpcs"]]
    events += [ApplyPeering(reply=1, peering=each) for each in sorted(file["peerings"])]
    events += [ApplyLoadBalancer(reply=1, balancer=each) for each in file["load_balancers"]]
    return events + ([ApplyBorder(reply=1, rules=file["border"])] if file["border"] is not None else [])


def in_an_order(state, events):
    """Return the state after these events, None where one is refused."""
    for each in events:
        state, effects = decide(state, each, NOW)
        if any(isinstance(each, Reply) and isinstance(each.outcome, InputError) for each in effects):
            return None
    return state


@settings(max_examples=examples(70), deadline=None)
@given(data=st.data())
def test_a_file_is_applied_whole_or_changes_nothing(data):
    state = applied(EMPTY, data.draw(starts()))[0] if data.draw(st.integers(0, 3)) else EMPTY
    for _ in range(3):
        before = state
        known = before.networks
        file = data.draw(FILES | swaps(known) | tweaks(known) | tweaks(known) if known.vpcs else FILES)
        state, outcome, effects = applied(before, file)
        wanted = merged(before.networks, file)
        is_clear = all(len({each.id for each in file[key]}) == len(file[key]) for key in ("vpcs", "load_balancers"))
        assert isinstance(outcome, InputError) != (is_clear and is_sound(*wanted))
        kinds = [type(each) for each in effects]
        if isinstance(outcome, InputError):
            event("refused")
            assert str(outcome).strip()
            assert (state.networks, kinds) == (before.networks, [])
            continue
        assert objects_of(state.networks) == wanted
        is_first = any(one_by_one(file)) and not before.networks.generation
        has_border = file["border"] is None or before.networks.has_border
        is_new = objects_of(before.networks) != wanted or is_first or not has_border
        assert kinds == ([Persist, NetworksChanged] if is_new else [])
        ordered = in_an_order(before, data.draw(st.permutations(one_by_one(file))))
        event("applied, and in this order possible" if ordered else "applied, and in this order not possible")
        if ordered is not None:
            assert whole(ordered.networks) == whole(state.networks)

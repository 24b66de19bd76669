"""Two tenants change their VPCs in any order, rightly and wrongly, and neither notices the other.

A tenant's replies and what gateways serve it follow from its own calls and from what happens to controller and
gateway: they are the same where the other tenant's calls are left out, or come earlier or later. The oracle is the
same code without the other tenant, and, for what is right, the VPC as it was applied.
"""

from collections import defaultdict
from ipaddress import IPv4Address, ip_network
from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.network_event import (
    ApplyBorder,
    ApplyLoadBalancer,
    ApplyPeering,
    ApplyVpc,
    DeleteLoadBalancer,
    DeletePeering,
    DeleteVpc,
)
from heddle.controller.model.tenant import Quota, Tenant
from heddle.dataplane.config.balancers import BackEnd, LoadBalancer
from heddle.dataplane.config.check_served import public_addresses
from heddle.dataplane.config.network import (
    BorderRule,
    DirectConnect,
    Direction,
    Endpoint,
    FloatingIp,
    Peering,
    SecurityRule,
    Subnet,
    Vpc,
)
from heddle.foundation.network import Network
from tests.fakes.gateway.accepting_site import RESERVED, ROUTER, VTEP, WAN, AcceptingSite
from tests.support.examples import examples

TENANTS = ("red", "blue")
HOSTS = [IPv4Address("192.0.2.1"), IPv4Address("192.0.2.2")]
WRONG = {"red": (ROUTER, VTEP), "blue": (WAN, IPv4Address("203.0.113.255"))}
"""Public addresses that a gateway has reasons not to serve, others for each tenant: an address has one owner."""


def vpc(tenant, number, nat, floating, connect, ends, ssh):
    """Return a VPC of a tenant; only VNI, VLAN and public addresses differ from those of the other tenant's."""
    base = 1 + TENANTS.index(tenant) * 10 + number
    prefix = ip_network(f"10.0.{number}.0/24")
    endpoints = tuple(
        Endpoint(ip=prefix[10 + i], mac=0x0600_0000_0000 | number << 8 | i, vtep=HOSTS[i % 2]) for i in range(ends)
    )
    public = (*WRONG[tenant], IPv4Address(f"203.0.113.{100 + base}"), IPv4Address(f"203.0.113.{200 + base}"))
    leads = ends > 0 and floating is not None and nat != floating
    inward = SecurityRule(allow=ssh, direction=Direction.IN, remote=ip_network("0.0.0.0/0"), port_min=22, port_max=22)
    return Vpc(
        id=f"{tenant}-{number}",
        tenant=tenant,
        vni=base,
        subnets=(Subnet(prefix=prefix, gateway=prefix[1]),),
        endpoints=endpoints,
        rules=(inward,),
        nat=None if nat is None else public[nat],
        floating_ips=(FloatingIp(public=public[floating], endpoint=IPv4Address(f"10.0.{number}.10")),) if leads else (),
        direct_connects=(DirectConnect(vlan=base, customer=ip_network("172.16.0.0/16"), next_hop=prefix[9]),)
        if connect
        else (),
    )


CHOICE = st.sampled_from([None, 0, 1, 2, 2, 3, 3])
NUMBER = st.integers(0, 1)
CHANGES = st.one_of(
    st.tuples(st.just("apply"), NUMBER, CHOICE, CHOICE, st.booleans(), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("apply"), NUMBER, CHOICE, CHOICE, st.booleans(), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("delete"), NUMBER),
    st.tuples(st.sampled_from(["peer", "unpeer", "unbalance"])),
    st.tuples(st.just("balance"), NUMBER),
)
CALLS = st.tuples(st.sampled_from(TENANTS), CHANGES)
HAPPENINGS = st.tuples(
    st.just(""),
    st.sampled_from(["attach", "attach", "detach", "restart", "lose state", "border"]).map(lambda what: (what,)),
)
STEPS = st.lists(st.one_of(CALLS, CALLS, CALLS, HAPPENINGS), max_size=14)


def event(tenant, change):
    """Return a function that makes a tenant's request for a caller's number."""
    kind, *rest = change
    who = Tenant(name=tenant, quota=Quota())
    both = Peering(a=f"{tenant}-0", b=f"{tenant}-1")
    if kind == "apply":
        wanted = vpc(tenant, *rest)
        vteps = frozenset(end.vtep for end in wanted.endpoints)
        return lambda reply: ApplyVpc(reply=reply, vpc=wanted, vteps=vteps, tenant=who)
    if kind == "delete":
        return lambda reply: DeleteVpc(reply=reply, vpc_id=f"{tenant}-{rest[0]}", tenant=who)
    if kind == "balance":
        ip = f"10.0.{rest[0]}"
        balancer = LoadBalancer(
            id=f"{tenant}-web", tenant=tenant, vpc=f"{tenant}-{rest[0]}", vip=IPv4Address(f"{ip}.100"), port=80,
            back_ends=(BackEnd(ip=IPv4Address(f"{ip}.10"), port=80),),
        )  # fmt: skip
        return lambda reply: ApplyLoadBalancer(reply=reply, balancer=balancer, tenant=who)
    if kind == "unbalance":
        return lambda reply: DeleteLoadBalancer(reply=reply, balancer_id=f"{tenant}-web", tenant=who)
    made = ApplyPeering if kind == "peer" else DeletePeering
    return lambda reply: made(reply=reply, peering=both, tenant=who)


def happen(site, what):
    match what:
        case "attach":
            site.attach()
        case "detach":
            site.detach()
        case "restart":
            site.restart()
            site.attach()
        case "lose state":
            site.lose_state()
            site.attach()
        case "border":
            rule = BorderRule(allow=True, vpc="*", realm=Network.STORAGE, remote=ip_network("172.31.0.0/16"))
            site.call(lambda reply: ApplyBorder(reply=reply, rules=(rule,)))


def run(steps):
    """Return a site after these steps, and the replies by tenant."""
    site, replies = AcceptingSite(), defaultdict(list)
    for who, change in steps:
        if who:
            replies[who].append(site.call(event(who, change)))
        else:
            happen(site, *change)
    return site, replies


def of(site, tenant):
    """Return what a tenant has: in the controller, and at the gateway as values and as tables."""
    networks, prefix = site.state.networks, f"{tenant}-"
    base = 1 + TENANTS.index(tenant) * 10
    return {
        "vpcs": {name: each for name, each in networks.vpcs.items() if name.startswith(prefix)},
        "peerings": {each for each in networks.peerings if each.a.startswith(prefix)},
        "balancers": {name: each for name, each in networks.load_balancers.items() if name.startswith(prefix)},
        "claims": {claim: owner for claim, owner in networks.claims.items() if owner.startswith(prefix)},
        "served": {each.id: each for each in site.served.vpcs if each.id.startswith(prefix)},
        "served peerings": {each for each in site.served.peerings if each.a.startswith(prefix)},
        "kept": {name: why for name, why in site.kept.items() if name.startswith(prefix)},
        "tables": {vni: rest for vni, rest in site.view().items() if base <= vni < base + 10},
    }


def apart(steps):
    """Return the steps with the calls of one tenant before those of the other, wherever nothing happens between."""
    found = []
    for _, part in groupby(steps, key=lambda step: bool(step[0])):
        found += sorted(part, key=lambda step: step[0])
    return found


@given(STEPS)
@settings(max_examples=examples(50))
def test_a_tenant_gets_the_same_replies_and_is_served_the_same_without_the_other(steps):
    site, replies = run(steps)
    for mine, other in (TENANTS, TENANTS[::-1]):
        alone, heard = run([step for step in steps if step[0] != other])
        assert heard[mine] == replies[mine]
        assert of(alone, mine) == of(site, mine)


@given(STEPS)
@settings(max_examples=examples(30))
def test_calls_of_two_tenants_reach_the_same_state_in_any_order(steps):
    one, other = run(steps)[0], run(apart(steps))[0]
    for tenant in TENANTS:
        assert of(one, tenant) == of(other, tenant)


@given(STEPS)
@settings(max_examples=examples(30))
def test_what_is_right_is_served_as_wanted_and_what_is_wrong_is_reported(steps):
    site, _ = run([*steps, ("", ("attach",))])
    networks, served = site.state.networks, {each.id: each for each in site.served.vpcs}
    if not networks.generation:
        return
    assert site.kept.keys() <= networks.vpcs.keys() | site.unknown
    for name, wanted in networks.vpcs.items():
        is_wrong = any(address in RESERVED for _, address in public_addresses(wanted))
        assert (name in site.kept) == is_wrong
        assert is_wrong or served[name] == wanted
    for name, why in site.kept.items():
        assert next(tenant for tenant in TENANTS if not name.startswith(tenant)) not in why


@given(STEPS)
@settings(max_examples=examples(30))
def test_a_good_state_repairs_a_wrong_one_whatever_came_before(steps):
    site, _ = run([*steps, ("", ("attach",))])
    good = [("red", ("apply", number, 2, 3, False, 1, True)) for number in (0, 1)]
    for who, change in good:
        assert site.call(event(who, change)) == "done"
    served = {each.id: each for each in site.served.vpcs}
    for who, (_, *choices) in good:
        assert served[f"red-{choices[0]}"] == vpc(who, *choices)
    assert not any(name.startswith("red") for name in site.kept)


@given(STEPS, st.sampled_from(TENANTS))
@settings(max_examples=examples(30))
def test_a_controller_that_lost_its_state_and_learns_of_one_tenant_changes_nothing_for_the_other(steps, mine):
    site, _ = run([*steps, ("", ("attach",))])
    (other,) = {*TENANTS} - {mine}
    before = of(site, other)
    site.lose_state()
    site.attach()
    site.call(event(mine, ("apply", 0, 2, None, False, 2, True)))
    after = of(site, other)
    for key in ("served", "served peerings", "tables"):
        assert after[key] == before[key]
    assert site.unknown >= after["served"].keys() - site.state.networks.vpcs.keys()

"""Events of a tenant change its own objects alone, within its quota; others' objects are as if they did not exist."""

from collections.abc import Sequence
from dataclasses import fields, replace
from ipaddress import IPv4Address
from typing import cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.access.policy import TenantPolicy
from heddle.controller.access.scope import TenantScope
from heddle.controller.brain.begin import begin
from heddle.controller.brain.decide import decide
from heddle.controller.brain.settings import Settings
from heddle.controller.brain.state import Job
from heddle.controller.brain.tenants import job_quota_refusal
from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.model.effect import Reply
from heddle.controller.model.error import AlreadyExistsError, BudgetExceededError, InputError, NotFoundError
from heddle.controller.model.event import Event, Release, Renew, Submit
from heddle.controller.model.job import Steering
from heddle.controller.model.job_state import JobState
from heddle.controller.model.network_event import (
    ApplyLoadBalancer,
    ApplyNetwork,
    ApplyPeering,
    ApplyVpc,
    DeleteLoadBalancer,
    DeletePeering,
    DeleteVpc,
)
from heddle.controller.model.plan import FlowPlan, JobFlows
from heddle.controller.model.tenant import Quota, Tenant
from heddle.dataplane.config.balancers import BackEnd, LoadBalancer
from heddle.dataplane.config.check import neighbours_of
from heddle.dataplane.config.network import Peering, Vpc
from tests.unit.brain.driver import shift_job, small_fabric

FABRIC = small_fabric()
EMPTY = begin(FABRIC, Settings(), 0)
RED = Tenant(name="red")
SCOPE = TenantScope("red", TenantPolicy(nics=None), FABRIC)
VIP = IPv4Address("10.1.0.9")
IDS = ("n1", "n2", "n3", "n4")


def job(job_id, tenant, number=1, **more):
    request = shift_job(job_id, tenant=tenant, **more)
    flows = JobFlows(job_id=job_id, flows=cast(Sequence[FlowPlan], range(8)), link_loads_bps={}, pinned=False)
    return Job(
        request=request, number=number, generation=1, state=JobState.RUNNING, reason="submitted",
        lease_expires_unix_ms=10**9, flows=flows,
    )  # fmt: skip


def with_jobs(*jobs):
    return replace(EMPTY, jobs={each.request.job_id: each for each in jobs})


def balancer(name, tenant, vpc):
    ends = (BackEnd(ip=IPv4Address("10.1.0.5"), port=80),)
    return LoadBalancer(id=name, tenant=tenant, vpc=vpc, vip=VIP, port=80, back_ends=ends)


class Case:
    """A state that prints as its objects and their owners: a whole state is too large to print."""

    def __init__(self, state):
        self.state = state

    def __repr__(self):
        networks = self.state.networks
        jobs = {name: each.request.tenant for name, each in self.state.jobs.items()}
        vpcs = {name: each.tenant for name, each in networks.vpcs.items()}
        return f"{jobs=} {vpcs=} {networks.peerings=} {networks.load_balancers=}"


@st.composite
def fabrics(draw):
    """Return a state with jobs, VPCs, peerings and load balancers of several tenants; ids of kinds overlap."""
    owners = st.sampled_from((None, "red", "blue", ""))
    jobs = {name: draw(owners) for name in IDS}
    vpcs = {name: owner for name in IDS if (owner := draw(owners)) is not None}
    pairs = [Peering(a=a, b=b) for a in sorted(vpcs) for b in sorted(vpcs) if a < b and draw(st.booleans())]
    balancers = {}
    for name in IDS:
        if vpcs and draw(st.booleans()):
            vpc = draw(st.sampled_from(sorted(vpcs)))
            balancers[name] = balancer(name, vpcs[vpc], vpc)
    networks = Networks(
        vpcs={name: Vpc(id=name, tenant=owner, vni=n + 1) for n, (name, owner) in enumerate(vpcs.items())},
        vteps=dict.fromkeys(vpcs, frozenset()),
        peerings=frozenset(pairs),
        peers=neighbours_of(pairs),
        load_balancers=balancers,
    )
    state = with_jobs(*(job(name, owner, n) for n, (name, owner) in enumerate(jobs.items(), 1) if owner is not None))
    return Case(replace(state, networks=networks))


NAMES = st.sampled_from((*IDS, "never"))
FIELDS = {
    "reply": st.just(1), "tenant": st.just(RED), "job_id": NAMES, "vpc_id": NAMES, "balancer_id": NAMES,
    "peering": st.builds(Peering, a=NAMES, b=NAMES),
    "balancer": st.builds(balancer, st.just("new"), st.just("red"), NAMES),
    "peerings": st.frozensets(st.builds(Peering, a=NAMES, b=NAMES), max_size=2),
    "load_balancers": st.lists(st.builds(balancer, st.just("new"), st.just("red"), NAMES), max_size=1).map(tuple),
}  # fmt: skip
NEW = {Submit, ApplyVpc}
"""The events about an object that need not exist."""
KINDS = {kind for kind in get_args(Event) if "tenant" in {field.name for field in fields(kind)}} - NEW
EVENTS = st.one_of(
    *(
        st.builds(kind, **{field.name: FIELDS[field.name] for field in fields(kind) if field.name in FIELDS})
        for kind in sorted(KINDS, key=str)
    )
)


def outcome_of(state, event):
    after, effects = decide(state, event, 1_000)
    found = [effect.outcome for effect in effects if isinstance(effect, Reply)]
    return after, found[0] if found else None


def words_of(event):
    peerings = (event.peering,) if hasattr(event, "peering") else getattr(event, "peerings", ())
    return " ".join(f"{peering.a} {peering.b}" for peering in peerings)


def test_the_events_of_tenants_are_drawn():
    assert {
        Renew, Release, DeleteVpc, DeleteLoadBalancer, DeletePeering, ApplyPeering, ApplyLoadBalancer, ApplyNetwork
    } <= KINDS  # fmt: skip


@given(case=fabrics(), event=EVENTS)
def test_others_objects_are_refused_with_the_text_for_what_does_not_exist(case, event):
    state = case.state
    alone = SCOPE.state(state)
    after, outcome = outcome_of(state, event)
    _, expected = outcome_of(alone, event)
    if isinstance(expected, NotFoundError | InputError):
        assert type(outcome) is type(expected)
        shown = SCOPE.text(str(outcome), state, lambda name: None, words_of(event))
        assert shown == SCOPE.text(str(expected), alone, lambda name: None, words_of(event))
    for kept, before in ((after.jobs, state.jobs), (after.networks.vpcs, state.networks.vpcs)):
        others = {name: each for name, each in before.items() if name not in {*alone.jobs, *alone.networks.vpcs}}
        assert others.items() <= kept.items()


@given(case=fabrics())
def test_a_tenant_s_state_has_its_own_objects_and_no_other(case):
    state = case.state
    seen = SCOPE.state(state)
    assert {name for name, each in state.jobs.items() if each.request.tenant == "red"} == set(seen.jobs)
    assert {name for name, each in state.networks.vpcs.items() if each.tenant == "red"} == set(seen.networks.vpcs)
    assert all({each.a, each.b} <= set(seen.networks.vpcs) for each in seen.networks.peerings)
    assert {each.tenant for each in seen.networks.load_balancers.values()} <= {"red"}


def test_the_id_of_another_tenant_s_vpc_is_taken():
    networks = Networks(vpcs={"a": Vpc(id="a", tenant="blue", vni=1)}, vteps={"a": frozenset()})
    event = ApplyVpc(reply=1, vpc=Vpc(id="a", tenant="red", vni=2), vteps=frozenset(), tenant=RED)
    after, outcome = outcome_of(replace(EMPTY, networks=networks), event)
    assert isinstance(outcome, AlreadyExistsError)
    assert after.networks.vpcs == networks.vpcs


@pytest.mark.parametrize(
    ("quota", "more", "text"),
    [
        (Quota(jobs=1), {}, "has 1 of 1 jobs, and this asks for 1 more"),
        (Quota(nics=8), {}, None),
        (Quota(nics=7), {}, "has 8 of 7 NICs, and this asks for 0 more"),
        (Quota(flows=15), {}, "has 8 of 15 flows, and this asks for 8 more"),
        (Quota(flows=16), {}, None),
        (Quota(pins=7), {"steering": Steering.PIN}, "has 0 of 7 pins, and this asks for 8 more"),
        (Quota(pins=7), {}, None),
    ],
)
def test_a_job_past_a_quota_is_refused_with_the_numbers(quota, more, text):
    state, tenant = with_jobs(job("x", "red"), job("y", "blue", 2)), Tenant(name="red", quota=quota)
    refused = job_quota_refusal(state, (), tenant, shift_job("z", tenant="red", **more))
    assert (refused is None) == (text is None)
    if text is not None:
        assert text in str(refused)


def test_the_pins_of_a_running_job_count_as_planned():
    tenant = Tenant(name="red", quota=Quota(pins=15))
    running = job("x", "red", steering=Steering.PIN)
    assert len(running.flows.flows) == 8
    planned = replace(running, flows=replace(running.flows, flows=cast(Sequence[FlowPlan], range(7))))
    wanted = shift_job("z", tenant="red", steering=Steering.PIN)
    assert "has 8 of 15 pins" in str(job_quota_refusal(with_jobs(running), (), tenant, wanted))
    assert job_quota_refusal(with_jobs(planned), (), tenant, wanted) is None


def test_jobs_that_wait_count_and_the_same_job_submitted_again_does_not():
    tenant = Tenant(name="red", quota=Quota(jobs=1))
    state, first = outcome_of(EMPTY, Submit(reply=1, request=shift_job("x", tenant="red"), tenant=tenant))
    assert first is None
    _, again = outcome_of(state, Submit(reply=2, request=shift_job("x", tenant="red"), tenant=tenant))
    assert again is None
    _, other = outcome_of(state, Submit(reply=3, request=shift_job("y", tenant="red"), tenant=tenant))
    assert isinstance(other, BudgetExceededError)


def test_a_vpc_past_the_quota_is_refused_and_one_that_is_replaced_is_not():
    tenant = Tenant(name="red", quota=Quota(vpcs=1))
    first = ApplyVpc(reply=1, vpc=Vpc(id="a", tenant="red", vni=1), vteps=frozenset(), tenant=tenant)
    state, _ = outcome_of(EMPTY, first)
    again, _ = outcome_of(state, replace(first, vpc=Vpc(id="a", tenant="red", vni=7)))
    assert again.networks.vpcs["a"].vni == 7
    _, other = outcome_of(state, replace(first, vpc=Vpc(id="b", tenant="red", vni=2)))
    assert isinstance(other, BudgetExceededError)
    assert "1 of 1 VPCs" in str(other)

"""What a tenant reads: no names of others in texts, plans and events."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

import pytest

from heddle.controller.access.policy import TenantPolicy
from heddle.controller.access.scope import TenantScope
from heddle.controller.model.error import DeniedError
from heddle.controller.model.log_event import LogEvent
from heddle.controller.model.moves import Cause, MoveLimit, Whose
from heddle.dataplane.config.balancers import BackEnd, LoadBalancer, Mode
from heddle.dataplane.config.network import DirectConnect, Endpoint, FloatingIp, Vpc
from tests.unit.brain.driver import shift_job, small_fabric
from tests.unit.brain.test_tenants import job, with_jobs

FABRIC = small_fabric()
POLICY = TenantPolicy(
    nics=frozenset({"h1-n0", "h2-n0"}),
    vteps=(IPv4Network("10.9.0.0/24"),),
    public=(IPv4Network("203.0.113.0/28"),),
    vlans=frozenset({100}),
)
SCOPE = TenantScope("red", POLICY, FABRIC)
CONNECT = DirectConnect(vlan=101, customer=IPv4Network("10.5.0.0/24"), next_hop=IPv4Address("10.5.0.1"))
STATE = with_jobs(job("mine", "red"), job("theirs", "blue", 2))


def owner(name):
    return {"gone": "blue", "past": "red"}.get(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("job theirs arrived", "job (hidden) arrived"),
        ("job mine arrived", "job mine arrived"),
        ("job forgotten released, link leaf1:1>spine1:1 down", "job (hidden) released, link leaf1:1>spine1:1 down"),
        ("3 jobs arrived, forgotten first", "3 jobs arrived, (hidden) first"),
        ("2 of job theirs (theirs/0/0-1/0); with gone.", "2 of job (hidden) ((hidden)/0/0-1/0); with (hidden)."),
        ("NIC h7-n0 in quarantine", "NIC (hidden) in quarantine"),
        ("NIC h1-n0 of h1 sends more", "NIC h1-n0 of h1 sends more"),
        ("no job 'theirs' holds paths here", "no job 'theirs' holds paths here"),
    ],
)  # fmt: skip
def test_texts_name_nothing_of_others(text, shown):
    assert SCOPE.text(text, STATE, owner) == shown


def test_a_name_that_the_caller_used_itself_stays():
    assert SCOPE.text("job_id: theirs is in use", STATE, owner, "theirs") == "job_id: theirs is in use"


def event(subject, text="text", kind="note"):
    return LogEvent(timestamp_unix_ns=1, severity="info", kind=kind, subject=subject, text=text)


@pytest.mark.parametrize("subject", ["mine", "past", "h1-n0", "leaf1:3", "h2"])
def test_events_of_own_jobs_nics_hosts_and_leaf_ports_are_seen(subject):
    assert SCOPE.event(event(subject, "theirs"), STATE, owner) == event(subject, "(hidden)")


@pytest.mark.parametrize("subject", ["theirs", "gone", "h3-n0", "leaf2:3", "spine1", "controller", "unknown"])
def test_events_of_others_and_of_the_fabric_are_not_seen(subject):
    assert SCOPE.event(event(subject), STATE, owner) is None


def test_an_event_whose_subject_is_also_another_s_is_not_seen():
    state = replace(STATE, networks=replace(STATE.networks, vpcs={"mine": Vpc(id="mine", tenant="blue", vni=1)}))
    assert SCOPE.event(event("mine"), state, owner) is None


def test_the_audit_trail_is_not_a_tenant_s():
    assert SCOPE.event(event("mine", kind="audit"), STATE, owner) is None


def test_a_new_object_is_the_caller_s_and_no_one_else_s():
    assert SCOPE.tenant_named("") == SCOPE.tenant_named("red") == "red"
    with pytest.raises(DeniedError, match="tenant: must be red or empty"):
        SCOPE.tenant_named("blue")


def test_a_tenant_s_job_moves_no_flows_of_others():
    with pytest.raises(DeniedError, match="ARRIVAL"):
        SCOPE.check_job(shift_job("a", move_limits=((Cause.ARRIVAL, MoveLimit(whose=Whose.ANY, max_flows=1)),)))
    SCOPE.check_job(shift_job("a", move_limits=((Cause.ARRIVAL, MoveLimit(whose=Whose.TENANT, max_flows=1)),)))


def endpoint(vtep):
    return Endpoint(ip=IPv4Address("10.1.0.5"), mac=2, vtep=IPv4Address(vtep))


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"endpoints": (endpoint("10.0.0.1"), endpoint("10.9.0.7"), endpoint("10.0.0.3"))}, "endpoints[2].vtep_ip"),
        ({"nat": IPv4Address("198.51.100.1")}, "nat.public_ip"),
        ({"floating_ips": (FloatingIp(public=IPv4Address("198.51.100.1"), endpoint=IPv4Address("10.1.0.5")),)},
         "floating_ips[0].public_ip"),
        ({"direct_connects": (CONNECT,)}, "direct_connects[0].vlan"),
    ],
)  # fmt: skip
def test_a_vpc_uses_hosts_public_addresses_and_vlans_of_its_tenant_only(fields, place):
    with pytest.raises(DeniedError) as caught:
        SCOPE.check_vpc(Vpc(id="v", tenant="red", vni=1, **fields))
    assert f"vpc v: {place}: tenant red may not use" in str(caught.value)
    assert "\n" not in str(caught.value)
    SCOPE.check_vpc(Vpc(id="v", tenant="red", vni=1, nat=IPv4Address("203.0.113.5")))


def test_ip_in_ip_leads_to_own_hosts_only():
    ends = tuple(BackEnd(ip=IPv4Address(ip), port=80) for ip in ("10.0.0.2", "10.0.0.8"))
    balancer = LoadBalancer(id="lb", vpc="v", vip=IPv4Address("10.1.0.9"), port=80, mode=Mode.IP_IN_IP, back_ends=ends)
    with pytest.raises(DeniedError, match=r"backends\[1\]\.ip: tenant red may not use 10\.0\.0\.8"):
        SCOPE.check_balancer(balancer)
    SCOPE.check_balancer(replace(balancer, back_ends=ends[:1]))

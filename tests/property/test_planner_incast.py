"""Incasts keep to few top switches, and no figure of the plan is the worse for it."""

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.plan import Infeasible, Plan
from controller.planner import solve as planner
from tests.oracles.plan_checker import Network, heaviest
from tests.property.planning import fabric_file, job_files, plan_as_json, planned, sick_fabrics, solved

LAB = fabric_file(kind="spine_leaf", spines=8, leaves=8, hosts_per_leaf=8)
RANKS = [f"h{i + 1}-n0" for i in range(64)]


def as_routed(fabric, jobs) -> Plan | Infeasible:
    """Plan without moving incasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "confined", lambda router, jobs, old, new, hops, bundle: hops)
        return solved(fabric, jobs)


def figures(fabric, jobs, plan) -> dict[int, Fraction]:
    """Return each priority's largest utilisation on its own links, counting it and higher ones."""
    network, priority = Network(fabric), {job["job_id"]: job.get("priority", 0) for job in jobs["jobs"]}
    flows = [{**flow, "job": job["job_id"]} for job in plan_as_json(plan)["jobs"] for flow in job["flows"]]
    found = {}
    for level in set(priority.values()):
        loads = heaviest([flow for flow in flows if priority[flow["job"]] >= level], lambda flow: flow["links"][1:-1])
        own = {link for flow in flows if priority[flow["job"]] == level for link in flow["links"][1:-1]}
        found[level] = max((Fraction(loads[link], network.capacity[link]) for link in own), default=Fraction(0))
    return found


def tops_of(plan: Plan, job_id: str) -> set[str]:
    """Return the spines that a job's flows use."""
    job = next(job for job in plan.jobs if job.job_id == job_id)
    return {flow.links[1].split(">")[1].split(":")[0] for flow in job.flows if len(flow.links) > 2}


def gather(**keys) -> dict:
    return {
        "job_id": "gather", "ranks": RANKS, "collectives": [{"kind": "GATHER", "root": 4, "bytes": 1000}], **keys,
    }  # fmt: skip


def bystanders(pairs, gbps=100) -> dict:
    flows = [{"src_rank": a, "dst_rank": b, "rate_bps": gbps * 10**9} for a, b in pairs]
    return {"job_id": "bystander", "ranks": RANKS, "collectives": [{"kind": "CUSTOM", "flows": flows}]}


@given(data=st.data(), fabric=sick_fabrics())
@settings(max_examples=50)
def test_no_figure_of_a_plan_is_the_worse_for_confining_incasts(data, fabric):
    jobs = data.draw(job_files(fabric))
    plan = solved(fabric, jobs)
    if isinstance(plan, Plan):
        before, after = (figures(fabric, jobs, one) for one in (as_routed(fabric, jobs), plan))
        assert all(after[level] <= before[level] for level in before)


def test_a_gather_beside_a_full_permutation_of_the_other_nics_uses_one_spine():
    pairs = [(i, (i + 8) % 64) for i in range(64) if i % 8 != 7 and (i + 8) % 64 != 4 and i != 4]
    jobs = {"version": 1, "jobs": [gather(), bystanders(pairs)]}
    plan = planned(LAB, jobs)
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound == 1
    assert len(tops_of(plan, "gather")) == 1
    assert tops_of(plan, "gather").isdisjoint(tops_of(plan, "bystander"))


def test_a_gather_keeps_off_the_spine_that_a_lone_bystander_uses():
    jobs = {"version": 1, "jobs": [gather(), bystanders([(8, 63)])]}
    plan = planned(LAB, jobs)
    assert len(tops_of(plan, "gather")) == 1
    assert tops_of(plan, "gather").isdisjoint(tops_of(plan, "bystander"))


def test_a_gather_that_makes_the_fullest_link_itself_stays_spread():
    plan = planned(LAB, {"version": 1, "jobs": [gather()]})
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound
    assert len(tops_of(plan, "gather")) == 8


def test_a_job_that_requires_room_keeps_it_from_an_incast():
    jobs = {"version": 1, "jobs": [gather(require_utilisation=0.25), bystanders([(8, 63)])]}
    plan = planned(LAB, jobs)
    own = {job.job_id: job.own_max_link_utilisation for job in plan.jobs}
    assert own["gather"] <= 0.25
    assert len(tops_of(plan, "gather")) == 4


def test_a_pair_that_is_pinned_by_addresses_stays_on_one_path_in_an_incast():
    custom = {"kind": "CUSTOM", "flows": [{"src_rank": i, "dst_rank": 4} for i in range(8, 16)], "qps_per_flow": 2}
    pinned = {"job_id": "gather", "ranks": RANKS, "collectives": [custom], "steering": "PIN"}
    plan = planned(LAB, {"version": 1, "jobs": [pinned, bystanders([(8, 63)])]})
    paths = defaultdict(set)
    for flow in plan.jobs[0].flows:
        paths[flow.src_nic].add(flow.links)
    assert {len(found) for found in paths.values()} == {1}

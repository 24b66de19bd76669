"""Plans of random jobs on random fabrics pass an independent check of the contract."""

import json
from dataclasses import replace

import networkx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric, parse_jobs
from heddle.controller.model.health import Health
from heddle.controller.model.plan import FlowPlan, Infeasible, Plan
from heddle.controller.planner.solve import certified, draft, solve
from heddle.testing.plans.contract_loads import heaviest
from heddle.testing.plans.contract_network import Network
from heddle.testing.plans.plan_checker import check, expected_flows
from tests.support.examples import examples
from tests.support.fabrics.planning import (
    clos3_shapes,
    fabric_file,
    job_files,
    permutation_job,
    plan_as_json,
    planned,
    sick_fabrics,
    solved,
    spine_leaf_shapes,
)


@given(data=st.data(), fabric=sick_fabrics())
@settings(max_examples=examples(150))
def test_a_plan_follows_the_contract(data, fabric):
    jobs = data.draw(job_files(fabric))
    plan = solved(fabric, jobs)
    if isinstance(plan, Infeasible):
        assert some_pair_is_apart(fabric, jobs), plan.why
    else:
        assert check(fabric, jobs, plan_as_json(plan)) == []


def some_pair_is_apart(fabric, jobs) -> bool:
    """Return whether no path up and then down joins the leaves of a flow."""
    network = Network(fabric)
    states = networkx.DiGraph()
    for link in network.alive:
        a, b = network.ends[link]
        if network.rises(link):
            states.add_edge((a, "up"), (b, "up"))
        else:
            states.add_edges_from([((a, "up"), (b, "down")), ((a, "down"), (b, "down"))])
    for flow in expected_flows(network, jobs).values():
        source, target = network.leaf(flow["src"]), network.leaf(flow["dst"])
        start, end = (source, "up"), (target, "down")
        if source != target and not (start in states and end in states and networkx.has_path(states, start, end)):
            return True
    return False


@given(data=st.data(), fabric=sick_fabrics())
@settings(max_examples=examples(30))
def test_the_same_input_gives_the_same_plan(data, fabric):
    jobs = data.draw(job_files(fabric))
    once, again = solved(fabric, jobs), solved(fabric, jobs)
    if isinstance(once, Plan) and isinstance(again, Plan):
        assert plan_as_json(once) == plan_as_json(again)
    else:
        assert once == again


@given(data=st.data(), shape=spine_leaf_shapes(most_spines=9), q=st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=examples(60))
def test_a_permutation_on_two_tiers_meets_its_lower_bound(data, shape, q):
    targets = data.draw(st.permutations(range(shape["leaves"] * shape["hosts_per_leaf"])))
    assume(any(i != j for i, j in enumerate(targets)))
    plan = planned(fabric_file(**shape), {"version": 1, "jobs": [permutation_job(targets, qps_per_flow=q)]})
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound


@given(data=st.data(), shape=clos3_shapes(), q=st.sampled_from([1, 2, 4]))
@settings(max_examples=examples(60))
def test_a_permutation_on_three_tiers_meets_its_lower_bound_where_an_agg_has_a_core_uplink_per_leaf(data, shape, q):
    assume(shape["spines"] // shape["aggs_per_pod"] >= shape["leaves"])
    targets = data.draw(st.permutations(range(shape["pods"] * shape["leaves"] * shape["hosts_per_leaf"])))
    assume(any(i != j for i, j in enumerate(targets)))
    plan = planned(fabric_file(**shape), {"version": 1, "jobs": [permutation_job(targets, qps_per_flow=q)]})
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound


@given(data=st.data(), shape=clos3_shapes())
@settings(max_examples=examples(60))
def test_a_permutation_on_lean_three_tiers_is_at_most_one_flow_above_its_bound(data, shape):
    targets = data.draw(st.permutations(range(shape["pods"] * shape["leaves"] * shape["hosts_per_leaf"])))
    assume(any(i != j for i, j in enumerate(targets)))
    plan = planned(fabric_file(**shape), {"version": 1, "jobs": [permutation_job(targets)]})
    assert plan.certificate.max_link_utilisation <= plan.certificate.lower_bound + 1


@pytest.mark.parametrize("kind", ["RING_ALL_REDUCE", "ALL_TO_ALL"])
@given(data=st.data(), shape=spine_leaf_shapes())
@settings(max_examples=examples(30))
def test_phases_of_equal_demands_meet_their_lower_bound(kind, data, shape):
    nics = sorted(Network(fabric_file(**shape)).nics)
    ranks = data.draw(st.permutations(nics))
    jobs = [
        {
            "job_id": "two-phases",
            "ranks": ranks,
            "collectives": [{"kind": kind, "bytes": 1}, {"kind": "GATHER", "bytes": 1, "phase": 1}],
        }
    ]
    plan = planned(fabric_file(**shape), {"version": 1, "jobs": jobs})
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound


@given(data=st.data(), fabric=sick_fabrics())
@settings(max_examples=examples(40))
def test_kept_jobs_keep_their_paths_and_the_plan_has_all_jobs(data, fabric):
    jobs = data.draw(job_files(fabric))
    network = parse_fabric(json.dumps(fabric), "fabric.yaml")
    requests = parse_jobs(json.dumps(jobs), "jobs.yaml", network)
    kept = []
    for request in requests:
        plan = solve(network, [request], health=network.failed, kept=kept)
        if isinstance(plan, Infeasible):
            return
        for (_, before), after in zip(kept, plan.jobs, strict=False):
            assert [(f.links, f.udp_source_port) for f in before.flows] == [
                (f.links, f.udp_source_port) for f in after.flows
            ]
        assert check(fabric, {"version": 1, "jobs": jobs["jobs"][: len(plan.jobs)]}, plan_as_json(plan)) == []
        kept = list(zip(requests, plan.jobs, strict=False))


@given(data=st.data(), fabric=sick_fabrics())
@settings(max_examples=examples(60))
def test_beside_kept_jobs_only_flows_on_dead_links_move_and_the_plan_follows_the_contract(data, fabric):
    jobs = data.draw(job_files(fabric))["jobs"]
    links = sorted(Network(fabric).switch_links)
    sick = {**fabric, "failed": [*fabric["failed"], *data.draw(st.lists(st.sampled_from(links), max_size=2))]}
    network, dead = parse_fabric(json.dumps(fabric), "fabric.yaml"), Network(sick).dead
    requests = parse_jobs(json.dumps({"version": 1, "jobs": jobs}), "jobs.yaml", network)
    split = data.draw(st.integers(0, len(requests)))
    before = solve(network, requests[:split], health=network.failed)
    if isinstance(before, Infeasible):
        return
    kept = [(one, replace(job, flows=list(job.flows))) for one, job in zip(requests, before.jobs, strict=False)]
    failed = parse_fabric(json.dumps(sick), "fabric.yaml").failed
    drafted = draft(network, requests[split:], health=failed, kept=kept, replan_dead=True)
    plan = drafted if isinstance(drafted, Infeasible) else certified(drafted)
    if isinstance(plan, Infeasible):
        assert some_pair_is_apart(sick, {"version": 1, "jobs": jobs}), plan.why
        return
    stayed = set()
    for old, new in zip(before.jobs, plan.jobs, strict=False):
        for flow, now in zip(old.flows, new.flows, strict=True):
            if dead.isdisjoint(flow.links) and dead.isdisjoint(flow.reverse_links):
                stayed.add(now.flow_id)
                assert paths_and_ports(flow) == paths_and_ports(now)
    assert check(sick, {"version": 1, "jobs": jobs}, plan_as_json(plan), kept=stayed) == []


def paths_and_ports(flow: FlowPlan) -> tuple[object, ...]:
    return flow.links, flow.udp_source_port, flow.reverse_links, flow.reverse_udp_source_port


@given(data=st.data(), fabric=sick_fabrics())
@settings(max_examples=examples(40))
def test_a_priority_gets_what_it_gets_without_lower_jobs(data, fabric):
    jobs = data.draw(job_files(fabric))["jobs"]
    every = solved(fabric, {"version": 1, "jobs": jobs})
    for level in sorted({job["priority"] for job in jobs})[1:]:
        higher = [job for job in jobs if job["priority"] >= level]
        alone = solved(fabric, {"version": 1, "jobs": higher})
        if isinstance(every, Plan) and isinstance(alone, Plan):
            found, wanted = (worst_of(level, higher, fabric, plan) for plan in (every, alone))
            assert found == pytest.approx(wanted, rel=1e-8)


def test_jobs_whose_flows_cross_no_switch_change_nothing_for_an_incast():
    fabric = {
        **fabric_file(kind="rail_optimised", spines=3, leaves=2, hosts_per_leaf=2, nics_per_host=2, uplink_gbps=100),
        "failed": ["spine1"],
    }
    ring = {"kind": "RING_ALL_REDUCE", "phase": 1, "qps_per_flow": 1, "bytes": 10**6, "members": [0, 1]}
    tree = {**ring, "kind": "TREE_ALL_REDUCE", "members": [0, 1, 2]}
    incast = {"priority": 1, "ranks": ["h1-n0", "h2-n1", "h2-n0"], "collectives": [ring, ring, tree]}
    within = {"ranks": ["h1-n0", "h1-n1"], "collectives": [{**ring, "phase": 0}]}
    jobs = [
        {"steering": "SOURCE_PORT", "incast": "INCAST_UNSPECIFIED", **job}
        for job in (
            {**within, "job_id": "lower", "priority": 0},
            {**incast, "job_id": "incast"},
            {**within, "job_id": "higher", "priority": 2},
        )
    ]
    for some in (jobs[1:2], jobs[1:], jobs[:2], jobs):
        plan = solved(fabric, {"version": 1, "jobs": some})
        assert isinstance(plan, Plan)
        assert plan.certificate.max_link_utilisation == pytest.approx(0.5)


def worst_of(level: int, higher: list[dict], fabric: dict, plan: Plan) -> float:
    """Return the largest utilisation of the links of a priority's jobs, counting only jobs of this and higher ones."""
    own = {job["job_id"]: job["priority"] == level for job in higher}
    flows = [
        {**flow, "job": job["job_id"]} for job in plan_as_json(plan)["jobs"] if job["job_id"] in own
        for flow in job["flows"]
    ]  # fmt: skip
    used = {link for flow in flows if own[flow["job"]] for link in flow["links"][1:-1]}
    loads, network = heaviest(flows, lambda flow: flow["links"][1:-1]), Network(fabric)
    return max((loads[link] / network.capacity[link] for link in used), default=0)


def test_running_jobs_of_low_priority_do_not_make_a_new_job_of_high_priority_worse():
    data = fabric_file(kind="spine_leaf", spines=2, leaves=2, hosts_per_leaf=2)
    fabric = parse_fabric(json.dumps(data), "fabric.yaml")
    low, high = parse_jobs(
        json.dumps(
            {
                "version": 1,
                "jobs": [
                    {**permutation_job([2, 3, 0, 1], job_id="low"), "priority": 0},
                    {**permutation_job([3, 2, 1, 0], job_id="high"), "priority": 7},
                ],
            }
        ),
        "jobs.yaml",
        fabric,
    )
    first = solve(fabric, [low], health=Health())
    assert isinstance(first, Plan)
    plan = solve(fabric, [high], health=Health(), kept=[(low, first.jobs[0])])
    assert isinstance(plan, Plan)
    links = [link for flow in plan.jobs[1].flows for link in flow.links[1:-1]]
    assert len(links) == len(set(links))

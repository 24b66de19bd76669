"""Plans of sprayed flows pass an independent check of the contract, and their path sets are even."""

import json
from collections import Counter
from fractions import Fraction

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import InputError
from heddle.controller.model.plan import Infeasible
from heddle.testing.plans.contract_loads import between_switches, heaviest
from heddle.testing.plans.contract_network import Network
from heddle.testing.plans.plan_checker import check
from tests.support.examples import examples
from tests.support.fabrics.planning import (
    clos3_shapes,
    fabric_file,
    job_files,
    permutation_job,
    plan_as_json,
    planned,
    rail_shapes,
    sick_fabrics,
    solved,
    spine_leaf_shapes,
)


def as_json(fabric, plan):
    return plan_as_json(plan, parse_fabric(json.dumps(fabric), "fabric.yaml"))


@given(data=st.data(), fabric=sick_fabrics())
@settings(max_examples=examples(30))
def test_a_plan_with_path_sets_follows_the_contract(data, fabric):
    jobs = data.draw(job_files(fabric))
    fabric["generate"]["paths_per_flow"] = data.draw(st.sampled_from([1, 1, 2, 3, 7]))
    for job in jobs["jobs"]:
        asked = [data.draw(st.sampled_from([0, 1, 2, 3, 4])) for _ in job["collectives"]]
        if any(paths > 1 for paths in asked):
            job["steering"] = "SOURCE_PORT"
            job["incast"] = "RATES"
        for collective, paths in zip(job["collectives"], asked, strict=True):
            collective["paths_per_flow"] = paths
    try:
        plan = solved(fabric, jobs)
    except InputError as why:
        assert "at most" in str(why)  # noqa: PT017 - the other outcome is checked below
        return
    if not isinstance(plan, Infeasible):
        assert check(fabric, jobs, as_json(fabric, plan)) == []


@st.composite
def permutations(draw, shapes):
    shape = draw(shapes)
    hosts = shape["leaves"] * shape["hosts_per_leaf"] * shape.get("pods", 1)
    hosts = shape["leaves"] // shape["nics_per_host"] * shape["hosts_per_leaf"] if "nics_per_host" in shape else hosts
    targets = draw(st.permutations(range(hosts)))
    assume(any(i != j for i, j in enumerate(targets)))
    return fabric_file(**shape), targets


def most_paths(fabric, flow):
    """Return how many of the paths between the ends of a flow a template can give: by cables up, then to the cores."""
    network = Network(fabric)
    leaf, pods = network.leaf(flow["src_nic"]), network.pods()
    up = [link for link in network.alive if network.ends[link][0] == leaf and network.rises(link)]
    if len(flow["links"]) <= 4:
        return len(up)
    upper = network.ends[up[0]][1]
    assert pods
    return len(up) * len([link for link in network.alive if network.ends[link][0] == upper and network.rises(link)])


@given(case=permutations(st.one_of(spine_leaf_shapes(), rail_shapes(), clos3_shapes())), k=st.integers(2, 9))
@settings(max_examples=examples(30))
def test_a_flow_has_as_many_different_paths_as_it_asks_for_or_as_there_are_or_as_weights_name(case, k):
    fabric, targets = case
    nics = sorted(Network(fabric).nics)
    job = permutation_job(targets, paths_per_flow=k, nics=[f"h{i + 1}-n0" for i in range(len(targets))])
    assert set(job["ranks"]) <= set(nics)
    try:
        plan = planned(fabric, {"version": 1, "jobs": [job]})
    except InputError:
        return
    for flow in as_json(fabric, plan)["jobs"][0]["flows"]:
        if "path_set" in flow:
            weights = [path["weight"] for path in flow["path_set"]["paths"]]
            most = min(k, most_paths(fabric, flow))
            assert len(weights) == most or (len(weights) < most and flow["path_set"]["entries"] >= 64)


@given(data=st.data(), spines=st.integers(2, 8), leaves=st.integers(2, 6), k=st.integers(2, 8))
@settings(max_examples=examples(30))
def test_full_leaves_are_evenly_used_after_every_beginning_of_the_lists(data, spines, leaves, k):
    k = min(k, spines)
    fabric = fabric_file(kind="spine_leaf", spines=spines, leaves=leaves, hosts_per_leaf=spines)
    shift = data.draw(st.integers(1, leaves - 1))
    within = [data.draw(st.permutations(range(spines))) for _ in range(leaves)]
    targets = [(leaf + shift) % leaves * spines + within[leaf][nic] for leaf in range(leaves) for nic in range(spines)]
    plan = planned(fabric, {"version": 1, "jobs": [permutation_job(targets, paths_per_flow=k)]})
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound
    flows = as_json(fabric, plan)["jobs"][0]["flows"]
    for sent in range(1, k + 1):
        packets = Counter(
            link
            for flow in flows
            for entry in flow["path_set"]["order"][:sent]
            for link in flow["path_set"]["paths"][entry]["links"][1:-1]
        )
        assert set(packets.values()) == {sent}


@given(case=permutations(st.one_of(spine_leaf_shapes(), clos3_shapes())), k=st.integers(2, 4))
@settings(max_examples=examples(30))
def test_sprayed_flows_fill_no_link_more_than_their_planned_paths_alone(case, k):
    fabric, targets = case
    try:
        plan = planned(fabric, {"version": 1, "jobs": [permutation_job(targets, paths_per_flow=k)]})
    except InputError:
        return
    flows = [{**flow, "job": "one"} for flow in as_json(fabric, plan)["jobs"][0]["flows"]]
    alone = [{name: flow[name] for name in flow if name != "path_set"} for flow in flows]
    network = Network(fabric)
    worst, limit = (
        max(
            (Fraction(load) / network.capacity[link] for link, load in heaviest(each, between_switches).items()),
            default=0,
        )
        for each in (flows, alone)
    )
    assert worst <= limit

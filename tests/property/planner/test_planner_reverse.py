"""Reverse streams are spread over the links like equal flows, whatever the paths of the data."""

from collections import Counter
from math import ceil

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heddle.controller.model.plan import Plan
from tests.support.examples import examples
from tests.support.fabrics.planning import collectives, fabric_file, planned, spine_leaf_shapes


def answers_on_links(plan: Plan) -> Counter[str]:
    return Counter(link for job in plan.jobs for flow in job.flows for link in flow.reverse_links[1:-1])


def answers_of_leaves(plan: Plan) -> Counter[tuple[str, str]]:
    """Count the reverse streams out of and into each leaf."""
    found: Counter[tuple[str, str]] = Counter()
    for job in plan.jobs:
        for flow in job.flows:
            inner = flow.reverse_links[1:-1]
            if inner:
                found["out", inner[0].split(":")[0]] += 1
                found["in", inner[-1].split(">")[1].split(":")[0]] += 1
    return found


@given(data=st.data(), shape=spine_leaf_shapes(most_spines=8))
@settings(max_examples=examples(40))
def test_on_a_healthy_fabric_no_link_has_more_reverse_streams_than_the_pigeonhole_bound(data, shape):
    hosts = shape["leaves"] * shape["hosts_per_leaf"]
    assume(hosts > 2)
    ranks = [f"h{i + 1}-n0" for i in range(hosts)]
    jobs = [
        {"job_id": f"job{n}", "ranks": ranks, "collectives": [data.draw(collectives(hosts, phases=1))]}
        for n in range(data.draw(st.integers(1, 3)))
    ]
    plan = planned(fabric_file(**shape), {"version": 1, "jobs": jobs})
    uplinks = shape["spines"] * shape["links_per_spine"]
    most = max((ceil(count / uplinks) for count in answers_of_leaves(plan).values()), default=0)
    assert max(answers_on_links(plan).values(), default=0) == most


def test_reverse_streams_of_large_and_small_flows_are_spread_evenly():
    sizes = [10**11] + [10**9] * 7
    flows = [{"src_rank": i, "dst_rank": i + 8, "rate_bps": rate} for i, rate in enumerate(sizes)]
    job = {
        "job_id": "a",
        "ranks": [f"h{i + 1}-n0" for i in range(16)],
        "collectives": [{"kind": "CUSTOM", "flows": flows}],
    }
    fabric = fabric_file(kind="spine_leaf", spines=2, leaves=2, hosts_per_leaf=8)
    plan = planned(fabric, {"version": 1, "jobs": [job]})
    forward = Counter(link for flow in plan.jobs[0].flows for link in flow.links[1:-1])
    assert max(forward.values()) == 7
    assert max(answers_on_links(plan).values()) == 4


def test_where_the_mirror_is_even_reverse_streams_take_it():
    ring = {
        "job_id": "a",
        "ranks": {"all": True},
        "collectives": [{"kind": "RING_ALL_REDUCE", "bytes": 8, "qps_per_flow": 2}],
    }
    plan = planned(fabric_file(kind="spine_leaf", spines=4, leaves=4, hosts_per_leaf=1), {"version": 1, "jobs": [ring]})
    for flow in plan.jobs[0].flows:
        assert flow.reverse_links == tuple(">".join(reversed(link.split(">"))) for link in reversed(flow.links))
    assert plan.jobs[0].reverse_links == frozenset()

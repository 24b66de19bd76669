"""The plan checker finds every kind of violation."""

import copy

import pytest

from heddle.testing.plans.plan_checker import check
from tests.support.fabrics.planning import fabric_file, plan_as_json, planned

FABRIC = fabric_file(kind="spine_leaf", spines=2, leaves=2, hosts_per_leaf=2)
JOBS = {
    "version": 1,
    "jobs": [
        {
            "job_id": "job",
            "ranks": ["h1-n0", "h2-n0", "h3-n0", "h4-n0"],
            "collectives": [
                {"kind": "CUSTOM", "flows": [{"src_rank": 0, "dst_rank": 2}, {"src_rank": 1, "dst_rank": 3}]}
            ],
        }
    ],
}


@pytest.fixture(scope="module")
def plan():
    return plan_as_json(planned(FABRIC, JOBS))


def with_links(links):
    return lambda plan: plan["jobs"][0]["flows"][0].update(links=links)


def with_flow(**fields):
    return lambda plan: plan["jobs"][0]["flows"][0].update(fields)


def with_certificate(**fields):
    return lambda plan: plan["jobs"][0]["certificate"].update(fields)


def both_by_one_spine(plan):
    other = plan["jobs"][0]["flows"][1]["links"][1:-1]
    links = plan["jobs"][0]["flows"][0]["links"]
    plan["jobs"][0]["flows"][0]["links"] = [links[0], *other, links[-1]]


BOUNCE = [
    "h1-n0>leaf1:3",
    "leaf1:1>spine1:1",
    "spine1:2>leaf2:1",
    "leaf2:2>spine2:2",
    "spine2:2>leaf2:2",
    "leaf2:3>h3-n0",
]
FLAWS = {
    "a flow is missing": (lambda plan: plan["jobs"][0]["flows"].pop(), "missing"),
    "a flow is there twice": (lambda plan: plan["jobs"][0]["flows"].append(plan["jobs"][0]["flows"][0]), "missing"),
    "a link does not exist": (with_links(["h1-n0>leaf1:3", "leaf1:9>spine1:1", "leaf2:3>h3-n0"]), "no path"),
    "the links do not meet": (with_links(["h1-n0>leaf1:3", "spine1:2>leaf2:1", "leaf2:3>h3-n0"]), "follow"),
    "it ends at another NIC": (with_links(["h1-n0>leaf1:3", "leaf1:4>h2-n0"]), "goes from"),
    "it bounces": (with_links(BOUNCE), "up again"),
    "the demand is wrong": (with_flow(demand_bps=1, rate_bps=1), "demand"),
    "the rate is wrong": (with_flow(rate_bps=50_000_000_000), "rate"),
    "the port is none": (with_flow(udp_source_port=4791), "ports"),
    "two flows meet": (both_by_one_spine, "max_link_utilisation"),
    "the bound is too high": (with_certificate(lower_bound=1.1), "above"),
    "the bound is too low": (with_certificate(lower_bound=0.9), "below"),
    "the bottleneck is another link": (with_certificate(bottleneck_link="spine1:1>leaf1:1"), "not the fullest"),
    "a NIC is fuller": (with_certificate(max_nic_utilisation=0.5), "max_nic_utilisation"),
    "a flow is slowed": (with_certificate(flows_slowed=1), "flows_slowed"),
    "the mean share is too low": (with_certificate(mean_share=0.9), "mean_share"),
    "the worst share is too low": (with_certificate(worst_share=0.5), "worst_share"),
    "a link is over its rate": (with_certificate(links_over_capacity=1), "links_over_capacity"),
    "turns are unasked": (with_flow(window={"slot": 0, "slots": 2, "slot_ns": 100_000}), "takes turns"),
    "a deadlock is claimed": (with_certificate(deadlock_free=False), "deadlock"),
}


def test_a_good_plan_has_no_violation(plan):
    assert check(FABRIC, JOBS, plan) == []


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_violation_is_found(plan, flaw):
    spoil, word = FLAWS[flaw]
    spoilt = copy.deepcopy(plan)
    spoil(spoilt)
    assert any(word in violation for violation in check(FABRIC, JOBS, spoilt))


def test_a_link_out_of_use_is_found(plan):
    used = plan["jobs"][0]["flows"][0]["links"][1]
    assert any("out of use" in violation for violation in check({**FABRIC, "failed": [used]}, JOBS, plan))


GATHER = {
    "version": 1,
    "jobs": [
        {
            "job_id": "job",
            "ranks": ["h1-n0", "h2-n0", "h3-n0", "h4-n0"],
            "incast": "WINDOWS",
            "collectives": [{"kind": "GATHER", "root": 0, "bytes": 1000, "qps_per_flow": 2}],
        }
    ],
}
TURNS = {
    "two senders have one slot": (lambda flows: [flow["window"].update(slot=0) for flow in flows], "in a slot"),
    "a slot is none": (lambda flows: flows[0]["window"].update(slot=3), "window"),
    "queue pairs of a sender are apart": (lambda flows: flows[0]["window"].update(slot=1), "several windows"),
    "a turn is too fast": (lambda flows: flows[0].update(rate_bps=60_000_000_000), "more than it asks"),
}


@pytest.mark.parametrize("flaw", TURNS)
def test_a_violation_in_admission_windows_is_found(flaw):
    spoilt = plan_as_json(planned(FABRIC, GATHER))
    assert check(FABRIC, GATHER, spoilt) == []
    spoil, word = TURNS[flaw]
    spoil(spoilt["jobs"][0]["flows"])
    assert any(word in violation for violation in check(FABRIC, GATHER, spoilt))


def test_reverse_streams_that_crowd_one_link_are_found(plan):
    spoilt = copy.deepcopy(plan)
    one, other = spoilt["jobs"][0]["flows"]
    inner = one["reverse_links"][1:-1]
    other["reverse_links"] = [other["reverse_links"][0], *inner, other["reverse_links"][-1]]
    assert any("the answers on one link" in violation for violation in check(FABRIC, JOBS, spoilt))

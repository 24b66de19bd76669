"""The cut in a refusal is one: in an otherwise healthy fabric, it alone separates the same leaves."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heddle.controller.model.plan import Infeasible
from heddle.controller.planner import refusal
from heddle.controller.planner.solve import solve
from tests.support.examples import examples
from tests.support.fabrics.planner_cases import custom, fabric_of, job_of

SHAPES = (
    {"spines": 2, "leaves": 4, "hosts_per_leaf": 1},
    {"kind": "clos3", "spines": 4, "leaves": 2, "pods": 2, "aggs_per_pod": 2, "hosts_per_leaf": 1},
    {"spines": 2, "leaves": 3, "hosts_per_leaf": 1, "links_per_spine": 2},
)


@settings(max_examples=examples(100))
@given(st.sampled_from(SHAPES), st.data())
def test_the_named_cut_alone_separates_the_sides(shape, data):
    whole = fabric_of(**shape)
    parts = [cable.id for cable in whole.cables] + [switch.id for switch in whole.switches if switch.role != "leaf"]
    failed = data.draw(st.lists(st.sampled_from(parts), unique=True, min_size=2, max_size=6))
    job = job_of(whole, custom((0, len(whole.nics) - 1)))
    refused = solve(whole, (job,), health=fabric_of(**shape, failed=failed).failed)
    assume(isinstance(refused, Infeasible))
    assert isinstance(refused, Infeasible)
    cut = refused.why.split("the cut is ")[1].split(" (out of use)")[0]
    assume(" more" not in cut)
    named = cut.split(", ")
    assert set(named) <= set(failed)
    assert isinstance(solve(whole, (job,), health=fabric_of(**shape, failed=named).failed), Infeasible)


def test_a_cut_of_many_parts_is_counted():
    assert refusal.MAX_NAMED < 5
    fabric = fabric_of(spines=5, failed=[f"leaf1:{s}>spine{s}:1" for s in range(1, 6)])
    refused = solve(fabric, (job_of(fabric, custom((0, 2))),), health=fabric.failed)
    assert isinstance(refused, Infeasible)
    assert "and 2 more (out of use)" in refused.why

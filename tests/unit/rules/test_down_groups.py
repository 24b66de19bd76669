"""The fast computation of a switch's groups of cables downwards equals the general one."""

import pytest

from heddle.controller.config.load import parse_fabric
from tests.support.fabrics.planner_cases import fabric_of

SHAPES = {
    "two tiers": {"spines": 2, "leaves": 3},
    "parallel cables": {"spines": 3, "leaves": 12, "links_per_spine": 2},
    "three tiers": {"kind": "clos3", "spines": 4, "leaves": 2, "pods": 3, "aggs_per_pod": 2},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_disjoint_sets_of_leaves_are_grouped_as_leaf_by_leaf(shape):
    fabric = fabric_of(**shape)
    assert any(fabric.down_groups.values())
    assert all(groups == fabric._groups_by_leaf(switch) for switch, groups in fabric.down_groups.items())


def test_cables_to_overlapping_sets_of_leaves_are_grouped_leaf_by_leaf():
    # leaf2 hangs on both aggregation switches, leaf1 and leaf3 on one each.
    text = """
version: 1
name: overlap
switches:
- {id: core1, role: core, datapath_id: 1}
- {id: agg1, role: agg, datapath_id: 2}
- {id: agg2, role: agg, datapath_id: 3}
- {id: leaf1, role: leaf, datapath_id: 4}
- {id: leaf2, role: leaf, datapath_id: 5}
- {id: leaf3, role: leaf, datapath_id: 6}
links:
- {a: "leaf1:1", b: "agg1:1", gbps: 10}
- {a: "leaf2:1", b: "agg1:2", gbps: 10}
- {a: "leaf2:2", b: "agg2:1", gbps: 10}
- {a: "leaf3:1", b: "agg2:2", gbps: 10}
- {a: "agg1:3", b: "core1:1", gbps: 10}
- {a: "agg2:3", b: "core1:2", gbps: 10}
"""
    groups = parse_fabric(text, "fabric").down_groups["core1"]
    found = {group.leaves: [cable.upper.number for cable in group.cables] for group in groups}
    assert found == {("leaf1",): [1], ("leaf2",): [1, 2], ("leaf3",): [2]}

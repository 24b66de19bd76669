"""Hash routing around failed cables: which spines each leaf uses for which destination."""

import re
from types import SimpleNamespace

import pytest

from heddle.controller.model.address import ip_text
from heddle.mininet_topos.switches.ecmp import EcmpRules
from tests.fakes.demo_results import spine_leaf

FABRIC = spine_leaf(spines=3, leaves=3)
RULES = EcmpRules(SimpleNamespace(fabric=FABRIC))  # type: ignore[arg-type]
CUT = "leaf2:1>spine1:2"


def ports_towards(leaf: str, destination: str, failed: set[str]) -> set[int]:
    """Return the ports that a leaf's rule of the highest priority for a destination uses."""
    groups, flows = RULES.rules(leaf, failed)
    nic = FABRIC.nics_of_leaf[destination][0]
    matching = [flow for flow in flows if f"nw_dst={ip_text(nic.ip)}," in flow or re.match(r"priority=10,ip,", flow)]
    best = max(matching, key=lambda flow: int(re.findall(r"priority=(\d+)", flow)[0]))
    (number,) = re.findall(r"actions=group:(\d+)", best)
    (group,) = [group for group in groups if group.startswith(f"group_id={number},")]
    return {int(port) for port in re.findall(r"bucket_id:(\d+)", group)}


def test_without_failures_a_leaf_uses_all_spines():
    assert ports_towards("leaf1", "leaf2", set()) == {1, 2, 3}


@pytest.mark.parametrize(("leaf", "destination", "ports"), [
    ("leaf1", "leaf2", {2, 3}), ("leaf3", "leaf2", {2, 3}), ("leaf2", "leaf1", {2, 3}),
    ("leaf1", "leaf3", {1, 2, 3}),
])  # fmt: skip
def test_no_leaf_uses_a_spine_that_does_not_reach_the_destination(leaf, destination, ports):
    assert ports_towards(leaf, destination, {CUT}) == ports

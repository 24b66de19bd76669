"""`heddle fabric diff` and `heddle fabric show`: exit statuses for CI, and a listed file that is the same fabric."""

import json

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.steering import layout_of
from tests.support.fabrics.grown_files import SLOWER, SPINE_MORE, YARD


@pytest.fixture
def diff(heddle, files):
    """Compare two texts; gives (exit status, standard output, standard error)."""

    def run(before, after, *options):
        return heddle("fabric", "diff", files("a.yaml", before), files("b.yaml", after), *options)

    return run


def test_a_grown_file_ends_in_0_with_the_rules_that_change(diff):
    status, out, err = diff(YARD, SPINE_MORE)
    assert (status, err) == (0, "")
    assert out.startswith("added switches (1):\n  spine3\nadded cables (3):\n  leaf1:9>spine3:1\n")
    assert "rules change at switches (4):\n" in out
    assert "running jobs keep paths and ports; source ports have room for 4 uplinks of a leaf (2 now)" in out


def test_the_same_file_ends_in_0_and_says_so(diff):
    status, out, _ = diff(YARD, YARD)
    assert (status, out.splitlines()[0]) == (0, "nothing differs")


def test_a_slower_cable_ends_in_1_and_keeps_ports(diff):
    status, out, _ = diff(YARD, SLOWER)
    assert status == 1
    assert "other rate (1):\n  leaf3:2>spine2:3 40 -> 20 Gbit/s\n" in out
    assert out.endswith("running jobs may notice:\n  1 cable or NIC slower\n")


def test_a_fabric_that_cuts_hosts_off_ends_in_1(diff):
    status, out, _ = diff(YARD, YARD + "failed: [leaf2]\n")
    assert status == 1
    assert "2 NICs reach others no more, the first is h3-n0" in out


def test_malformed_files_end_in_2_with_the_key(diff):
    status, out, err = diff(YARD, YARD + "spinse: 3\n")
    assert (status, out) == (2, "")
    assert "b.yaml: spinse: unknown key" in err


def test_json_has_the_same_findings(diff):
    status, out, _ = diff(YARD, YARD.replace("spines: 2", "spines: 3"), "--json")
    found = json.loads(out)
    assert (status, found["exit_status"]) == (1, 1)
    assert found["moved_nics"][0] == ["h1-n0", "leaf1:3", "leaf1:4"]
    assert found["added"]["switches"] == ["spine3"]
    assert found["datapath_ids"][0] == ["leaf1", 3, 4]
    assert {each["switch"] for each in found["rules"]} >= {"leaf1", "spine3"}
    assert any("`generate` numbers ports anew" in text for text in found["harms"])


@pytest.mark.parametrize(
    "text",
    [
        YARD,
        SPINE_MORE + "failed: [leaf1:1>spine1:1, spine2, h1-n0>leaf1:3]\nreserve: {leaf_uplinks: 20}\n",
        "name: pods\nsteering: hash\n"
        "generate: {kind: clos3, pods: 2, spines: 4, aggs_per_pod: 2, leaves: 2, hosts_per_leaf: 2, gbps: 0.02}\n",
        "generate: {kind: rail_optimised, spines: 2, leaves: 4, hosts_per_leaf: 2, nics_per_host: 2, gbps: 25}\n",
    ],
    ids=["generated", "listed and failed", "three tiers", "rails"],
)
def test_an_expanded_file_is_the_same_fabric_with_every_part_and_datapath_id(text, heddle, files):
    status, out, _ = heddle("fabric", "show", files("a.yaml", text), "--expand")
    fabric, again = parse_fabric(text, "a"), parse_fabric(out, "again")
    assert (status, again, layout_of(again)) == (0, fabric, layout_of(fabric))
    assert "generate" not in out.replace("# ", "")
    assert out.count("datapath_id: ") == len(fabric.switches)


def test_without_expand_parts_are_counted(heddle, files):
    status, out, _ = heddle("fabric", "show", files("a.yaml", YARD))
    assert status == 0
    assert out.startswith("yard: 5 switches, 6 cables, 6 NICs; source ports have room for 4 uplinks of a leaf (2 now)")

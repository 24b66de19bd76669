import json

import pytest

from heddle.controller.config.text.document import parse_document
from tests.unit.config.foreign_files import LAB, imported, joined, refused, roles


def test_nodes_become_switches_and_hosts_under_their_own_names():
    found = imported(LAB)
    assert found.format == "containerlab"
    assert found.fabric.name == "lab"
    assert roles(found) == {
        "spine1": "spine", "spine2": "spine", "leaf1": "leaf", "leaf2": "leaf", "leaf3": "leaf",
    }  # fmt: skip
    assert joined(found) == {("leaf1", "spine1"), ("leaf1", "spine2"), ("leaf2", "spine1"), ("leaf2", "spine2"),
                             ("leaf3", "spine2")}  # fmt: skip


def test_a_host_has_a_nic_for_each_of_its_links():
    nics = imported(LAB).fabric.nics
    ports = [(nic.id, nic.port.switch) for nic in nics]
    assert ports == [("client1-n0", "leaf1"), ("client1-n1", "leaf2"), ("client2-n0", "leaf2")]


def test_what_a_fabric_file_cannot_hold_is_counted_with_its_place():
    assert imported(LAB).left_out == (
        "left out 2 x link to outside the lab; the first at source: topology.links[9]",
        "left out 1 x host without a link to a switch; the first at source: topology.nodes.idle1",
        "left out 1 x link within one tier; the first at source: topology.links[8]",
    )


def test_rates_come_from_the_caller():
    fabric = imported(LAB, nic_bps=25 * 10**9, uplink_bps=10**8).fabric
    assert {nic.capacity_bps for nic in fabric.nics} == {25 * 10**9}
    assert {cable.capacity_bps for cable in fabric.cables} == {10**8}


def test_json_is_read_as_yaml():
    text = json.dumps(parse_document(LAB, "lab").value, indent=1)
    assert roles(imported(text)) == roles(imported(LAB))


def test_a_role_label_outranks_name_and_kind():
    text = (
        "name: frr\ntopology:\n  kinds: {linux: {image: frr}}\n  groups: {up: {labels: {role: spine}}}\n  nodes:\n"
        "    r1: {kind: linux, labels: {role: leaf}}\n    r2: {kind: linux, labels: {role: leaf}}\n"
        "    r3: {kind: linux, group: up}\n    leaf-tester: {kind: linux, labels: {role: host}}\n"
        "    h2: {kind: linux}\n  links:\n"
        '    - endpoints: ["r1:a", "r3:a"]\n    - endpoints: ["r2:a", "r3:b"]\n'
        '    - endpoints: ["leaf-tester:a", "r1:b"]\n    - endpoints: ["h2:a", "r2:b"]\n'
    )
    found = imported(text)
    assert roles(found) == {"r3": "spine", "r1": "leaf", "r2": "leaf"}
    assert [nic.host for nic in found.fabric.nics] == ["leaf-tester", "h2"]


def test_a_third_tier_follows_from_the_links():
    text = LAB.replace("  links:\n", "  links:\n    - endpoints: [\"spine1:up\", \"super1:a\"]\n").replace(
        "    idle1:", "    super1: {}\n    idle1:"
    )  # fmt: skip
    found = roles(imported(text))
    assert (found["super1"], found["spine1"], found["leaf1"]) == ("core", "agg", "leaf")


def test_names_that_are_no_ids_are_made_valid_and_unique():
    text = LAB.replace("client1", "client é").replace("client2", "client ü").replace("name: lab", "name: a lab")
    found = imported(text)
    assert found.fabric.name == "a-lab"
    assert [nic.id for nic in found.fabric.nics] == ["client-n0", "client-n1", "client-2-n0"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('"spine1:e1-2"', '"spine9:e1-2"', "source: topology.links[2].endpoints[0]: no node named 'spine9'"),
        ('"spine1:e1-2"', '"spine1:e1-1"', "source: topology.links[2]: 'spine1:e1-1' is used at topology.links[0] too"),
        ('"spine1:e1-2"', "7", "source: topology.links[2].endpoints[0]: 7 is no endpoint"),
        ('["spine1:e1-2", "leaf2:e1-1"]', '["spine1:e1-2"]', "source: topology.links[2].endpoints: must be a list of"),
        ("{type: ixr6}", "7", "source: topology.nodes.spine1: must be a mapping"),
        ("  nodes:", "  knots:", "source: topology.nodes: missing"),
        ("name: lab", "name: [lab", "source: line 2"),
        ("kind: linux", "kind: nokia_srlinux, group: leaf", "source: no host is linked to a switch"),
    ],
)
def test_a_wrong_key_is_named(before, after, expected):
    assert refused(LAB.replace(before, after), "containerlab").startswith(expected)

import pytest

from heddle.controller.model.fabric import PortRef, Role
from heddle.controller.model.health import Health
from heddle.foundation.address import mac_text
from tests.unit.config.lab import DRAWN, GENERATE, fabric, refused


def host(name="x", nic="x0", ip="10.9.0.1", port="leaf1:60", more=""):
    return f"  - {{id: {name}, nics: [{{id: {nic}, ip: {ip}, port: '{port}', gbps: 1{more}}}]}}\n"


def test_a_drawn_fabric_needs_no_generator():
    drawn = fabric(DRAWN)
    assert [cable.id for cable in drawn.cables] == ["l1:1>s1:1", "l2:1>s1:2"]
    assert drawn.nic_by_id["b0"].port == PortRef("l2", 2)
    assert drawn.failed == Health()


def test_datapath_ids_that_are_not_drawn_go_on_after_the_largest():
    text = DRAWN.replace("{id: l1, role: leaf}", "{id: l1, role: leaf, datapath_id: 0x101}")
    assert {switch.id: switch.datapath_id for switch in fabric(text).switches} == {"l1": 257, "s1": 258, "l2": 259}


def test_switches_are_in_the_order_of_their_datapath_ids():
    text = GENERATE + "switches: [{id: spine1, role: spine, datapath_id: 0x101}]\n"
    assert [s.id for s in fabric(text).switches] == ["spine2", "leaf1", "leaf2", "leaf3", "leaf4", "spine1"]


def test_a_drawn_switch_replaces_the_generated_one_and_keeps_its_datapath_id():
    spine = fabric(GENERATE + "switches: [{id: spine1, role: spine, rule_budget: 10}]\n").switch_by_id["spine1"]
    assert (spine.datapath_id, spine.rule_budget) == (1, 10)


@pytest.mark.parametrize("ends", ['a: "leaf1:1", b: "spine1:1"', 'a: "spine1:1", b: "leaf1:1"'])
def test_a_drawn_link_replaces_the_generated_one_in_either_order(ends):
    lab = fabric(GENERATE + f"links: [{{{ends}, gbps: 40}}]\n")
    assert len(lab.cables) == 8
    assert lab.cable_by_link["leaf1:1>spine1:1"].capacity_bps == 40 * 10**9


def test_a_drawn_link_on_free_ports_is_added():
    lab = fabric(GENERATE + "links: [{a: 'spine1:9', b: 'leaf1:9', gbps: 40}]\n")
    assert lab.cables[-1].id == "leaf1:9>spine1:9"


def test_a_drawn_host_replaces_the_generated_one_in_its_place():
    lab = fabric(GENERATE + "hosts:\n" + host("h2", "h2-n0", "10.0.0.77", "leaf1:4"))
    assert [nic.id for nic in lab.nics] == [f"h{i}-n0" for i in range(1, 9)]
    assert lab.nic_by_id["h2-n0"].ip == 0x0A00004D


def test_a_nic_without_a_mac_gets_one_of_its_address():
    lab = fabric(GENERATE + "hosts:\n" + host(ip="10.9.8.7"))
    assert mac_text(lab.nic_by_id["x0"].mac) == "02:00:0a:09:08:07"


def test_a_mac_that_is_taken_is_not_given_again():
    lab = fabric(GENERATE + "hosts:\n" + host() + host("y", "y0", "10.9.0.2", "leaf1:61", ", mac: '02:00:0a:09:00:01'"))
    assert mac_text(lab.nic_by_id["x0"].mac) == "02:01:0a:09:00:01"


def test_a_nic_keeps_its_rail_network_and_gpus():
    drawn = fabric(GENERATE + "hosts:\n" + host(more=", rail: 3, network: storage, gpus: [0, 1]")).nic_by_id["x0"]
    assert (drawn.rail, drawn.network, drawn.gpus) == (3, "storage", (0, 1))


def test_a_link_on_a_port_in_use_is_refused_naming_both():
    assert refused(GENERATE + "links: [{a: 'leaf1:1', b: 'spine2:9', gbps: 1}]\n") == [
        "fabric.yaml: links[0]: the port leaf1:1 is used twice, by the link leaf1:1>spine1:1 (generated) and the link "
        "leaf1:1>spine2:9 (links[0]); use another port for one of them"
    ]


def test_a_nic_on_the_port_of_a_link_is_refused_naming_both():
    assert refused(GENERATE + "hosts:\n" + host(port="leaf1:2")) == [
        "fabric.yaml: hosts[0].nics[0].port: the port leaf1:2 is used twice, by the link leaf1:2>spine2:1 (generated) "
        "and the NIC x0 (hosts[0].nics[0].port); use another port for one of them"
    ]


def test_a_link_drawn_onto_the_port_of_a_generated_nic_is_refused():
    (line,) = refused(GENERATE + "links: [{a: 'leaf1:3', b: 'spine1:9', gbps: 1}]\n")
    assert line.startswith("fabric.yaml: links[0]: the port leaf1:3 is used twice, by the link leaf1:3>spine1:9")


@pytest.mark.parametrize("ends", ['a: "leaf1:9", b: "leaf1:9"', 'a: "leaf1:9", b: "leaf1:10"'])
def test_a_link_to_itself_is_refused(ends):
    (line,) = refused(GENERATE + f"links: [{{{ends}, gbps: 1}}]\n")
    assert line.startswith("fabric.yaml: links[0]: ")
    assert "links leaf1 to itself" in line


@pytest.mark.parametrize(("a", "b"), [("leaf1", "leaf2"), ("spine1", "spine2"), ("spine1", "c1")])
def test_a_link_inside_a_tier_is_refused(a, b):
    text = GENERATE + f"switches: [{{id: c1, role: core}}]\nlinks: [{{a: '{a}:90', b: '{b}:91', gbps: 1}}]\n"
    (line,) = refused(text)
    assert "joins two switches of one tier" in line


def test_a_link_between_the_same_ports_drawn_twice_is_refused():
    links = "links: [{a: 'leaf1:9', b: 'spine1:9', gbps: 1}, {a: 'spine1:9', b: 'leaf1:9', gbps: 2}]\n"
    assert refused(GENERATE + links) == [
        "fabric.yaml: links[1]: spine1:9 to leaf1:9 is drawn twice, at links[0] too; keep one"
    ]


def test_a_port_of_an_unknown_switch_is_refused_with_a_suggestion():
    assert refused(GENERATE + "links: [{a: 'laef1:9', b: 'spine1:9', gbps: 1}]\n") == [
        "fabric.yaml: links[0].a: no switch named laef1, did you mean leaf1?"
    ]
    assert refused(GENERATE + "hosts:\n" + host(port="laef1:9")) == [
        "fabric.yaml: hosts[0].nics[0].port: no switch named laef1, did you mean leaf1?"
    ]


def test_a_nic_on_a_spine_is_refused():
    assert refused(GENERATE + "hosts:\n" + host(port="spine1:9")) == [
        "fabric.yaml: hosts[0].nics[0].port: spine1 has the role spine; a NIC is plugged into a leaf"
    ]


def test_a_switch_drawn_twice_is_refused():
    assert refused(GENERATE + "switches: [{id: a, role: leaf}, {id: a, role: leaf}]\n") == [
        "fabric.yaml: switches[1].id: a is drawn twice, at switches[0] too; keep one, or choose another id"
    ]


def test_a_host_drawn_twice_is_refused():
    text = GENERATE + "hosts:\n" + host() + host("x", "x1", "10.9.0.2", "leaf1:61")
    assert refused(text) == [
        "fabric.yaml: hosts[1].id: x is drawn twice, at hosts[0] too; keep one, or choose another id"
    ]


def test_a_nic_id_given_twice_is_refused():
    assert refused(GENERATE + "hosts:\n" + host(nic="h1-n0")) == [
        "fabric.yaml: hosts[0].nics[0].id: the NIC id h1-n0 is given twice, to h1-n0 (generated) and "
        "h1-n0 (hosts[0].nics[0]); choose another for one of them"
    ]


def test_an_address_given_twice_is_refused():
    assert refused(GENERATE + "hosts:\n" + host(ip="10.0.0.1")) == [
        "fabric.yaml: hosts[0].nics[0].ip: the address 10.0.0.1 is given twice, to h1-n0 (generated) and "
        "x0 (hosts[0].nics[0]); choose another for one of them"
    ]


def test_a_mac_given_twice_is_refused():
    (line,) = refused(GENERATE + "hosts:\n" + host(more=", mac: '02:00:00:00:00:01'"))
    assert "hosts[0].nics[0].mac: the MAC address 02:00:00:00:00:01 is given twice" in line


def test_a_datapath_id_given_twice_is_refused():
    assert refused(GENERATE + "switches: [{id: s9, role: spine, datapath_id: 1}]\n") == [
        "fabric.yaml: switches[0].datapath_id: 0x1 is given to spine1 and s9; each needs its own"
    ]


def test_no_datapath_id_is_left_after_the_largest():
    text = GENERATE + f"switches: [{{id: a, role: leaf, datapath_id: {2**64 - 1}}}, {{id: b, role: leaf}}]\n"
    assert refused(text)[0].startswith("fabric.yaml: switches[1].datapath_id: missing, and the largest possible number")


@pytest.mark.parametrize(
    "drawn",
    ["hosts:\n" + host("leaf1"), "hosts:\n" + host(nic="leaf1"), "switches: [{id: h1, role: leaf}]\n"],
)
def test_a_name_is_of_a_switch_or_of_a_host_and_its_nics(drawn):
    (line,) = refused(GENERATE + drawn)
    assert "choose another" in line


def test_a_nic_may_have_the_name_of_its_host():
    assert fabric(GENERATE + "hosts:\n" + host("x", "x")).nic_by_id["x"].host == "x"


def test_a_role_that_leaves_links_inside_a_tier_is_refused_once():
    assert refused(GENERATE + "switches: [{id: leaf1, role: spine}]\n") == [
        "fabric.yaml: switches[0].role: makes the link leaf1:1>spine1:1 join two switches of one tier; draw it with "
        "the role that it was generated with"
    ]


def test_a_role_that_leaves_nics_without_a_leaf_is_refused():
    (line,) = refused(GENERATE + "switches: [{id: leaf1, role: agg}]\n")
    assert "leaves the NIC h1-n0 on a switch that is no leaf" in line


def test_cables_turn_where_a_drawn_role_turns_the_tiers():
    text = "generate: {kind: clos3, spines: 1, leaves: 1, pods: 1, aggs_per_pod: 1, hosts_per_leaf: 0}\n"
    turned = fabric(text + "switches: [{id: core1, role: leaf}]\n")
    assert {cable.id for cable in turned.cables} == {"pod1-leaf1:1>pod1-agg1:1", "core1:1>pod1-agg1:2"}
    assert turned.switch_by_id["core1"].role is Role.LEAF


def test_limits_count_what_is_drawn_onto_what_is_generated():
    generate = "generate: {kind: spine_leaf, spines: 1, leaves: 19999, hosts_per_leaf: 0}\n"
    assert refused(generate + "switches: [{id: a, role: leaf}]\n") == [
        "fabric.yaml: switches: the fabric has 20001 switches, at most 20000 are allowed"
    ]


@pytest.mark.parametrize("name", ["leaf1:2>spine2:1", "spine2:1>leaf1:2"])
def test_either_direction_names_the_cable_that_failed(name):
    assert fabric(GENERATE + f"failed: ['{name}']\n").failed.down_cables == {"leaf1:2>spine2:1"}


def test_switches_and_nic_links_may_have_failed():
    failed = fabric(GENERATE + "failed: [spine1, 'h1-n0>leaf1:3', 'leaf1:4>h2-n0']\n").failed
    assert failed == Health(down_switches=frozenset({"spine1"}), down_nics=frozenset({"h1-n0", "h2-n0"}))


@pytest.mark.parametrize("name", ["leaf1:9>spine2:1", "leaf1:2>spine2:2", "h1-n0>leaf1:4", "leaf9", "h1-n0", "leaf1:2"])
def test_an_unknown_failed_link_or_switch_is_refused(name):
    (line,) = refused(GENERATE + f"failed: ['{name}']\n")
    assert line.startswith(f"fabric.yaml: failed[0]: no link or switch named '{name}'")


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("h1-n0", "h1-n0/p0>p0-leaf1:3 or h1-n0/p1>p1-leaf1:3"),
        ("h1-n0/p1", "h1-n0/p1>p1-leaf1:3"),
    ],
)
def test_a_nic_or_port_that_failed_is_named_by_its_link(name, links):
    (line,) = refused(GENERATE.replace("spines", "planes: 2, spines", 1) + f"failed: ['{name}']\n")
    assert line.endswith(f"'{name}'; to name a NIC or its port, name its link: {links}")


def test_a_fabric_whose_hosts_are_cut_off_is_sound():
    assert fabric(GENERATE + "failed: [spine1, spine2]\n").failed.down_switches == {"spine1", "spine2"}

from heddle.controller.model.connectivity import cut_off
from heddle.controller.model.health import Health
from tests.unit.config.lab import DRAWN, GENERATE, fabric


def lost(lab):
    return [one.nic for one in cut_off(lab, lab.failed)]


def test_no_nic_is_cut_off_in_a_healthy_fabric():
    assert lost(fabric()) == []


def test_one_spine_of_two_may_fail():
    assert lost(fabric(GENERATE + "failed: [spine1]\n")) == []


def test_the_hosts_of_a_leaf_without_live_uplinks_are_cut_off():
    lab = fabric(GENERATE + "failed: ['leaf2:1>spine1:2', 'leaf2:2>spine2:2']\n")
    found = cut_off(lab, lab.failed)
    assert [(one.nic, one.host) for one in found] == [("h3-n0", "h3"), ("h4-n0", "h4")]
    assert found[0].why == ("every link upwards of its leaf leaf2 is out of use: leaf2:1>spine1:2, leaf2:2>spine2:2")


def test_a_nic_whose_own_link_failed_is_cut_off():
    lab = fabric(GENERATE + "failed: ['h1-n0>leaf1:3']\n")
    (one,) = cut_off(lab, lab.failed)
    assert (one.nic, one.why) == ("h1-n0", "its link h1-n0>leaf1:3 is out of use")


def test_the_hosts_of_a_failed_leaf_are_cut_off():
    assert lost(fabric(GENERATE + "failed: [leaf3]\n")) == ["h5-n0", "h6-n0"]


def test_a_leaf_drawn_without_links_is_cut_off():
    text = GENERATE + (
        "switches: [{id: leaf9, role: leaf}]\n"
        "hosts: [{id: x, nics: [{id: x0, ip: 10.9.0.1, port: 'leaf9:1', gbps: 1}]}]\n"
    )
    (one,) = cut_off(fabric(text), Health())
    assert (one.nic, one.why) == ("x0", "its leaf leaf9 has no link upwards; draw one")


def test_without_spines_all_leaves_but_the_first_are_cut_off():
    assert lost(fabric(GENERATE + "failed: [spine1, spine2]\n")) == [f"h{i}-n0" for i in range(3, 9)]


def test_leaves_that_only_a_third_leaf_connects_are_cut_off():
    lab = fabric(GENERATE + "failed: ['leaf1:1>spine1:1', 'leaf2:2>spine2:2']\n")
    (one, *_) = cut_off(lab, lab.failed)
    assert lost(lab) == ["h3-n0", "h4-n0"]
    assert one.why == "no path up and down over live links joins its leaf leaf2 with the rest of the compute network"


def test_separate_networks_are_checked_separately():
    text = DRAWN.replace("links:\n", "  - {id: l3, role: leaf}\nlinks:\n")
    text += "  - {id: c, nics: [{id: c0, ip: 10.0.0.3, port: 'l3:2', gbps: 1, network: management}]}\n"
    assert lost(fabric(text)) == []


def test_a_pod_without_cores_is_cut_off_from_the_larger_rest():
    text = "generate: {kind: clos3, spines: 2, leaves: 2, pods: 3, aggs_per_pod: 2, hosts_per_leaf: 1}\n"
    assert lost(fabric(text + "failed: [pod2-agg1, 'pod2-agg2:3>core2:2']\n")) == ["h3-n0", "h4-n0"]


def test_two_leaves_are_enough_to_be_the_rest():
    assert lost(fabric(DRAWN + "failed: []\n")) == []


def test_a_large_fabric_is_checked_by_leaves():
    text = "generate: {kind: spine_leaf, spines: 32, leaves: 256, hosts_per_leaf: 64}\nfailed: [leaf7]\n"
    assert len(lost(fabric(text))) == 64

from collections import Counter

import pytest

from heddle.controller.config.foreign import Options, import_fabric
from tests.unit.config.foreign_files import RAILS, imported, joined, published, refused, roles


def test_switches_with_gpus_are_leaves_and_the_others_spines():
    found = imported(RAILS)
    assert found.format == "simai"
    assert roles(found) == {
        "switch8": "spine", "switch9": "spine", "switch10": "spine", "switch6": "leaf", "switch7": "leaf",
    }  # fmt: skip
    assert joined(found) == {
        (leaf, spine) for leaf in ("switch6", "switch7") for spine in ("switch8", "switch9", "switch10")
    }


def test_a_host_is_a_server_and_a_gpu_has_a_nic_on_its_rail():
    nics = imported(RAILS).fabric.nics
    ports = [(nic.id, nic.host, nic.rail, nic.gpus, nic.port.switch) for nic in nics]
    assert ports == [
        ("h1-n0", "h1", 0, (0,), "switch6"),
        ("h1-n1", "h1", 1, (1,), "switch7"),
        ("h2-n0", "h2", 0, (0,), "switch6"),
        ("h2-n1", "h2", 1, (1,), "switch7"),
    ]


def test_nvswitch_links_are_left_out_and_counted():
    found = imported(RAILS)
    assert len(found.fabric.cables) == 6
    assert any("4 NVSwitch links" in line for line in found.assumed)
    assert found.left_out == ()


def test_rates_are_those_of_the_file():
    fabric = imported(RAILS).fabric
    assert {nic.capacity_bps for nic in fabric.nics} == {400 * 10**9}
    assert {cable.capacity_bps for cable in fabric.cables} == {200 * 10**9, 10**12}


def test_a_gpu_on_two_leaves_has_a_nic_with_two_ports():
    text = RAILS.replace("11 2 2 5 14", "11 2 2 5 15") + "0 7 400Gbps 0.0005ms 0\n"
    nics = [nic for nic in imported(text).fabric.nics if nic.host == "h1"]
    assert [(nic.id, nic.of, nic.rail, nic.gpus, nic.port.switch) for nic in nics] == [
        ("h1-n0/p0", "h1-n0", 0, (0,), "switch6"),
        ("h1-n0/p1", "h1-n0", 0, (0,), "switch7"),
        ("h1-n1", "", 1, (1,), "switch7"),
    ]


def test_a_link_within_one_tier_is_left_out_and_counted():
    text = RAILS.replace("11 2 2 5 14", "11 2 2 5 15") + "6 7 400Gbps 0.0005ms 0\n"
    assert imported(text).left_out == ("left out 1 x link within one tier; the first at source:17",)


def test_what_hangs_on_the_fabric_without_hosts_is_left_out():
    text = (
        "7 1 0 5 6 H100\n2 3 4 5 6\n0 2 1Gbps 0 0\n1 2 1Gbps 0 0\n2 3 1Gbps 0 0\n3 4 1Gbps 0 0\n4 5 1Gbps 0 0\n"
        "5 6 1Gbps 0 0\n"
    )
    found = imported(text)
    assert roles(found) == {"switch3": "spine", "switch2": "leaf", "switch4": "leaf"}
    assert found.left_out == (
        "left out 2 x switch that no path between hosts needs; the first at source:2",
        "left out 2 x link to a switch that is left out; the first at source:7",
    )


def test_four_tiers_are_refused():
    halves = "0 4 1Gbps 0 0\n1 5 1Gbps 0 0\n2 6 1Gbps 0 0\n3 7 1Gbps 0 0\n"
    aggs = "4 8 1Gbps 0 0\n5 9 1Gbps 0 0\n6 10 1Gbps 0 0\n7 11 1Gbps 0 0\n"
    cores = "8 12 1Gbps 0 0\n9 12 1Gbps 0 0\n10 13 1Gbps 0 0\n11 13 1Gbps 0 0\n"
    top = "12 14 1Gbps 0 0\n13 14 1Gbps 0 0\n"
    text = f"15 1 0 11 14 H100\n{' '.join(map(str, range(4, 15)))}\n{halves}{aggs}{cores}{top}"
    assert "the links that join 'switch4' and 'switch6' fit no three tiers; give the right roles" in refused(text)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("0 6 400Gbps", "0 66 400Gbps", "source:7: '66' is no node"),
        ("0 6 400Gbps", "0 6 fast", "source:7: 'fast' is no rate"),
        ("0 6 400Gbps", "0 6 0Gbps", "source:7: a link's rate must be at least 1 bit/s"),
        ("0 6 400Gbps", "0 6 400000Gbps", "source:7: a rate of 400000 Gbit/s; at most 4,000 are allowed"),
        ("0 6 400Gbps 0.0005ms 0", "0 6", "source:7: a link is two nodes"),
        ("0 6 400Gbps", "6 6 400Gbps", "source:7: node 6 is linked to itself"),
        ("4 5 6 7 8 9 10", "4 5 6 7 8 9", "source:2: 6 switch ids"),
        ("4 5 6 7 8 9 10", "4 5 6 7 8 9 9", "source:2: the same switch id twice"),
        ("11 2 2 5 14 H100", "11 2 2 5 13 H100", "source:16: more links than the 13"),
        ("11 2 2 5 14 H100", "11 2 2 5 15 H100", "source:16: the file ends after 14 links"),
        ("11 2 2 5 14 H100", "99999999999 2 2 5 14 H100", "source:1: 99,999,999,992 GPUs, at most 1,000,000"),
        ("11 2 2 5 14 H100", "11 2 2 50000 14 H100", "source:1: 50,000 switches, at most 20,000"),
        ("11 2 2 5 14 H100", "7 2 2 5 14 H100", "source:1: no GPUs"),
        ("11 2 2 5 14 H100", "11 0 2 5 14 H100", "source:1: no GPUs"),
    ],
)
def test_a_wrong_line_is_named(before, after, expected):
    assert refused(RAILS.replace(before, after), "simai").startswith(expected)


@pytest.mark.parametrize(
    ("name", "nics", "switches", "links"),
    [
        ("Spectrum-X_128g_8gps_400Gbps_H100", 128, {"leaf": 8, "spine": 64}, 512),
        ("AlibabaHPN_128g_8gps_DualToR_SinglePlane_200Gbps_H100", 256, {"leaf": 16, "spine": 16}, 256),
        ("DCN+SingleToR_128g_8gps_400Gbps_H100", 128, {"leaf": 2, "spine": 8}, 16),
    ],
)
def test_the_generated_fabrics_have_the_sizes_in_their_names(name, nics, switches, links):
    found = import_fabric(published("simai", name), Options())
    assert len({nic.host for nic in found.fabric.nics}) == 16
    assert len(found.fabric.nics) == nics
    assert Counter(roles(found).values()) == switches
    assert len(found.fabric.cables) == links
    assert found.left_out == ()


def test_blank_lines_are_ignored():
    assert imported(RAILS.replace("\n0 6", "\n\n  \n0 6")).fabric == imported(RAILS).fabric


@pytest.mark.parametrize(
    ("link", "name"), [("0 1", "link between two GPUs"), ("4 6", "link between an NVSwitch and a switch of the fabric")]
)
def test_a_link_that_a_fabric_file_cannot_hold_is_left_out_and_counted(link, name):
    text = RAILS.replace("11 2 2 5 14", "11 2 2 5 15") + f"{link} 400Gbps 0.0005ms 0\n"
    found = imported(text)
    assert found.fabric == imported(RAILS).fabric
    assert found.left_out == (f"left out 1 x {name}; the first at source:17",)


def test_hosts_of_leaves_that_no_switch_joins_are_refused():
    text = "4 1 0 2 2 H100\n2 3\n0 2 1Gbps 0 0\n1 3 1Gbps 0 0\n"
    assert "no spine: hosts are on several leaves" in refused(text)

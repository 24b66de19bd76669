import pytest

from heddle.controller.config.foreign.formats import hpcc
from tests.unit.config.foreign_files import HPCC, imported, joined, refused, roles


def test_nodes_that_are_no_switches_are_hosts_with_a_nic_for_each_link():
    found = imported(HPCC)
    assert found.format == "hpcc"
    assert roles(found) == {
        "switch4": "leaf", "switch5": "leaf", "switch8": "leaf", "switch9": "leaf",
        "switch6": "spine", "switch7": "spine",
    }  # fmt: skip
    assert joined(found) == {(f"switch{low}", f"switch{up}") for low in (4, 5, 8) for up in (6, 7)} | {
        ("switch9", "switch7")
    }
    ports = [(nic.id, nic.rail, nic.port.switch, nic.capacity_bps // 10**9) for nic in found.fabric.nics]
    assert ports == [
        ("h0-n0", 0, "switch4", 25), ("h1-n0", 0, "switch4", 25), ("h2-n0", 0, "switch5", 25),
        ("h3-n0", 0, "switch8", 50), ("h3-n1", 1, "switch5", 25),
    ]  # fmt: skip
    assert {cable.capacity_bps // 10**9 for cable in found.fabric.cables} == {40, 100}


def test_what_follows_the_announced_links_is_left_out_as_the_simulator_does():
    text = HPCC + "9 6 40Gbps 1000ns 0\n\nsrc dst rate delay error_rate\n"
    found = imported(text)
    assert found.fabric == imported(HPCC).fabric
    assert found.left_out == (
        "left out 2 x line after the 12 links, which the simulator ignores too; the first at source:15",
    )


def test_switch_ids_may_stand_on_several_lines():
    text = HPCC.replace("4 5 6 7 8 9\n", "4 5 6\n7 8 9\n")
    assert imported(text).fabric == imported(HPCC).fabric


def test_a_link_between_two_hosts_is_left_out_and_counted():
    found = imported(HPCC.replace("10 6 12", "10 6 13") + "0 1 25Gbps 1000ns 0\n")
    assert found.left_out == ("left out 1 x link between two hosts; the first at source:15",)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("10 6 12", "10 6", "source:1: the first line must hold the numbers of nodes, switches and links"),
        ("10 6 12", "6 6 12", "source:1: no hosts: there must be more nodes than switches"),
        ("10 6 12", "50010 50000 12", "source:1: 50,000 switches, at most 20,000"),
        ("10 6 12", "10 6 99", "source:14: the file ends after 12 links, the first line says 99"),
        ("10 6 12", "10 5 12", "source:2: 6 switch ids, the first line says 5"),
        ("4 5 6 7 8 9", "4 5 6 7 8 8", "source:2: the switch id 8 a second time"),
        ("4 5 6 7 8 9", "4 5 6 7 8 19", "source:2: '19' is no node"),
        ("0 4 25Gbps", "0 4 fast", "source:3: 'fast' is no rate such as 400Gbps"),
        ("0 4 25Gbps", "4 4 25Gbps", "source:3: node 4 is linked to itself"),
        ("0 4 25Gbps 1000ns 0.000000", "0 4", "source:3: a link is two nodes, rate, delay and error rate"),
    ],
)
def test_a_wrong_line_is_named(before, after, expected):
    assert refused(HPCC.replace(before, after, 1), "hpcc").startswith(expected)


def test_a_file_that_ends_among_the_switch_ids_is_refused():
    assert refused("10 6 12\n4 5\n", "hpcc") == "source:2: the file ends after 2 switch ids, the first line says 6"


def test_a_ring_of_hosts_without_switches_is_refused():
    text = "3 0 3\n\n0 1 25Gbps 0.005ms 0\n1 2 25Gbps 0.005ms 0\n2 0 25Gbps 0.005ms 0\n"
    assert refused(text) == "source: no host is linked to a switch, so there is nothing to plan for"


def test_a_file_is_recognised_by_its_head_and_first_link():
    assert hpcc.looks_like(HPCC)
    assert hpcc.looks_like("9 1 8\n8\n8 0 400Gbps 0.0005ms 0\n")
    assert not hpcc.looks_like("3 4 5\n1 2 3\n4 5 6\n")

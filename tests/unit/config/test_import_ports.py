"""Ports keep the numbers of their interfaces, or the header says that they do not."""

import pytest

from heddle.controller.config.foreign.ports import port_numbers
from heddle.controller.sonic.export import PortNames
from tests.unit.config.foreign_files import LINGJUN, RAILS, imported, lab


@pytest.mark.parametrize(
    ("interfaces", "expected"),
    [
        (["eth3", "eth11"], [3, 11]),
        (["e1-49", "e1-2"], [49, 2]),
        (["ethernet-1/3", "ethernet-1/30"], [3, 30]),
        (["eth7_1", "eth12_1"], [7, 12]),
        (["Ethernet49/1", "Ethernet50/1"], [49, 50]),
        (["swp1", "eth5"], [1, 5]),
        (["E1/5", "E1/6"], [5, 6]),
        (["ge-0/0/0", "ge-0/0/3"], [1, 4]),
        (["Ethernet0", "Ethernet8", "Ethernet12"], [1, 3, 4]),
        (["Ethernet0", "Ethernet1"], [1, 2]),
        (["Ethernet4", "Ethernet8"], [4, 8]),
        (["E1/3", "E1/5/2"], [3, 5]),
        (["swp7s1", "swp8"], [7, 8]),
        (["Ethernet49/1", "Ethernet50/1", "Ethernet1"], [49, 50, 1]),
        (["et-0/0/1:3", "et-0/0/4"], [1, 4]),
    ],
)
def test_an_interface_gives_its_ports_number(interfaces, expected):
    assert list(port_numbers({"s": interfaces})["s"].values()) == expected


@pytest.mark.parametrize(
    "interfaces",
    [
        ["swp1s0", "swp1s1", "swp2s0"],
        ["E1/1/1", "E1/2/1", "E1/1/2"],
        ["E1/3", "E1/5/1", "E1/5/2"],
        ["swp7s0", "swp7s1", "swp8"],
        ["et-0/0/1:0", "et-0/0/1:1", "et-0/0/4"],
        ["eth1", "swp1"],
        ["uplink", "eth1"],
        ["eth99999"],
        ["eth9999999999"],
    ],
)
def test_interfaces_without_numbers_of_their_own_give_none(interfaces):
    assert port_numbers({"s": interfaces}) == {}


def test_the_number_that_varies_elsewhere_counts_where_a_switch_has_one_interface():
    found = port_numbers({"a": ["Ethernet49/1"], "b": ["Ethernet1/1", "Ethernet2/1"]})
    assert found == {"a": {"Ethernet49/1": 49}, "b": {"Ethernet1/1": 1, "Ethernet2/1": 2}}


def test_numbers_from_0_are_raised_on_all_switches_alike():
    found = port_numbers({"a": ["ge-0/0/0", "ge-0/0/1"], "b": ["ge-0/0/1", "ge-0/0/2"]})
    assert found == {"a": {"ge-0/0/0": 1, "ge-0/0/1": 2}, "b": {"ge-0/0/1": 2, "ge-0/0/2": 3}}


def test_the_uplink_on_the_second_interface_is_port_2_and_sonics_second_interface():
    text = lab(
        {"sonic-vs": "up lo hi", "linux": "a b"}, "a:eth1-lo:eth1 b:eth1-hi:eth1 lo:eth2-up:eth6 hi:eth2-up:eth7"
    )
    found = imported(text)
    cables = {(str(one.lower), str(one.upper)) for one in found.fabric.cables}
    assert cables == {("lo:2", "up:6"), ("hi:2", "up:7")}
    assert [str(nic.port) for nic in found.fabric.nics] == ["lo:1", "hi:1"]
    assert PortNames().interface(2) == "Ethernet4"
    assert "ports have the numbers of their interfaces: lo eth2 is lo:2" in found.assumed


def test_ports_that_are_numbered_anew_are_said_to_be():
    text = lab(
        {"srl": "up lo hi", "linux": "a b"}, "a:eth1-lo:e1 b:eth1-hi:e1 lo:e7-up:swp1s1 hi:e7-up:swp1s2 hi:e8-up:swp2s1"
    )
    found = imported(text)
    assert sorted(str(one.upper) for one in found.fabric.cables) == ["up:1", "up:2", "up:3"]
    assert (
        "the ports of 1 switch(es) are numbered anew, because their interfaces do not differ in one number alone: the "
        "first is up (interface swp1s1)"
    ) in found.assumed


@pytest.mark.parametrize("text", [RAILS, LINGJUN])
def test_a_source_without_interfaces_says_how_ports_are_numbered(text):
    assert "ports are numbered in the order of the source, which names no interfaces" in imported(text).assumed

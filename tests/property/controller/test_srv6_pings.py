"""Pings by addresses name the cables that are elsewhere, and no others, whichever two plugs are exchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.error import InputError
from heddle.controller.model.srv6_pings import Pings
from tests.oracles.usid_walk import walk
from tests.property.controller.test_srv6_paths import srv6_fabric, world

TWO = {"kind": "spine_leaf", "spines": 4, "leaves": 4, "hosts_per_leaf": 1, "gbps": 1}
THREE = {"kind": "clos3", "pods": 2, "spines": 4, "aggs_per_pod": 2, "leaves": 2, "hosts_per_leaf": 1, "gbps": 1}


def exchanged(fabric, one, other):
    """Return tables, cables and NICs with the plugs of two ports of switches in each other's place."""
    tables, cables, nics = world(fabric)
    one, other = tuple(one), tuple(other)
    far, far_other = cables[one], cables[other]
    if far == other:
        return tables, cables, nics
    joined = {one: far_other, far_other: one, other: far, far: other}
    return tables, cables | joined, nics


def checked(fabric, nic, tables, cables, nics):
    """Check the cables from a NIC; return the number tested and the findings, and how many pings were sent."""
    sent = []

    def send(addresses):
        sent.extend(addresses)
        return [one for one in addresses if walk((tables, cables, nics), nic.port.switch, ipv6_text(one))[1] == nic.id]

    return (*Pings(fabric, nic).check(send), sent)


@pytest.mark.parametrize("shape", [TWO, THREE], ids=["two tiers", "three tiers"])
def test_a_sound_fabric_has_no_finding_and_needs_one_ping_a_cable(shape):
    fabric = srv6_fabric(shape)
    for nic in fabric.nics:
        tested, findings, sent = checked(fabric, nic, *world(fabric))
        assert (findings, len(sent)) == ((), tested)
    leaves = len(fabric.up_choices[fabric.nics[0].port.switch])
    assert tested == (4 if shape is TWO else leaves + 4)


@given(st.data())
def test_two_exchanged_plugs_are_named_from_the_leaves_that_they_concern(data):
    fabric = srv6_fabric(TWO)
    ports = [port for cable in fabric.cables for port in (cable.lower, cable.upper)]
    one, other = (data.draw(st.sampled_from(ports)) for _ in range(2))
    tables, cables, nics = exchanged(fabric, one, other)
    for nic in fabric.nics:
        _, findings, _ = checked(fabric, nic, tables, cables, nics)
        named = {finding.cable.lower: finding.instead for finding in findings}
        wrong = {}
        for cable in fabric.up_choices[nic.port.switch]:
            far = cables[tuple(cable.lower)]
            if far != tuple(cable.upper):
                wrong[cable.lower] = far
        assert named.keys() == wrong.keys()
        for port, instead in named.items():
            is_of_top = wrong[port][0].startswith("spine")
            assert tuple(map(tuple, instead)) == ((wrong[port],) if is_of_top else ())


def test_a_missing_cable_is_named_alone():
    fabric = srv6_fabric(TWO)
    tables, cables, nics = world(fabric)
    del tables["spine3"]["e002"]
    _, findings, _ = checked(fabric, fabric.nics[1], tables, cables, nics)
    assert [finding.line for finding in findings] == [
        "leaf2:3: no ping returns by spine3:2: the cable, or an entry of a switch on its way, is missing or wrong"
    ]
    assert checked(fabric, fabric.nics[0], tables, cables, nics)[1] == ()


def test_two_cables_above_the_leaves_that_are_exchanged_are_found():
    fabric = srv6_fabric(THREE)
    first, second = fabric.up_choices["pod1-agg1"]
    tables, cables, nics = exchanged(fabric, first.lower, second.lower)
    _, findings, _ = checked(fabric, fabric.nics[0], tables, cables, nics)
    assert [finding.cable for finding in findings] == [first, second]


def test_parallel_cables_are_named_as_not_distinguished():
    fabric = srv6_fabric(TWO | {"links_per_spine": 2, "spines": 2})
    pings = Pings(fabric, fabric.nics[0])
    assert pings.parallel == fabric.up_choices["leaf1"]
    assert Pings(srv6_fabric(TWO), fabric.nics[0]).parallel == ()


def test_other_styles_have_no_pings():
    fabric = srv6_fabric(TWO, "un")
    with pytest.raises(InputError, match="style ua"):
        Pings(fabric, fabric.nics[0])

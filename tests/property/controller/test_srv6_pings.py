"""Pings by addresses name the cables that are elsewhere, and no others, whichever two plugs are exchanged."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.fabric import Cable, PortRef
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

    returned, findings = Pings(fabric, nic).check(send)
    return len(returned) + len(findings), findings, sent


@pytest.mark.parametrize("shape", [TWO, THREE], ids=["two tiers", "three tiers"])
def test_a_sound_fabric_has_no_finding_and_needs_one_ping_a_cable_or_two_above_the_leaf(shape):
    fabric = srv6_fabric(shape)
    for nic in fabric.nics:
        tested, findings, sent = checked(fabric, nic, *world(fabric))
        own = len(fabric.up_choices[nic.port.switch])
        assert (findings, len(sent)) == ((), own + 2 * (tested - own))
        assert tested == Pings(fabric, nic).cables == (4 if shape is TWO else own + 4)


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
        "leaf2:3: pings by spine3:2 do not return: "
        "the cable, or an entry of a switch on its way, is missing or wrong, or loses packets"
    ]
    assert checked(fabric, fabric.nics[0], tables, cables, nics)[1] == ()


def test_two_cables_above_the_leaves_that_are_exchanged_are_found():
    fabric = srv6_fabric(THREE)
    first, second = fabric.up_choices["pod1-agg1"]
    tables, cables, nics = exchanged(fabric, first.lower, second.lower)
    _, findings, _ = checked(fabric, fabric.nics[0], tables, cables, nics)
    assert [finding.cable for finding in findings] == [first, second]


def with_shared_cores():
    """Return three tiers in which both aggs of a pod have a cable to every core."""
    fabric = srv6_fabric(THREE)
    more = []
    for pod, number in ((1, 3), (2, 4)):
        for agg, cores in ((1, (3, 4)), (2, (1, 2))):
            for place, core in enumerate(cores):
                lower, upper = PortRef(f"pod{pod}-agg{agg}", 5 + place), PortRef(f"core{core}", number)
                more.append(Cable(lower=lower, upper=upper, capacity_bps=fabric.cables[0].capacity_bps))
    return replace(fabric, cables=(*fabric.cables, *more))


def test_any_two_cables_of_one_core_that_are_exchanged_are_found_also_where_aggs_share_cores():
    fabric = with_shared_cores()
    nic = fabric.nics[0]
    assert checked(fabric, nic, *world(fabric))[:2] == (10, ())
    for first, second in combinations(fabric.down_cables["core1"], 2):
        _, findings, _ = checked(fabric, nic, *exchanged(fabric, first.upper, second.upper))
        wanted = [cable for cable in (first, second) if cable.lower.switch.startswith("pod1-")]
        assert {finding.cable for finding in findings} == set(wanted)


def test_cables_above_the_leaf_are_not_tested_where_hosts_have_a_usid_of_their_own():
    fabric = srv6_fabric(THREE, last_hop="ua")
    tested, findings, _ = checked(fabric, fabric.nics[0], *world(fabric))
    assert (tested, findings, Pings(fabric, fabric.nics[0]).cables) == (2, (), 6)


@pytest.mark.parametrize("more", [{}, {"links_per_spine": 2, "spines": 2}], ids=["single", "parallel"])
def test_a_cable_that_loses_packets_has_no_other_far_end(more):
    fabric = srv6_fabric(TWO | more)
    nic = fabric.nics[0]
    for lost in fabric.up_choices["leaf1"]:
        passed = 0

        def send(addresses, lost=lost):
            nonlocal passed
            back = []
            for address in addresses:
                taken, end, _ = walk(world(fabric), "leaf1", ipv6_text(address))
                crosses = any(tuple(lost.lower) in hop for hop in taken)
                passed += crosses
                if end == nic.id and not (crosses and passed <= 2):
                    back.append(address)
            return back

        _, findings = Pings(fabric, nic).check(send)
        assert [(finding.cable, finding.instead) for finding in findings] == [(lost, ())]


def test_a_missing_entry_beside_a_parallel_cable_has_no_other_far_end():
    fabric = srv6_fabric(TWO | {"links_per_spine": 2, "spines": 2})
    tables, cables, nics = world(fabric)
    first = fabric.up_choices["leaf1"][0]
    del tables[first.upper.switch][f"e{first.upper.number:03x}"]
    _, findings, _ = checked(fabric, fabric.nics[0], tables, cables, nics)
    assert [(finding.cable, finding.instead) for finding in findings] == [(first, ())]


def test_a_plug_in_a_spare_port_of_another_switch_is_not_at_the_port_of_a_sound_cable():
    fabric = srv6_fabric(TWO)
    tables, cables, nics = world(fabric)
    cables["leaf1", 1] = ("spine2", 9)
    _, findings, _ = checked(fabric, fabric.nics[0], tables, cables, nics)
    assert [(finding.cable.lower, finding.instead) for finding in findings] == [(PortRef("leaf1", 1), ())]


def test_parallel_cables_are_named_as_not_distinguished():
    fabric = srv6_fabric(TWO | {"links_per_spine": 2, "spines": 2})
    pings = Pings(fabric, fabric.nics[0])
    assert pings.parallel == fabric.up_choices["leaf1"]
    assert Pings(srv6_fabric(TWO), fabric.nics[0]).parallel == ()

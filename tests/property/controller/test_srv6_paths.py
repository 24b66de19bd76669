"""A packet that names its path by uSIDs takes exactly the links of the plan, data and ACKs, in every style."""

import json
from ipaddress import IPv6Address
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.fabric_change import changes_between
from heddle.controller.model.next_hops import next_hops
from heddle.controller.model.srv6 import MAX_USIDS, Action, Sids, address_of
from tests.oracles.usid_walk import walk
from tests.support.fabrics.planning import fabric_file, shapes

LEAVES = {"kind": "spine_leaf", "spines": 4, "hosts_per_leaf": 2, "gbps": 1}
WORDS = {Action.NODE: "shift", Action.ADJACENCY: "shift and send", Action.ROUTE: "send"}


def srv6_fabric(shape: dict, style: str = "ua", last_hop: str = "route"):
    keys = {"steering": "srv6", "srv6": {"block": "fcbb:7::/32", "style": style, "last_hop": last_hop}}
    return parse_fabric(json.dumps(fabric_file(**shape) | keys), "fabric.yaml")


def world(fabric):
    """Return tables, cables and NICs in the oracle's words."""
    sids = Sids(fabric)
    tables = {
        switch.id: {
            f"{entry.usid:04x}": (WORDS[entry.action], entry.port and entry.port.number)
            for entry in sids.entries(switch.id)
        }
        for switch in fabric.switches
    }
    cables = {}
    for cable in fabric.cables:
        cables[cable.lower.switch, cable.lower.number] = (cable.upper.switch, cable.upper.number)
        cables[cable.upper.switch, cable.upper.number] = (cable.lower.switch, cable.lower.number)
    return tables, cables, {(nic.port.switch, nic.port.number): nic.id for nic in fabric.nics}


def any_path(draw, fabric, source, target):
    """Draw one of the shortest paths between two NICs, as links."""
    switch, links = source.port.switch, [source.up_link]
    while switch != target.port.switch:
        hop = draw(st.sampled_from(next_hops(fabric, switch, target.port.switch)))
        links.append(hop.link)
        switch = hop.far.switch
    return (*links, target.down_link)


@st.composite
def paths(draw):
    style, last_hop = draw(st.sampled_from(["ua", "un", "cable"])), draw(st.sampled_from(["route", "ua"]))
    shape = draw(shapes())
    if style == "un":
        shape = {key: value for key, value in shape.items() if key != "links_per_spine"}
    fabric = srv6_fabric(shape, style, last_hop)
    source, target = (draw(st.sampled_from(fabric.nics)) for _ in range(2))
    return fabric, source, target, any_path(draw, fabric, source, target), last_hop


@given(paths())
def test_a_packet_takes_the_links_that_its_address_names(case):
    fabric, source, target, links, last_hop = case
    address = Sids(fabric).destination(links, target.id)
    taken, end, left = walk(world(fabric), source.port.switch, ipv6_text(address))
    named = [f"{one[0]}:{one[1]}>{other[0]}:{other[1]}" for one, other in taken]
    assert (tuple(named), end) == (links[1:-1], target.id)
    assert left == [f"{0xE000 + target.port.number:04x}" if last_hop == "route" else "ffff", *["0000"] * 5]


@given(paths(), st.data())
def test_the_address_that_is_left_where_a_port_has_no_entry_names_its_link(case, data):
    fabric, source, target, links, _ = case
    missing = data.draw(st.sampled_from(links[1:]))
    tables, cables, nics = world(fabric)
    switch, port = missing.split(">")[0].split(":")
    tables[switch] = {usid: entry for usid, entry in tables[switch].items() if entry[1] != int(port)}
    sids = Sids(fabric)
    address = ipv6_text(sids.destination(links, target.id))
    _, end, carried = walk((tables, cables, nics), source.port.switch, address)
    assert end == f"dropped by {switch}"
    left = int(IPv6Address("fcbb:7:" + ":".join(carried)))
    assert sids.refused_at(links, target.id, left) == missing
    assert sids.refused_at(links, target.id, left + 1) is None


@given(paths())
def test_an_error_returns_to_the_source_address_from_its_own_leaf(case):
    fabric, source, *_ = case
    address = ipv6_text(Sids(fabric).source(source))
    assert walk(world(fabric), source.port.switch, address)[:2] == ([], source.id)


@given(shapes())
def test_a_switch_has_one_entry_a_port_and_one_of_its_own(shape):
    fabric = srv6_fabric(shape)
    for switch in fabric.switches:
        ports = {port for port in (*fabric.cable_by_port, *fabric.nic_by_port) if port.switch == switch.id}
        entries = Sids(fabric).entries(switch.id)
        assert {entry.port for entry in entries} == {None, *ports}
        assert len(entries) == len(ports) + 1


def test_addresses_stay_when_the_fabric_grows():
    shapes_of = [LEAVES | {"leaves": leaves} for leaves in (3, 9)]
    small, large = (Sids(srv6_fabric(shape)) for shape in shapes_of)
    links = ("h1-n0>leaf1:5", "leaf1:3>spine3:1", "spine3:2>leaf2:3", "leaf2:5>h3-n0")
    fabric = srv6_fabric(shapes_of[0])
    for one, other in product(fabric.nics, repeat=2):
        assert small.usids((), other.id) == large.usids((), other.id), (one, other)
    assert small.usids(links, "h3-n0") == large.usids(links, "h3-n0") == (0xE003, 0xE002, 0xE005)
    assert ipv6_text(small.destination(links, "h3-n0")) == "fcbb:7:e003:e002:e005::"
    assert changes_between(*(srv6_fabric(shape) for shape in shapes_of)).harms == ()


def test_addresses_of_nodes_stay_when_the_fabric_grows():
    small, large = (srv6_fabric(LEAVES | {"leaves": leaves}, "un") for leaves in (3, 9))
    links = ("h1-n0>leaf1:5", "leaf1:3>spine3:1", "spine3:2>leaf2:3", "leaf2:5>h3-n0")
    assert Sids(small).usids(links, "h3-n0") == Sids(large).usids(links, "h3-n0") == (3, 6, 0xE005)
    assert changes_between(small, large).harms == ()


@pytest.mark.parametrize(("leaves", "room"), [(7, None), (9, 16)])
def test_addresses_of_cable_ends_change_past_a_power_of_two_of_ports_and_this_is_named_as_harmful(leaves, room):
    small, large = (srv6_fabric(LEAVES | {"leaves": count}, "cable") for count in (5, leaves))
    stays = [Sids(small).node(switch.id) == Sids(large).node(switch.id) for switch in small.switches]
    assert set(stays) == {room is None}
    what = "block fcbb:7::/32, style cable, last hop route,"
    harm = f"srv6 is {what} {room} uSIDs a switch, was {what} 8 uSIDs a switch"
    assert changes_between(small, large).harms == ((harm,) if room else ())


def test_a_seventh_usid_is_refused():
    assert ipv6_text(address_of(0xFCBB0000, range(1, 7))) == "fcbb:0:1:2:3:4:5:6"
    with pytest.raises(ValueError, match=f"7 uSIDs do not fit the {MAX_USIDS} of an address"):
        address_of(0xFCBB0000, range(1, 8))

"""Routes of a routed fabric: every NIC is reached over shortest paths, on every fabric and around failed cables."""

from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.address import ip_text
from heddle.mininet_topos.routed.routes import Routes, Routing
from tests.support.fabrics.small_fabrics import clos3, spine_leaf

FABRICS = [spine_leaf(4, 4, 8), spine_leaf(2, 3, 6), clos3(2, 2, 2, 4)]


def graph(fabric, failed):
    found = nx.DiGraph()
    tiers = {switch.id: switch.role.tier for switch in fabric.switches}
    found.add_nodes_from((switch, side) for switch in tiers for side in ("up", "down"))
    for cable in fabric.cables:
        if cable.id not in failed:
            found.add_edge((cable.lower.switch, "up"), (cable.upper.switch, "up"))
            found.add_edge((cable.upper.switch, "down"), (cable.lower.switch, "down"))
    found.add_edges_from(((switch, "up"), (switch, "down")) for switch in tiers)
    return found


@given(st.sampled_from(FABRICS), st.data())
def test_next_hops_are_those_from_which_the_leaf_can_be_reached_down_before_up(fabric, data):
    failed = data.draw(st.sets(st.sampled_from([cable.id for cable in fabric.cables]), max_size=6))
    routes, reach = Routes(fabric, Routing.ROUTE), graph(fabric, failed)
    for switch in fabric.switches:
        for leaf in fabric.leaves:
            if leaf == switch.id:
                continue
            goes_down = leaf in fabric.leaves_below[switch.id]
            expected = set()
            for cable in fabric.cables:
                own, far, side = (cable.upper, cable.lower, "down") if goes_down else (cable.lower, cable.upper, "up")
                live = cable.id not in failed and own.switch == switch.id
                if live and nx.has_path(reach, (far.switch, side), (leaf, "down")):
                    expected.add((own, routes.address_of[far]))
            assert set(routes.hops(switch.id, leaf, failed)) == expected


@pytest.mark.parametrize("fabric", FABRICS)
def test_the_address_of_a_port_names_the_link_that_ends_there(fabric):
    routes = Routes(fabric, Routing.ROUTE)
    for cable in fabric.cables:
        assert routes.link_at[routes.address_of[cable.upper]] == cable.up_link
        assert routes.link_at[routes.address_of[cable.lower]] == cable.down_link
        assert routes.address_of[cable.lower] ^ routes.address_of[cable.upper] == 1
    assert len(routes.link_at) == 2 * len(fabric.cables)


def test_nics_that_no_next_hop_leads_to_are_unreachable():
    fabric = FABRICS[0]
    routes, names = (
        Routes(fabric, Routing.GROUP),
        {port: str(port) for port in Routes(fabric, Routing.ROUTE).address_of},
    )
    lines = routes.lines("leaf1", names, [cable.id for cable in fabric.cables if cable.lower.switch == "leaf1"])
    others = [nic for nic in fabric.nics if nic.port.switch != "leaf1"]
    assert lines == [f"route replace unreachable {ip_text(nic.ip)}/32" for nic in others]


def test_a_fabric_files_own_port_addresses_are_those_of_the_routers():
    fabric = spine_leaf(2, 2, 2)
    own = fabric.cables[0].upper
    routes = Routes(replace(fabric, port_addresses=((own, 0x0A630001),)), Routing.GROUP)
    names = {port: f"eth{number}" for number, port in enumerate(fabric.cable_by_port)}
    assert routes.address_of[own] == 0x0A630001
    lines = routes.lines(fabric.cables[0].lower.switch, names)
    assert any(line.startswith("nexthop replace id 2 via 10.99.0.1 ") for line in lines)

"""What manages a fabric is no part of it: management ports, out-of-band switches, firewalls beside the fabric."""

import json

import pytest

from heddle.controller.config.foreign.hints import Hint
from tests.unit.config.foreign_files import imported, lab, refused, roles

PAIR = "leaf1:swp51-spine1:swp1 leaf1:swp52-spine2:swp1 leaf2:swp51-spine1:swp2 leaf2:swp52-spine2:swp2 "
HOSTS = "leaf1:swp1-h1:ens1 leaf2:swp1-h2:ens1 "
SWITCHES = ("leaf1", "leaf2", "spine1", "spine2")
ROLES = {"leaf1": "leaf", "leaf2": "leaf", "spine1": "spine", "spine2": "spine"}


def edges(links):
    """Return the links as a layer-1 topology of Batfish, which names no kinds."""
    ends = [[end.split(":") for end in link.split("-")] for link in links.split()]
    named = [[{"hostname": node, "interfaceName": interface} for node, interface in each] for each in ends]
    return json.dumps({"edges": [{"node1": a, "node2": b} for a, b in named]})


def managed(port, by="console9", nodes=(*SWITCHES, "h1", "h2")):
    return " ".join(f"{by}:port{at}-{node}:{port}" for at, node in enumerate(nodes, 1))


@pytest.mark.parametrize(
    "port", ["mgmt0", "Management1", "Management1/1", "fxp0", "eth0", "MgmtEth0/RP0/CPU0/0", "vme", "MEth0/0/0", "em0"]
)
@pytest.mark.parametrize("nodes", [SWITCHES, (*SWITCHES, "h1", "h2")])
def test_a_switch_that_joins_management_ports_is_no_part_of_the_fabric(port, nodes):
    for text in (
        edges(PAIR + HOSTS + managed(port, nodes=nodes)),
        lab({"ceos": " ".join((*SWITCHES, "console9")), "linux": "h1 h2"}, PAIR + HOSTS + managed(port, nodes=nodes)),
    ):
        found = imported(text)
        assert roles(found) == ROLES
        assert [nic.id for nic in found.fabric.nics] == ["h1-n0", "h2-n0"]
        assert str(found.fabric.nics[0].port) == "leaf1:1"
        assert len(found.fabric.cables) == 4
        assert found.left_out[0].startswith(f"left out {len(nodes)} x link of an out-of-band switch; the first at")
        assert found.left_out[1].startswith("left out 1 x out-of-band switch; the first at")


@pytest.mark.parametrize("uplink", ["console9:up1-leaf1:swp30", "console9:up1-leaf1:swp30 console9:up2-leaf1:swp31"])
@pytest.mark.parametrize("kind", ["", "ceos", "linux"])
def test_an_out_of_band_switch_with_an_uplink_to_one_leaf_is_no_host(uplink, kind):
    links = PAIR + HOSTS + managed("mgmt0", nodes=SWITCHES) + " " + uplink
    kinds = {"ceos": " ".join(SWITCHES), "linux": "h1 h2"}
    text = lab({**kinds, kind: f"{kinds[kind]} console9"}, links) if kind else edges(links)
    found = imported(text)
    assert roles(found) == ROLES
    assert [nic.id for nic in found.fabric.nics] == ["h1-n0", "h2-n0"]
    assert any(line.startswith("left out 1 x out-of-band switch; the first at") for line in found.left_out)
    kept = imported(text, roles={"console9": Hint.HOST})
    assert {nic.host for nic in kept.fabric.nics} == {"h1", "h2", "console9"}


def test_a_leaf_that_joins_management_ports_of_others_and_has_hosts_stays_a_leaf():
    managed_by_leaf = managed("mgmt0", by="sw9", nodes=("spine1", "leaf2"))
    found = imported(edges(PAIR + HOSTS + managed_by_leaf + " sw9:up1-spine2:swp3 sw9:p1-h3:ens1"))
    assert roles(found) == {**ROLES, "sw9": "leaf"}


def test_multi_rate_ports_of_junos_are_data_ports():
    text = edges(PAIR + "leaf1:PORT-h1:ens1 leaf2:PORT-h2:ens1").replace("PORT", "mge-0/0/0")
    found = imported(text)
    assert len(found.fabric.nics) == 2
    assert found.left_out == ()


def test_ports_that_begin_at_eth0_are_no_management_ports():
    links = (
        "leaf1:eth0-top:eth0 leaf2:eth0-top:eth1 leaf1:eth1-up:eth0 leaf2:eth1-up:eth1 leaf1:eth2-a:p leaf2:eth2-b:p"
    )
    found = imported(edges(links))
    assert roles(found) == {"leaf1": "leaf", "leaf2": "leaf", "top": "spine", "up": "spine"}
    assert found.left_out == ()


def test_a_leaf_that_also_joins_the_management_ports_of_its_hosts_stays_a_leaf():
    found = imported(lab({"ceos": " ".join(SWITCHES), "linux": "h1 h2"}, PAIR + HOSTS + "leaf1:swp9-h1:ipmi"))
    assert roles(found) == ROLES
    assert len(found.fabric.nics) == 2
    assert found.left_out == ("left out 1 x link to a management port; the first at source: topology.links[6]",)


def test_a_leaf_into_which_other_switches_plug_their_management_ports_stays_a_leaf():
    found = imported(edges(PAIR + HOSTS + "leaf1:swp8-leaf2:mgmt0 leaf1:swp9-spine1:mgmt0"))
    assert roles(found) == ROLES
    assert len(found.fabric.cables) == 4


def test_hosts_beside_an_out_of_band_switch_alone_are_counted():
    found = imported(edges(PAIR + HOSTS + managed("mgmt0", nodes=SWITCHES) + " console9:port9-jump:eth1"))
    assert roles(found) == ROLES
    assert any("host without a link to a switch" in line for line in found.left_out)


def test_a_role_that_the_caller_gives_keeps_a_switch_that_joins_management_ports():
    text = edges(PAIR + HOSTS + managed("mgmt0", nodes=("h1", "h2", "spine1", "spine2")))
    assert "console9" not in roles(imported(text))
    assert roles(imported(text, roles={"console9": Hint.LEAF}))["console9"] == "leaf"


@pytest.mark.parametrize("name", ["fw1", "dc1_firewall", "border_gw", "internet"])
def test_a_firewall_on_two_leaves_is_no_spine(name):
    found = imported(edges(PAIR + HOSTS + f"leaf1:swp30-{name}:e1 leaf2:swp30-{name}:e2"))
    assert roles(found) == ROLES
    assert "left out 1 x firewall or gateway without hosts" in found.left_out[0]


def test_a_node_of_a_firewalls_kind_is_no_spine_whatever_its_name():
    text = lab(
        {"ceos": " ".join(SWITCHES), "paloalto_panos": "edge9", "linux": "h1 h2"},
        PAIR + HOSTS + "leaf1:swp30-edge9:eth1 leaf2:swp30-edge9:eth2",
    )
    assert roles(imported(text)) == ROLES


def test_a_firewall_that_alone_joins_leaves_is_kept():
    found = imported(edges("leaf1:swp9-fw1:e1 leaf2:swp9-fw1:e2 " + HOSTS))
    assert roles(found) == {"leaf1": "leaf", "leaf2": "leaf", "fw1": "spine"}


def test_one_device_under_a_short_and_a_full_name_is_refused():
    text = edges((PAIR + HOSTS).replace("leaf1:swp5", "leaf1.dc.example:swp5"))
    line = refused(text)
    assert "'leaf1' and 'leaf1.dc.example'" in line
    assert "edges[4]" in line
    assert len(imported(edges((PAIR + HOSTS).replace("leaf1:", "leaf1.dc.example:"))).fabric.nics) == 2


def test_a_spine_with_one_neighbour_is_no_host_where_all_names_say_what_nodes_are():
    links = "leaf1:p1-spine1:p1 leaf2:p1-spine1:p2 leaf1:p2-spine2:p1 leaf1:p8-server1:e leaf2:p8-server2:e "
    found = imported(edges(links))
    assert roles(found) == ROLES
    assert [nic.host for nic in found.fabric.nics] == ["server1", "server2"]
    assert len(found.fabric.cables) == 3
    misnamed = imported(edges(links.replace("server2", "x2")))
    assert [nic.host for nic in misnamed.fabric.nics] == ["spine2", "server1", "x2"]

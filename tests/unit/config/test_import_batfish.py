import pytest

from tests.unit.config.foreign_files import BATFISH, imported, refused, roles


def test_edges_become_cables_and_nics_with_the_ports_of_their_interfaces():
    found = imported(BATFISH, nic_bps=25 * 10**9, uplink_bps=10**11)
    assert found.format == "batfish"
    assert roles(found) == {"up-a": "spine", "tor-a": "leaf", "tor-b": "leaf"}
    cables = [(str(one.lower), str(one.upper), one.capacity_bps) for one in found.fabric.cables]
    assert cables == [("tor-a:31", "up-a:4", 10**11), ("tor-b:31", "up-a:7", 10**11)]
    nics = [(nic.id, str(nic.port), nic.capacity_bps) for nic in found.fabric.nics]
    assert nics == [("node-1-n0", "tor-a:2", 25 * 10**9), ("node-2-n0", "tor-b:9", 25 * 10**9)]


def test_an_edge_in_both_directions_is_one_cable():
    assert len(imported(BATFISH).fabric.cables) == 2


def test_a_file_of_switches_only_is_refused_with_the_remedy():
    edges = "\n".join(line for line in BATFISH.splitlines() if "node-" not in line).replace("}},\n]}", "}}\n]}")
    assert "add the links of hosts, or say which node is one: --role NODE=host" in refused(edges)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            '"node2": {"hostname": "up-a"',
            '"node2": {"name": "up-a"',
            "source: edges[0].node2: must have a hostname and an",
        ),
        ('{"hostname": "tor-a", "interfaceName": "swp31"}', "7", "source: edges[0].node1: must have a hostname and an"),
        ('"interfaceName": "swp2"', '"interfaceName": 2', "source: edges[3].node2: must have a hostname and an interf"),
        (
            '"swp7"',
            '"swp4"',
            "source: edges[2]: 'up-a:swp4' is linked to 'tor-a:swp31' by edges[0]; an interface takes",
        ),
        ('{"edges": [', '{"edges": [7,', "source: edges[0]: must be a mapping with node1 and node2, is 7"),
    ],
)
def test_a_wrong_edge_is_named(before, after, expected):
    assert refused(BATFISH.replace(before, after, 1), "batfish").startswith(expected)


def test_edges_that_are_no_list_are_refused():
    assert refused('{"edges": 7}', "batfish") == "source: edges: must be a list of edges, is 7"

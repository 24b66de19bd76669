"""`port_addresses` of a fabric file: where a router's reply came from; without it cables are numbered."""

import pytest

from heddle.controller.config import load_fabric
from heddle.controller.config.write import fabric_text
from heddle.controller.model.error import InputError
from heddle.controller.model.port_addresses import links_by_address

HEAD = "version: 1\ngenerate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1}\nsteering: hash\n"


def fabric(tmp_path, listed=""):
    path = tmp_path / "fabric.yaml"
    path.write_text(HEAD + (f"port_addresses: {{{listed}}}\n" if listed else ""))
    return load_fabric(path)


def test_listed_addresses_name_the_link_that_ends_there_and_are_written_again(tmp_path):
    found = fabric(tmp_path, '"leaf1:1": 10.1.0.0, "spine1:1": 10.1.0.1')
    assert links_by_address(found) == {0x0A010000: "spine1:1>leaf1:1", 0x0A010001: "leaf1:1>spine1:1"}
    path = tmp_path / "again.yaml"
    path.write_text("\n".join(fabric_text(found)))
    assert load_fabric(path).port_addresses == found.port_addresses


def test_without_a_list_cables_are_numbered(tmp_path):
    assert links_by_address(fabric(tmp_path)) == {
        0x64400000: "spine1:1>leaf1:1",
        0x64400001: "leaf1:1>spine1:1",
        0x64400002: "spine1:2>leaf2:1",
        0x64400003: "leaf2:1>spine1:2",
    }


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        ('"leaf9:1": 10.1.0.0', "port_addresses.leaf9:1: no cable between switches has this port"),
        ('"leaf1:1": here', "port_addresses.leaf1:1: 'here' is no IPv4 address"),
        ('"leaf1:1": 10.1.0.0, "leaf2:1": 10.1.0.0', "port_addresses.leaf2:1: leaf1:1 has the address 10.1.0.0 too"),
    ],
)
def test_an_address_that_cannot_be_is_named(tmp_path, listed, text):
    with pytest.raises(InputError) as refused:
        fabric(tmp_path, listed)
    assert text in str(refused.value)

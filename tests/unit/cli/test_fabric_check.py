"""What `heddle check fabric` reads and prints: addresses, NICs, conclusions; and that its name is no file's."""

import json

import pytest

from heddle.controller.model.error import InputError
from heddle.controller.probe_sessions.pairs import pairs_of
from heddle.probing.check.conclusions import concluded
from heddle.probing.check.questions import rounds
from heddle.programs.console.fabric_check.inputs import places_of, sources_of
from heddle.programs.console.fabric_check.report import as_json, lines
from tests.fakes.checked_fabric import CheckedFabric
from tests.support.fabrics.small_fabrics import spine_leaf

FABRIC = spine_leaf(2, 2, 2)
PAIRS = pairs_of(FABRIC, FABRIC.nics)


def conclusions(routers):
    asked = rounds(PAIRS, 26)
    return concluded(PAIRS, asked, routers.heard(asked), routers.places)


def addresses(tmp_path, found):
    path = tmp_path / "addresses.json"
    path.write_text(json.dumps(found))
    return path


def test_a_port_s_address_names_the_link_into_it_and_a_loopback_its_switch(tmp_path):
    path = addresses(tmp_path, {"leaf1:1": "10.1.0.0", "spine2": "10.255.0.2"})
    places, numbered = places_of(FABRIC, path), places_of(FABRIC, None)
    assert (numbered.link_at[0x64400000], numbered.link_at[0x64400001]) == ("spine1:1>leaf1:1", "leaf1:1>spine1:1")
    assert (numbered.switch_at[0x64400000], numbered.switch_at[0x64400001]) == ("leaf1", "spine1")
    assert places.link_at == {**numbered.link_at, 0x0A010000: "spine1:1>leaf1:1"}
    assert places.switch_at == {**numbered.switch_at, 0x0A010000: "leaf1", 0x0AFF0002: "spine2"}


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"leaf1:9": "10.0.0.1"}, r"addresses.json: leaf1:9 is no port of a cable and no switch, did you mean leaf1"),
        ({"leaf1:1": "10.0.0"}, r"addresses.json: leaf1:1: '10.0.0' is no IPv4 address$"),
        ({"leaf1:1": "10.0.0.1", "leaf2:1": "10.0.0.1"}, r"leaf2:1: 10.0.0.1 is the address of leaf1:1 too$"),
        ([], r"addresses.json: must be a JSON object, is a list$"),
    ],
)
def test_a_wrong_file_of_addresses_is_one_line_for_each_problem(tmp_path, found, problem):
    with pytest.raises(InputError, match=problem) as refusal:
        places_of(FABRIC, addresses(tmp_path, found))
    assert len(refusal.value.problems) == 1


def test_a_nic_that_the_fabric_or_this_machine_has_not_is_refused():
    with pytest.raises(InputError, match=r"^--nic h1-n1: no such NIC in the fabric, did you mean h1-n0\?$"):
        sources_of(FABRIC, ["h1-n1"], None)
    with pytest.raises(InputError, match=r"^--nic h1-n0: no interface here has its address, 10.0.0.1$"):
        sources_of(FABRIC, ["h1-n0"], None)


def test_a_fit_fabric_takes_three_lines_a_leaf_and_names_no_remedy():
    text = list(lines(conclusions(CheckedFabric(FABRIC))))
    assert text[0] == (
        "leaf1: fit: source ports matter, repeats agree, queue pair number not hashed, DSCP not hashed"
    )  # fmt: skip
    assert text[2] == "  hop 2: 2 of 2 links seen"
    assert not any("remedy" in line for line in text)
    assert text[-1] == "2 of 2 leaves are fit for steering by source ports"


def test_a_fault_is_printed_at_its_leaf_and_its_remedy_once():
    checks = conclusions(CheckedFabric(FABRIC, addresses_only={"leaf1", "leaf2"}))
    text = list(lines(checks))
    assert "  refused: leaf1 sends every source port of two NICs over one next hop" in text
    assert [line for line in text if "remedy" in line] == [
        line for line in text if "fib_multipath_hash_policy=1" in line
    ]
    assert len([line for line in text if "remedy" in line]) == 1
    found = as_json(checks)
    assert not found["fit"]
    assert [leaf["findings"][0]["kind"] for leaf in found["leaves"]] == ["hash_without_ports"] * 2
    assert found["leaves"][0]["ports_matter"] == "no"


def test_check_fabric_is_a_command_and_no_file(heddle):
    status, out, _ = heddle("check", "fabric", "--help")
    assert status == 0
    assert "heddle check fabric " in out.splitlines()[0]
    status, out, _ = heddle("check", "./fabric")
    assert status == 2
    assert out.startswith("fabric: ")

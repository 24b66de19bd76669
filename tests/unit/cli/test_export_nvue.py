"""`heddle export nvue`: static SIDs as NVUE commands of NVIDIA Cumulus Linux."""

from ipaddress import IPv6Network

import pytest

FABRIC = (
    "version: 1\nsteering: srv6\nsrv6: {last_hop: ua}\n"
    "generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, gbps: 100}\n"
)
PORT_COMMANDS = """\
nv set router segment-routing srv6 locator HEDDLE-swp2 prefix fcbb:0:e002::/48
nv set router segment-routing srv6 locator HEDDLE-swp2 block-length 32
nv set router segment-routing srv6 locator HEDDLE-swp2 node-length 16
nv set router segment-routing srv6 locator HEDDLE-swp2 func-length 0
nv set router segment-routing static srv6-sid fcbb:0:e002::/48 locator-name HEDDLE-swp2
nv set router segment-routing static srv6-sid fcbb:0:e002::/48 behavior uA
nv set router segment-routing static srv6-sid fcbb:0:e002::/48 interface swp2
"""


@pytest.fixture
def exported(heddle, files, tmp_path):
    """Write the export; return the text of each switch."""
    status, text, error = heddle("export", "nvue", files("fabric.yaml", FABRIC), "--out", tmp_path / "switches")
    assert (status, text, error) == (0, f"{tmp_path / 'switches'}: 4 switches\n", "")
    return {file.stem: file.read_text() for file in (tmp_path / "switches").iterdir()}


def settings(text):
    """Return the values of all commands: {(words before the value): value}."""
    return {tuple(line.split()[4:-1]): line.split()[-1] for line in text.splitlines()}


def test_a_switch_has_a_un_and_a_ua_for_each_port(exported):
    assert set(exported) == {"leaf1", "leaf2", "spine1", "spine2"}
    found = settings(exported["leaf2"])
    assert {key[2]: value for key, value in found.items() if key[-1] == "behavior"} == {
        "fcbb:0:4::/48": "uN",
        "fcbb:0:e001::/48": "uA",
        "fcbb:0:e002::/48": "uA",
        "fcbb:0:e003::/48": "uA",
    }
    assert {key[2]: value for key, value in found.items() if key[-1] == "interface"} == {
        f"fcbb:0:e00{port}::/48": f"swp{port}" for port in (1, 2, 3)
    }


def test_segment_routing_is_enabled_first_and_a_port_has_seven_commands(exported):
    assert exported["spine1"].startswith("nv set router segment-routing srv6 state enabled\n")
    assert PORT_COMMANDS in exported["spine1"]


def test_every_sid_is_within_its_locator_of_block_and_node(exported):
    for text in exported.values():
        found = settings(text)
        sids = {key[2]: value for key, value in found.items() if key[-1] == "locator-name"}
        for sid, name in sids.items():
            length = sum(int(found["srv6", "locator", name, f"{part}-length"]) for part in ("block", "node"))
            prefix = IPv6Network(found["srv6", "locator", name, "prefix"])
            assert prefix.prefixlen == length
            assert IPv6Network(sid).subnet_of(prefix)


def test_without_a_folder_all_switches_go_to_standard_output(heddle, files, exported):
    status, text, _ = heddle("export", "nvue", files("again.yaml", FABRIC))
    assert status == 0
    assert text == "".join(f"# {switch}\n{exported[switch]}" for switch in ("spine1", "spine2", "leaf1", "leaf2"))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("steering: srv6\nsrv6: {last_hop: ua}", "steering: hash"), "SIDs need `steering: srv6`"),
        (("{last_hop: ua}", "{style: un, last_hop: ua}"), "export a fabric with `style: ua` and `last_hop: ua`"),
        (("{last_hop: ua}", "{style: ua}"), "export a fabric with `style: ua` and `last_hop: ua`"),
        (
            ("hosts_per_leaf: 1", "hosts_per_leaf: 254"),
            "leaf1: 257 uSIDs need as many locators; Cumulus Linux has 256 a switch: use at most 255 ports of it",
        ),
    ],
    ids=["steering", "style", "last hop", "locators"],
)
def test_what_nvue_does_not_hold_is_refused_in_one_line_and_nothing_is_written(heddle, files, tmp_path, change, line):
    path = files("fabric.yaml", FABRIC.replace(*change))
    status, text, error = heddle("export", "nvue", path, "--out", tmp_path / "switches")
    assert (status, text, error.count("\n")) == (2, "", 1)
    assert error.endswith(f"{line}\n")
    assert not (tmp_path / "switches").exists()

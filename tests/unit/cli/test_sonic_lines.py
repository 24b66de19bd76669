"""What `heddle verify roce` prints: one line for each cause, notes that are no differences, and the same as JSON."""

import json

import pytest

from heddle.controller.sonic.export import PortNames, config_tables
from tests.support.fabrics.sonic_switch import with_the_hardware_s_own


@pytest.fixture
def config():
    tables = with_the_hardware_s_own(config_tables(dict.fromkeys(range(1, 33), 200_000), PortNames(), 15))
    for row in tables["PORT"].values():
        row["admin_status"] = "up"
    return tables


@pytest.fixture
def verified(heddle, tmp_path):
    def run(*configs, options=()):
        paths = []
        for number, config in enumerate(configs, 1):
            paths.append(tmp_path / f"switch{number}.json")
            paths[-1].write_text(json.dumps(config))
        status, text, error = heddle("verify", "roce", *paths, *options)
        assert error == ""
        return status, [line.removeprefix(f"{paths[0]}: ") for line in text.replace(f"{tmp_path}/", "").splitlines()]

    return run


def test_one_cause_at_all_ports_is_one_line_with_their_range(config, verified):
    for row in config["PORT_QOS_MAP"].values():
        row.pop("pfc_enable", None)
    assert verified(config) == (
        1,
        [
            "switch1.json: PORT_QOS_MAP|Ethernet0..Ethernet124 pfc_enable (32 ports): not set, the plan assumes 3: "
            "data is lossless, and a pause of another class may close a cycle"
        ],
    )


def test_dscps_of_a_wrong_class_are_one_line_and_that_of_data_comes_first(config, verified):
    config["DSCP_TO_TC_MAP"]["HEDDLE"] = {str(dscp): "1" for dscp in range(64)}
    status, lines = verified(config)
    assert status == 1
    assert [line.split(":")[1].strip() for line in lines] == [
        "DSCP_TO_TC_MAP|HEDDLE 26",
        "DSCP_TO_TC_MAP|HEDDLE 0-25,27-47,49-63",
        "DSCP_TO_TC_MAP|HEDDLE 48",
    ]


def test_a_profile_of_many_ports_is_one_line_that_names_them(config, verified):
    config["WRED_PROFILE"]["HEDDLE_200000M"]["green_min_threshold"] = "7"
    _, lines = verified(config)
    assert lines == [
        "switch1.json: WRED_PROFILE|HEDDLE_200000M green_min_threshold: 7, the plan assumes 40000: "
        "marking at 200000 Mbit/s begins and ends there (32 ports: Ethernet0..Ethernet124)"
    ]


def test_a_note_is_no_difference_and_says_so(config, verified):
    config["BUFFER_PROFILE"]["HEDDLE_200000M"]["xoff"] = "30000"
    status, (first, note) = verified(config)
    assert status == 0
    assert first == "switch1.json: as the plan assumes"
    assert note.startswith("switch1.json: note: BUFFER_PROFILE|HEDDLE_200000M xoff: 30000: enough for 15 m at 200000")


def test_differences_come_before_notes_and_notes_change_no_status(config, verified):
    config["BUFFER_PROFILE"]["HEDDLE_200000M"]["xoff"] = "30000"
    config["SWITCH_HASH"]["GLOBAL"]["ecmp_hash_algorithm"] = "RANDOM"
    config["PORT"]["Ethernet16"]["mtu"] = "1500"
    status, lines = verified(config)
    assert status == 1
    assert [line.split()[1] for line in lines] == ["PORT|Ethernet16", "SWITCH_HASH|GLOBAL", "note:"]


def test_switches_of_two_tiers_with_one_seed_have_a_note_of_their_own(config, verified):
    leaf, spine = (
        config | {"DEVICE_METADATA": {"localhost": {"hostname": name, "type": "LeafRouter"}}} for name in ("l1", "s1")
    )
    leaf["DEVICE_NEIGHBOR"] = {"Ethernet0": {"name": "s1", "port": "Ethernet0"}}
    status, lines = verified(leaf, spine)
    assert status == 0
    assert lines[:2] == ["switch1.json: as the plan assumes", "switch2.json: as the plan assumes"]
    assert lines[2].startswith("note: switch1.json, switch2.json hash with one seed (10, ")
    assert len(lines) == 3


def test_json_has_every_difference_with_its_effect_and_ports_and_the_lines(config, verified):
    for port in ("Ethernet8", "Ethernet12"):
        config["PORT"][port]["mtu"] = "1500"
    config["BUFFER_PROFILE"]["HEDDLE_200000M"]["xoff"] = "31000"
    status, lines = verified(config, options=["--json"])
    found = json.loads("\n".join(lines))
    (file,) = found["files"]
    assert (status, found["exit_status"], found["notes"]) == (1, 1, [])
    assert file["differences"][0] == {
        "table": "PORT",
        "key": "Ethernet8",
        "field": "mtu",
        "found": "1500",
        "assumed": "at least 4160",
        "reason": "RoCE packets are not fragmented, larger ones are discarded",
        "refused": False,
        "effect": "drops",
        "ports": ["Ethernet8"],
    }
    assert [each["key"] for each in file["differences"]] == ["Ethernet8", "Ethernet12"]
    assert {(each["key"], each["effect"]) for each in file["notes"]} == {("HEDDLE_200000M", "note")}
    first, second = file["causes"]
    assert first["line"].startswith("PORT|Ethernet8..Ethernet12 mtu (2 ports): 1500, the plan assumes at least 4160")
    assert first["places"] == ["PORT|Ethernet8 mtu", "PORT|Ethernet12 mtu"]
    assert (first["effect"], first["refused"], first["ports"]) == ("drops", False, ["Ethernet8", "Ethernet12"])
    assert len(second["ports"]) == 32


def test_a_file_whose_ports_are_all_down_is_refused(config, verified, heddle, tmp_path):
    for row in config["PORT"].values():
        row["admin_status"] = "down"
    down = tmp_path / "down.json"
    down.write_text(json.dumps(config))
    assert heddle("verify", "roce", down) == (
        2,
        "",
        f"heddle: {down}: PORT: no port of the fabric is up; name a whole config_db.json of a switch\n",
    )

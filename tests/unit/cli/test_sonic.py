import json

import pytest

from tests.unit.cli.conftest import LAB


@pytest.fixture
def exported(heddle, files, tmp_path):
    heddle("export", "sonic", tmp_path / "fabric.yaml", "--out", tmp_path / "switches")
    return tmp_path / "switches"


def test_every_switch_of_the_fabric_is_written_and_verified(heddle, exported):
    written = sorted(exported.iterdir())
    assert [path.name for path in written] == [*(f"leaf{n}.json" for n in range(1, 5)), "spine1.json", "spine2.json"]
    status, text, _ = heddle("verify", "roce", *written)
    assert (status, text.count("as the plan assumes")) == (0, 6)


def test_without_a_folder_all_switches_are_one_object(heddle, files, tmp_path):
    status, text, _ = heddle("export", "sonic", tmp_path / "fabric.yaml", "--port-step", 8)
    assert status == 0
    assert list(json.loads(text)["spine1"]["PORT"]) == [f"Ethernet{n}" for n in (0, 8, 16, 24)]


def test_a_difference_is_named_with_its_file_place_and_reason(heddle, exported):
    leaf = exported / "leaf1.json"
    config = json.loads(leaf.read_text())
    config["PORT_QOS_MAP"]["Ethernet4"]["pfc_enable"] = ""
    leaf.write_text(json.dumps(config))
    status, text, _ = heddle("verify", "roce", leaf, exported / "leaf2.json")
    assert status == 1
    assert text.splitlines()[0] == (
        f"{leaf}: PORT_QOS_MAP|Ethernet4 pfc_enable: not set, the plan assumes 3: data is lossless, and a pause of "
        "another class may close a cycle"
    )
    status, text, _ = heddle("verify", "roce", leaf, "--json")
    found = json.loads(text)
    assert (status, found["exit_status"]) == (1, 1)
    assert [(each["table"], each["key"], each["field"]) for each in found["files"][0]["differences"]] == [
        ("PORT_QOS_MAP", "Ethernet4", "pfc_enable")
    ]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"PORT": 3}',
        '{"PORT": {"Ethernet0": "up"}}',
        "{}",
        '{"A": {}, "A": {}}',
        "1e999999",
        "\0",
    ],
    ids=["empty", "list", "cut", "deep", "number", "text", "no port", "twice", "large", "nul"],
)
def test_what_is_no_config_db_is_one_line_and_exit_status_2(heddle, exported, content, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text(content)
    status, text, error = heddle("verify", "roce", wrong, exported / "leaf1.json")
    assert (status, error.count("\n")) == (2, 1)
    assert error.startswith(f"heddle: {wrong}: ")
    assert "as the plan assumes" in text


@pytest.mark.parametrize("value", [None, [], {}, True, 10**30, "x" * 5_000, ["3", {}], "-"], ids=repr)
def test_a_value_of_any_type_is_a_difference_and_no_crash(heddle, exported, value):
    leaf = exported / "leaf1.json"
    config = json.loads(leaf.read_text())
    for table, key, field in (
        ("PORT", "Ethernet0", "speed"),
        ("PORT", "Ethernet4", "mtu"),
        ("PORT_QOS_MAP", "Ethernet8", "pfc_enable"),
        ("BUFFER_PROFILE", "HEDDLE_100000M", "xoff"),
        ("SWITCH_HASH", "GLOBAL", "ecmp_hash"),
    ):
        config[table][key][field] = value
    leaf.write_text(json.dumps(config))
    status, text, error = heddle("verify", "roce", leaf)
    assert (status, error) == (1, "")
    assert text.count("\n") >= 4


def test_what_sonic_s_models_refuse_is_named_before_the_differences(heddle, exported):
    leaf = exported / "leaf1.json"
    config = json.loads(leaf.read_text())
    config["PORT"]["Ethernet0"]["fec"] = "base-r"
    config["WRED_PROFILE"]["HEDDLE_100000M"]["yellow_max_threshold"] = "1"
    leaf.write_text(json.dumps(config))
    status, text, _ = heddle("verify", "roce", leaf)
    assert status == 1
    assert text.splitlines() == [
        f"{leaf}: PORT|Ethernet0 fec: base-r, SONiC accepts rs|fc|none|auto: sonic-port.yang",
        f"{leaf}: WRED_PROFILE|HEDDLE_100000M yellow_max_threshold: 1, SONiC accepts at least yellow_min_threshold "
        "(20000): sonic-wred-profile.yang",
    ]
    status, text, _ = heddle("verify", "roce", leaf, "--json")
    assert [each["refused"] for each in json.loads(text)["files"][0]["differences"]] == [True, True]


@pytest.mark.parametrize("gbps", [3_200, 0.0005])
def test_a_rate_that_no_port_of_sonic_has_is_a_line_for_each_port_and_exit_status_2(heddle, tmp_path, gbps):
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(LAB.replace("gbps: 100", f"gbps: {gbps}"))
    status, text, error = heddle("export", "sonic", fabric)
    assert (status, text, error.count("\n")) == (2, "", 2 * 4 + 4 * (2 + 2))
    rate = f"{int(gbps * 1_000):,} Mbit/s; SONiC's ports have 1 to 1,600,000"
    assert f"heddle: {fabric}: port 1 of leaf1: {rate}\n" in error

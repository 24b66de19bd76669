"""`heddle export sonic`, `verify roce --fabric` and `export sids` of a fabric whose packets name their paths."""

import json

import pytest

from tests.oracles.sonic_schema import TABLES, schema_violations
from tests.support.fabrics.sonic_switch import with_the_hardware_s_own

FABRIC = (
    "version: 1\nsteering: srv6\nsrv6: {last_hop: ua}\n"
    "generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, gbps: 100}\n"
)


@pytest.fixture
def exported(heddle, tmp_path):
    """Write the export; return its folder and the fabric file."""
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    status, _, error = heddle("export", "sonic", tmp_path / "fabric.yaml", "--out", tmp_path / "switches")
    assert (status, error) == (0, "")
    return tmp_path / "switches", tmp_path / "fabric.yaml"


def tables_of(path) -> dict:
    return json.loads(path.read_text())


def test_every_port_has_a_sid_and_every_switch_a_locator(exported):
    folder, _ = exported
    tables = tables_of(folder / "leaf2.json")
    assert tables["SRV6_MY_LOCATORS"] == {
        "HEDDLE": {"prefix": "fcbb:0:4::", "block_len": "32", "node_len": "16", "func_len": "16"}
    }
    assert tables["SRV6_MY_SIDS"] == {
        "HEDDLE|fcbb:0:4::/48": {"action": "uN", "decap_dscp_mode": "pipe"},
        **{
            f"HEDDLE|fcbb:0:e00{port}::/48": {
                "action": "uA",
                "decap_dscp_mode": "pipe",
                "interface": f"Ethernet{4 * (port - 1)}",
            }
            for port in (1, 2, 3)
        },
    }
    assert schema_violations(with_the_hardware_s_own(tables)) == set()
    assert set(tables) <= set(TABLES)


def test_an_export_has_no_difference(heddle, exported):
    folder, fabric = exported
    status, text, _ = heddle("verify", "roce", *sorted(folder.iterdir()), "--fabric", fabric)
    assert (status, text.count("as the plan assumes")) == (0, 4)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda tables: tables["SRV6_MY_SIDS"].pop("HEDDLE|fcbb:0:e002::/48"),
            "SRV6_MY_SIDS|HEDDLE|fcbb:0:e002::/48: not set, the plan assumes uA by Ethernet4: packets whose next",
        ),
        (
            lambda tables: tables["SRV6_MY_SIDS"]["HEDDLE|fcbb:0:e002::/48"].update(interface="Ethernet0"),
            "SRV6_MY_SIDS|HEDDLE|fcbb:0:e002::/48 interface: Ethernet0, the plan assumes Ethernet4: packets with this",
        ),
        (
            lambda tables: tables["SRV6_MY_SIDS"].update({"HEDDLE|fcbb:0:e009::/48": {"action": "uN"}}),
            "SRV6_MY_SIDS|HEDDLE|fcbb:0:e009::/48: HEDDLE|fcbb:0:e009::/48, the plan assumes no such row",
        ),
        (
            lambda tables: tables["SRV6_MY_LOCATORS"]["HEDDLE"].update(node_len="24"),
            "SRV6_MY_LOCATORS|HEDDLE node_len: 24, the plan assumes 16: uSIDs are read at other bits",
        ),
        (
            lambda tables: tables["SRV6_MY_LOCATORS"]["HEDDLE"].update(prefix="fcbb:0:7::"),
            "SRV6_MY_LOCATORS: not set, the plan assumes a row with prefix fcbb:0:3::: its SIDs have no locator",
        ),
        (
            lambda tables: tables["SRV6_MY_SIDS"]["HEDDLE|fcbb:0:e002::/48"].pop("interface"),
            "SRV6_MY_SIDS|HEDDLE|fcbb:0:e002::/48 interface: not set, SONiC accepts a row of PORT, for a uA",
        ),
        (
            lambda tables: tables["SRV6_MY_LOCATORS"]["HEDDLE"].update(arg_len="128"),
            "SRV6_MY_LOCATORS|HEDDLE: 192, SONiC accepts block_len + node_len + func_len + arg_len of at most 128",
        ),
    ],
    ids=["missing", "elsewhere", "foreign", "lengths", "locator", "refused", "too long"],
)
def test_a_planted_change_is_named(heddle, exported, change, line):
    folder, fabric = exported
    tables = tables_of(folder / "leaf1.json")
    change(tables)
    (folder / "leaf1.json").write_text(json.dumps(tables))
    status, text, _ = heddle("verify", "roce", folder / "leaf1.json", "--fabric", fabric)
    assert status == 1
    assert any(each.startswith(f"{folder / 'leaf1.json'}: {line}") for each in text.splitlines()), text


def test_switches_are_compared_with_what_the_outer_header_needs(heddle, exported):
    folder, fabric = exported
    file = folder / "leaf1.json"
    tables = tables_of(file)
    tables["SWITCH_HASH"] = {"GLOBAL": {"ecmp_hash": ["DST_IP"], "ecmp_hash_algorithm": "RANDOM"}}
    tables["PORT"]["Ethernet0"]["mtu"] = "4160"
    tables["ACL_TABLE"] = {name: {"type": name, "ports": ["Ethernet4"], "stage": "ingress"} for name in ("L3", "L3V6")}
    rules = {"OTHER": {"NEXT_HEADER": "17"}, "PORT": {"L4_DST_PORT": "4791"}, "ALL": {"NEXT_HEADER": "4"}}
    tables["ACL_RULE"] = {
        f"{table}|{name}": {"PRIORITY": str(9 - number), "PACKET_ACTION": "DROP", **rule}
        for table in ("L3", "L3V6")
        for number, (name, rule) in enumerate(rules.items())
    }
    del tables["ACL_RULE"]["L3|OTHER"], tables["ACL_RULE"]["L3|ALL"]
    file.write_text(json.dumps(tables))
    status, text, _ = heddle("verify", "roce", file, "--fabric", fabric)
    assert status == 1
    assert [
        line.removeprefix(f"{file}: ").partition(":")[0] for line in text.splitlines() if "SONiC accepts" not in line
    ] == [
        "PORT|Ethernet0 mtu",
        "ACL_RULE|L3V6|ALL PACKET_ACTION",
    ]
    assert "at least 4200" in text
    assert "fits all RoCE packets (data and CNPs, IPv6, next header 4)" in text
    _, plain, _ = heddle("verify", "roce", file)
    assert "SWITCH_HASH" in plain
    assert "ACL_RULE|L3|PORT" in plain
    assert "ACL_RULE|L3V6" not in "".join(line for line in plain.splitlines() if "SONiC accepts" not in line)


def test_a_file_that_no_switch_names_is_a_problem(heddle, exported):
    folder, fabric = exported
    (folder / "leaf1.json").rename(folder / "other.json")
    status, _, error = heddle("verify", "roce", folder / "other.json", "--fabric", fabric)
    assert (status, error) == (
        2,
        f"heddle: {folder / 'other.json'}: other is no switch of the fabric file: name it SWITCH.json\n",
    )


def test_a_plain_route_to_nics_is_refused_with_the_remedy(heddle, files):
    plain = files("plain.yaml", FABRIC.replace("srv6: {last_hop: ua}\n", ""))
    status, _, error = heddle("export", "sonic", plain)
    assert status == 2
    assert error.endswith("export a fabric with `style: ua` and `last_hop: ua`\n")


def test_sids_of_all_switches_are_one_object(heddle, exported):
    status, text, _ = heddle("export", "sids", exported[1])
    found = json.loads(text)
    assert status == 0
    assert found["switches"]["spine2"] == [
        {"prefix": "fcbb:0:2::/48", "action": "node", "port": None},
        {"prefix": "fcbb:0:e001::/48", "action": "adjacency", "port": 1},
        {"prefix": "fcbb:0:e002::/48", "action": "adjacency", "port": 2},
    ]
    assert found["nics"]["h2-n0"] == {"source": "fcbb:0:4:e003:ffff::"}


def test_sids_need_the_steering(heddle, files):
    status, _, error = heddle(
        "export",
        "sids",
        files("hash.yaml", FABRIC.split("srv6: ")[0].replace("srv6", "hash") + FABRIC.splitlines()[-1]),
    )
    assert status == 2
    assert "SIDs need `steering: srv6`" in error


def test_a_plan_shows_the_address_of_each_flow(heddle, exported, tmp_path):
    jobs = tmp_path / "two.yaml"
    jobs.write_text("jobs: [{job_id: a, ranks: {all: true}, collectives: [{kind: RING_ALL_REDUCE, bytes: 1000}]}]\n")
    status, text, _ = heddle("plan", exported[1], jobs)
    assert status == 0
    assert "packets name their paths: by construction" in text
    assert "fcbb:0:e001:e002:e003:ffff::" in text or "fcbb:0:e002:e002:e003:ffff::" in text

import json
from pathlib import Path

import pytest
import redis

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.srv6_pings import Finding
from heddle.programs.console.sid_check import LeafCheck, LeafChecks
from tests.support.processes.redis_server import PROGRAM, redis_server

SOUND = {
    **{f"leaf{leaf}:{spine}": f"spine{spine}:{leaf}" for leaf in range(1, 5) for spine in (1, 2)},
    **{f"spine{spine}:{leaf}": f"leaf{leaf}:{spine}" for leaf in range(1, 5) for spine in (1, 2)},
    **{f"leaf{leaf}:{nic + 2}": f"h{2 * leaf - 2 + nic}-n0" for leaf in range(1, 5) for nic in (1, 2)},
}
EXCHANGED = SOUND | {"leaf3:1": "spine2:3", "leaf3:2": "spine1:3", "spine2:3": "leaf3:1", "spine1:3": "leaf3:2"}


@pytest.fixture
def check(heddle, files, tmp_path):
    """Check the cabling of the lab's fabric; a text or object is written to a file first."""

    def run(source, *options):
        if not isinstance(source, str | Path):
            source = files("heard.json", json.dumps(source))
        return heddle("check", "cabling", tmp_path / "fabric.yaml", "--source", source, *options)

    return run


def json0(heard, node):
    """What lldpcli prints at a switch that hears this."""
    interfaces = []
    for port, far in heard.items():
        if port.partition(":")[0] == node:
            system, _, number = far.partition(":")
            interfaces.append({
                "name": f"swp{port.partition(':')[2]}",
                "chassis": [{"name": [{"value": system.removesuffix("-n0")}]}],
                "port": [{"id": [{"type": "ifname", "value": f"swp{number}" if number else "eth2"}]}],
            })  # fmt: skip
    return {"lldp": [{"interface": interfaces}]}


def test_a_sound_fabric_is_sound(check):
    assert check({"heard": SOUND, "down": []}) == (0, "lab: sound: 16 of 16 cables are where they belong\n", "")


def test_a_list_may_be_yaml(check, files):
    lines = [f"  {port}: {far}\n" for port, far in EXCHANGED.items()]
    status, text, _ = check(files("heard.yaml", f"heard:\n{''.join(lines)}down: [leaf1:9]\n"))
    assert (status, "leaf3:1 and leaf3:2 are exchanged" in text) == (1, True)


def test_an_exchange_is_one_row_and_status_1(check):
    status, text, _ = check({"heard": EXCHANGED})
    assert status == 1
    assert "leaf3:1 and leaf3:2 are exchanged" in text
    assert text.splitlines()[-1] == "2 wrong, 0 missing, 0 unknown of 16 cables; 1 cause; plug by plug, 2 plugs to move"


def test_json_has_every_cause_and_cable(check):
    status, text, _ = check({"heard": EXCHANGED, "down": []}, "--json")
    found = json.loads(text)
    assert (status, found["sound"], found["moves"], found["notes"]) == (1, False, 2, [])
    assert found["wrong"] == ["leaf3:1>spine1:3", "leaf3:2>spine2:3"]
    assert found["causes"] == [
        {
            "kind": "exchanged", "text": "leaf3:1 and leaf3:2 are exchanged",
            "cables": ["leaf3:1>spine1:3", "leaf3:2>spine2:3"], "ports": ["leaf3:1", "leaf3:2"], "instead": [],
            "nodes": [],
        }
    ]  # fmt: skip


def test_what_is_not_heard_is_unknown_until_a_port_is_down(check):
    heard = {port: far for port, far in SOUND.items() if port not in ("leaf1:1", "spine1:1")}
    status, text, _ = check({"heard": heard})
    assert (status, "unknown, not wrong: 1 cable (leaf1:1>spine1:1)\n" in text) == (0, True)
    assert text.endswith("which ports have carrier is not known, so no cable is called missing\n")
    status, text, _ = check({"heard": heard, "down": ["leaf1:1"]})
    assert (status, "leaf1:1 and spine1:1: no cable seen" in text) == (1, True)


def test_a_directory_has_a_document_of_each_node(check, files, tmp_path):
    (tmp_path / "lldp").mkdir()
    for node in ("leaf3", "spine1", "h9"):
        (tmp_path / "lldp" / f"{node}.json").write_text(json.dumps(json0(EXCHANGED, node)))
    status, text, notes = check(tmp_path / "lldp")
    assert (status, "leaf3:1 and leaf3:2 are exchanged" in text, notes) == (1, True, "")
    documents = {node: json0(EXCHANGED, node) for node in ("leaf3", "spine1")}
    assert check(documents)[1] == text


def test_a_dump_of_sonic_is_read_with_its_carriers(check):
    row = {"lldp_rem_sys_name": "spine2", "lldp_rem_port_id": "Ethernet4"}
    dump = {
        "LLDP_ENTRY_TABLE:Ethernet4": {"value": row | {"lldp_rem_port_id": "Ethernet8"}},
        "PORT_TABLE:Ethernet0": {"value": {"oper_status": "down"}},
        "PORT_TABLE:Ethernet4": {"value": {"oper_status": "up"}},
    }
    status, text, _ = check({"leaf3": dump})
    assert status == 1
    assert "leaf3:1 and spine1:3: no cable seen" in text
    status, text, _ = check({"leaf3": dump}, "--lanes", 8)
    assert (status, "no cable seen" in text) == (1, True)


def test_a_port_map_names_ports_of_other_names(check, files):
    documents = {"leaf3": json0({"leaf3:1": "spine2:3", "leaf3:2": "spine1:3"}, "leaf3")}
    ports = files("ports", "swp1 2\nswp2 1\nswp3 3\n")
    assert check(documents, "--port-map", ports)[0] == 0
    assert check(documents)[0] == 1


BAD = {
    "an empty file": ("", "the file is empty"),
    "no object": ("[]", "must be an object, is a list"),
    "cut JSON": ('{"lldp": [', "no JSON"),
    "nested too deep": ('{"lldp":' + "[" * 100_000, "nested too deep"),
    "no known key": ('{"leaf1": 3}', "neither a list"),
    "nothing": ("{}", "neither a list"),
    "an unknown switch": ('{"heard": {"leaf99:1": "spine1:1"}}', "heard.leaf99:1: the fabric has no such switch"),
    "no port": ('{"heard": {"leaf1": "spine1:1"}}', "heard.leaf1: must be a port such as leaf1:1"),
    "no neighbour": ('{"heard": {"leaf1:1": 3}}', "heard.leaf1:1: must be a port such as spine1:1, or a NIC"),
    "a port twice": ('{"heard": {"leaf1:1": "spine1:1", "leaf1:1": "spine2:1"}}', "key 'leaf1:1' twice"),
    "a port twice in two forms": (
        '{"heard": {"leaf1:1": "spine1:1", "leaf1:01": "spine2:1"}}', "heard.leaf1:01: this port is listed twice",
    ),
    "a list of hearings": ('{"heard": []}', "heard: must be a mapping"),
    "an unknown port that is down": ('{"down": ["leaf1"]}', "down: leaf1: must be a port"),
    "another key": ('{"heard": {}, "up": []}', "up: unknown key"),
    "a document of lldpd in no known form": ('{"lldp": {"interfaces": []}}', "json0"),
    "a list within nodes": ('{"leaf1": {"heard": {}}}', "is a file of its own"),
    "binary": ("\x00\x01", "not YAML"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(check, files, case):
    text, expected = BAD[case]
    status, out, error = check(files("heard.json", text))
    assert (status, out) == (2, "")
    assert expected in error
    assert error.count("\n") == 1
    assert len(error) < 400


@pytest.mark.parametrize(
    ("source", "options", "expected"),
    [
        ("absent.json", (), "cannot be read"),
        ("sonic", (), "--source sonic needs --redis SWITCH=URL"),
        ("sonic", ("--redis", "leaf1=10.0.0.1"), "--redis leaf1: must be a URL"),
        ("sonic", ("--redis", "redis://10.0.0.1"), "must be SWITCH=URL"),
        ("lldpd", ("--socket", "leaf1"), "must be NODE=PATH"),
    ],
)
def test_wrong_options_are_one_line_and_status_2(check, source, options, expected):
    status, out, error = check(source, *options)
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert expected in error


def test_a_stranger_with_a_wild_name_is_one_safe_line(check):
    status, text, _ = check({"heard": SOUND | {"leaf1:3": "[red]evil\x1b[2J\nline" + "x" * 65_536}})
    assert status == 1
    assert "\x1b" not in text
    assert "[red]evil" in text
    assert len(text) < 3_000


def test_sockets_without_a_daemon_are_an_error_and_lldpcli_is_named_where_it_lacks(check, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, _, error = check("lldpd", "--socket", "leaf1=/nothing")
    assert (status, "lldpcli is not installed" in error) == (1, True)
    program = tmp_path / "lldpcli"
    program.write_text('#!/bin/sh\n[ "$2" = /nothing ] && { echo "T [WARN/control] no socket" >&2; exit 1; }\n'
                       f"echo '{json.dumps(json0(EXCHANGED, 'leaf3'))}'\n")  # fmt: skip
    program.chmod(0o755)
    status, _, error = check("lldpd", "--socket", "leaf1=/nothing")
    assert (status, error) == (1, "heddle: leaf1: no socket\n")
    status, text, error = check("lldpd", "--socket", "leaf1=/nothing", "--socket", "leaf3=/run/lldpd.socket")
    assert (status, error) == (1, "note: leaf1: no socket\n")
    assert "leaf3:1 and leaf3:2 are exchanged" in text


@pytest.mark.skipif(not Path(PROGRAM).exists(), reason="Debian's redis-server is not installed (scripts/setup all)")
def test_the_redis_of_a_sonic_switch_is_read(check):
    with redis_server() as server:
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            for number, (spine, port) in enumerate(((2, 3), (1, 3))):
                fields = {"lldp_rem_sys_name": f"spine{spine}", "lldp_rem_port_id": f"Ethernet{4 * port - 4}"}
                client.hset(f"LLDP_ENTRY_TABLE:Ethernet{4 * number}", mapping=fields)
                client.hset(f"PORT_TABLE:Ethernet{4 * number}", "oper_status", "up")
            client.hset("PORT_TABLE:Ethernet12", "oper_status", "down")
            client.set("LLDP_ENTRY_TABLE:Ethernet16", "no hash")
        status, text, _ = check("sonic", "--redis", f"leaf3={server.url}", "--redis", "leaf1=unix:///nothing")
    assert status == 1
    assert "leaf3:1 and leaf3:2 are exchanged" in text
    assert "leaf3:4 and h6-n0: no cable seen" in text


SRV6 = "version: 1\nsteering: srv6\ngenerate: {SHAPE}\n".replace(
    "SHAPE", "kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, links_per_spine: 2"
)


def test_pings_report_what_they_do_not_distinguish_and_which_leaves_could_not_send(heddle, files, monkeypatch):
    fabric = parse_fabric(SRV6, "fabric.yaml")
    nic = fabric.nics[0]
    lost, *returned = fabric.up_choices["leaf1"]
    check = LeafCheck("leaf1", 4, 6, (Finding(lost),), 4, nic=nic.id, returned=tuple(returned))
    found = LeafChecks(fabric, (check,), ("h2-n0: no gateway",))
    monkeypatch.setattr("heddle.programs.console.cabling_check.command.leaf_checks", lambda *_: found)
    status, out, error = heddle("check", "cabling", files("fabric.yaml", SRV6), "--source", "pings")
    assert (status, "lost" in out, "1 wrong, 0 missing, 8 unknown of 10 cables; 1 cause" in out) == (1, True, True)
    assert error == (
        "note: h2-n0: no gateway\n"
        "note: an exchange among 4 parallel cables is not distinguishable by pings: compare them by LLDP\n"
    )


def test_pings_need_a_fabric_whose_packets_name_their_paths(heddle, files):
    text = SRV6.replace("srv6", "hash")
    status, out, error = heddle("check", "cabling", files("fabric.yaml", text), "--source", "pings")
    assert (status, out) == (2, "")
    assert "pings need `steering: srv6`" in error
    assert error.count("\n") == 1

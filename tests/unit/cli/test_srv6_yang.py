"""Static SIDs of `heddle export sonic` by SONiC's own YANG model; `heddle verify roce` refuses the same."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.oracles.sonic_schema import yang_json

MODELS = Path(__file__).parents[2] / "data" / "sonic" / "yang"
FABRIC = (
    "version: 1\nsteering: srv6\nsrv6: {last_hop: ua}\n"
    "generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, gbps: 100}\n"
)
LOCATORS, SIDS = "SRV6_MY_LOCATORS", "SRV6_MY_SIDS"
PORT_SID = "HEDDLE|fcbb:0:e002::/48"
pytestmark = pytest.mark.skipif(
    shutil.which("yanglint") is None, reason="yanglint (Debian package libyang2-tools) is missing"
)


@pytest.fixture
def exported(heddle, tmp_path):
    """Write the export; return its folder and the fabric file."""
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    status, _, error = heddle("export", "sonic", tmp_path / "fabric.yaml", "--out", tmp_path / "switches")
    assert (status, error) == (0, "")
    return tmp_path / "switches", tmp_path / "fabric.yaml"


def refused(tables: dict, data: Path) -> str:
    """Return what yanglint prints of the static SIDs of a config_db, empty if the model accepts them."""
    sids = [yang_json({table: tables[table]})["sonic-srv6:sonic-srv6"] for table in (LOCATORS, SIDS)]
    ports = {"PORT": {"PORT_LIST": [{"name": name} for name in tables["PORT"]]}}
    data.write_text(json.dumps({"sonic-port:sonic-port": ports, "sonic-srv6:sonic-srv6": sids[0] | sids[1]}))
    modules = [MODELS / f"sonic-{name}.yang" for name in ("srv6", "vrf", "port")]
    command: list[str | Path] = ["yanglint", "-f", "json", "-t", "config", "-p", MODELS, *modules, data]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stderr or "refused" if found.returncode else ""


def test_sonic_s_model_accepts_the_sids_of_every_switch(exported, tmp_path):
    switches = {file.stem: json.loads(file.read_text()) for file in exported[0].iterdir()}
    verdicts = {switch: refused(tables, tmp_path / "data.json") for switch, tables in switches.items()}
    assert verdicts == dict.fromkeys(("leaf1", "leaf2", "spine1", "spine2"), "")


@pytest.mark.parametrize(
    "plant",
    [
        lambda tables: tables[SIDS].update({"OTHER|fcbb:0:e00f::/48": {"action": "uN"}}),
        lambda tables: tables[SIDS].update({"HEDDLE|fcbb:0:e00f::": {"action": "uN"}}),
        lambda tables: tables[SIDS][PORT_SID].update(action="uB"),
        lambda tables: tables[SIDS][PORT_SID].pop("interface"),
        lambda tables: tables[SIDS][PORT_SID].update(interface="Ethernet99"),
        lambda tables: tables[SIDS][PORT_SID].update(flavour="next-csid"),
        lambda tables: tables[LOCATORS]["HEDDLE"].pop("prefix"),
        lambda tables: tables[LOCATORS]["HEDDLE"].update(func_len="127"),
    ],
    ids=["locator", "no length", "action", "no interface", "no port", "field", "no prefix", "too long"],
)
def test_sonic_s_model_and_verify_refuse_what_is_planted(heddle, exported, tmp_path, plant):
    folder, fabric = exported
    file = folder / "leaf1.json"
    tables = json.loads(file.read_text())
    plant(tables)
    assert refused(tables, tmp_path / "data.json") != ""
    file.write_text(json.dumps(tables))
    _, text, _ = heddle("verify", "roce", file, "--fabric", fabric)
    assert any("SRV6_MY_" in line and "SONiC accepts" in line for line in text.splitlines()), text

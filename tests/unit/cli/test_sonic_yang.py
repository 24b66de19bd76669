"""The export by SONiC's own YANG models, with yanglint.

HEDDLE_SONIC_YANG names a checkout of sonic-buildimage's folder src/sonic-yang-models. To run it:
HEDDLE_SONIC_YANG=DIR .venv/bin/python -m pytest -m soak tests/unit/cli/test_sonic_yang.py
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from heddle.controller.sonic.export import PortNames, config_tables
from tests.oracles.sonic_schema import yang_json
from tests.support.fabrics.sonic_switch import with_the_hardware_s_own

CHECKOUT = os.environ.get("HEDDLE_SONIC_YANG", "")
CVL_PART = re.compile(r"\{% *if .*?%\}.*?\{% *else *%\}(.*?)\{% *endif *%\}", re.DOTALL)
RATES_MBPS = [10, 1_000, 25_000, 100_000, 400_000, 800_000, 1_600_000]
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not CHECKOUT, reason="HEDDLE_SONIC_YANG names no checkout of sonic-yang-models"),
    pytest.mark.skipif(shutil.which("yanglint") is None, reason="yanglint (Debian package libyang2-tools) is missing"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The models with their templates expanded as an image has them, not as CVL does."""
    folder = tmp_path_factory.mktemp("yang")
    for template in Path(CHECKOUT, "yang-templates").glob("*.yang.j2"):
        (folder / template.stem).write_text(CVL_PART.sub(r"\1", template.read_text()))
    for model in Path(CHECKOUT, "yang-models").glob("*.yang"):
        shutil.copy(model, folder)
    return folder


def refused(models, config):
    """Return what yanglint says of a config_db, empty if the models accept it."""
    data = models / "config.json"
    data.write_text(json.dumps(yang_json(config)))
    top = {name.split(":")[0] for name in yang_json(config)} | {"sonic-device_metadata"}
    command = ["yanglint", "-p", models, "-t", "config", *sorted(models / f"{name}.yang" for name in top), data]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stderr if found.returncode else ""


@pytest.fixture
def config():
    tables = config_tables(dict(enumerate(RATES_MBPS, 1)), PortNames(), 40)
    return with_the_hardware_s_own(tables)


def test_sonic_s_models_accept_an_export_of_every_rate(models, config):
    assert refused(models, config) == ""


@pytest.mark.parametrize(
    ("table", "key", "field", "value"),
    [
        ("PORT", "Ethernet0", "mtu", "9217"),
        ("QUEUE", "Ethernet0|3", "wred_profile", "absent"),
        ("WRED_PROFILE", "HEDDLE_100000M", "green_max_threshold", "1"),
        ("PFC_WD", "Ethernet0", "detection_time", "199"),
        ("SWITCH_HASH", "GLOBAL", "ecmp_hash", ["SRC_IP", "SRC_IP"]),
    ],
    ids=lambda each: each if isinstance(each, str) else "twice",
)
def test_sonic_s_models_refuse_what_is_planted(models, config, table, key, field, value):
    config[table][key][field] = value
    assert refused(models, config) != ""

"""The units for systemd run what exists, each with few privileges, by systemd's own measure."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "packaging" / "systemd").glob("*.service"))
MAX_EXPOSURE = 26
"""Tenths of systemd's scale from 0 to 10; a unit without sandboxing has 96. Packet ports need three capabilities."""
COMMANDS = {
    "heddle-controller": "run",
    "heddle-gateway@": "gateway",
    "heddle-balancer@": "balancer",
    "heddle-agent@": "agent",
    "heddle-probe-agent@": "agent probe",
    "heddle-ports": "ports",
    "heddle-slurm-agent": "slurm agent",
}


def test_every_program_has_a_unit_and_the_wheel_has_them_all():
    assert {unit.stem for unit in UNITS} == set(COMMANDS)
    for unit in UNITS:
        assert f"ExecStart=/usr/bin/env heddle {COMMANDS[unit.stem]} " in unit.read_text()
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    assert {found for patterns in data.values() for one in patterns for found in ROOT.glob(one)} >= set(UNITS)


def test_the_probe_agent_has_one_capability_and_no_packet_sockets():
    lines = (ROOT / "packaging" / "systemd" / "heddle-probe-agent@.service").read_text().splitlines()
    assert [line for line in lines if "Capabilit" in line and "=" in line] == [
        "CapabilityBoundingSet=CAP_NET_RAW",
        "AmbientCapabilities=CAP_NET_RAW",
    ]
    assert not any("AF_PACKET" in line for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze (Debian package systemd) is missing"
)
def test_a_unit_is_sandboxed_and_has_no_key_that_systemd_does_not_know(unit, tmp_path):
    copy = tmp_path / re.sub("@", "@one", unit.name)
    shutil.copy(unit, copy)
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", f"--threshold={MAX_EXPOSURE}", copy]
    security = subprocess.run(command, capture_output=True, text=True, check=False)
    assert security.returncode == 0, security.stdout.splitlines()[-1:] + security.stderr.splitlines()
    verify = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    assert "Unknown" not in verify.stderr

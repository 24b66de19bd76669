"""A missing prerequisite of the lab is reported in one line, with the remedy."""

import os
import shutil
import subprocess

import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.registry import living_labs
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.switches import ovs
from tests.support.fabrics.small_fabrics import spine_leaf


@pytest.fixture(autouse=True)
def run_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_RUN_DIR", str(tmp_path))


def complaint() -> str:
    with pytest.raises(PrerequisiteError) as caught:
        Lab(spine_leaf(1, 1, 2)).start()
    assert living_labs() == ()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_root_it_names_sudo(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert complaint() == "the lab makes network namespaces, which takes root: run it with sudo"


def test_without_a_tool_it_names_make_setup(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "mnexec" else f"/bin/{tool}")
    assert complaint() == "mnexec is not installed: run `make setup`"


def test_without_the_right_to_make_namespaces_it_says_so(monkeypatch):
    refusal = subprocess.CompletedProcess([], 1, "", "unshare: Operation not permitted\n")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refusal)
    assert "unshare: Operation not permitted" in complaint()


def test_without_open_vswitch_it_names_make_setup(monkeypatch, tmp_path):
    monkeypatch.setattr(ovs, "SCHEMA", tmp_path / "missing")
    with pytest.raises(PrerequisiteError, match="Open vSwitch is not installed: run `make setup`"):
        ovs.require_open_vswitch()

import os
import shutil

import pytest
import typer
from typer.testing import CliRunner

from heddle.controller.model.error import PrerequisiteError
from heddle.programs.lab.demo_command import demo


@pytest.fixture
def command():
    app = typer.Typer()
    app.command()(demo)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_without_root_one_line_says_what_to_do(command, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = command("--report", str(tmp_path / "report"))
    assert isinstance(found.exception, PrerequisiteError)
    assert str(found.exception).count("\n") == 0
    assert "sudo" in str(found.exception)


def test_without_open_vswitch_one_line_says_what_to_do(command, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name.startswith("ovs") else f"/usr/bin/{name}")
    found = command("--report", str(tmp_path / "report"))
    assert isinstance(found.exception, PrerequisiteError)
    assert "Open vSwitch is not installed: run `make setup`" in str(found.exception)


def test_a_demo_that_cannot_start_leaves_no_report_folder(command, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    command("--report", str(tmp_path / "report"))
    assert list(tmp_path.iterdir()) == []


def test_bad_options_are_reported_before_anything_else(command, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "--hosts 9" in str(command("--hosts", "9").exception)

"""Find the resources of a lab on the machine, independently of the lab's own clean-up."""

import json
import os
import socket
from pathlib import Path

SETTINGS = ("net/core/rmem_default", "net/core/wmem_default")


def traces_of(lab_id: str) -> dict[str, list[str]]:
    """Return all resources with the lab's id: interfaces, processes, files, holds on system settings."""
    return {
        "interfaces": [name for _, name in socket.if_nameindex() if name.startswith(f"hd{lab_id}")],
        "processes": [name for name in os.listdir("/proc") if name.isdigit() and _belongs_to(name, lab_id)],
        "files": [str(path) for path in lab_directories() if path.name == lab_id],
        "settings": [name for name, entry in _settings_record().items() if f"/{lab_id}" in "".join(entry["holders"])],
    }


def lab_directories() -> list[Path]:
    """Return the directories of the labs in this process's registry."""
    return list((Path(os.environ.get("HEDDLE_RUN_DIR") or "/run/heddle") / "labs").glob("*"))


def settings_held_under(folder: Path) -> list[str]:
    """Return the system settings held by labs whose state is under a folder."""
    return [name for name, entry in _settings_record().items() if str(folder) in "".join(entry["holders"])]


def free_settings() -> dict[str, str]:
    """Return the values of the system settings that labs change, except those that another lab holds now."""
    before = _settings_record()
    found = {name: Path("/proc/sys", name).read_text() for name in SETTINGS}
    held = {name.replace(".", "/") for name in (*before, *_settings_record())}
    return {name: value for name, value in found.items() if name not in held}


def assert_settings_as_before(before: dict[str, str]) -> None:
    """Compare the settings with an earlier `free_settings`; only those that were free both times are comparable."""
    after = free_settings()
    assert {name: after[name] for name in before if name in after} == {
        name: value for name, value in before.items() if name in after
    }


def _belongs_to(process: str, lab_id: str) -> bool:
    try:
        return f"HEDDLE_LAB={lab_id}-".encode() in Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False


def _settings_record() -> dict:
    try:
        return json.loads(Path("/run/heddle/settings.json").read_text())
    except FileNotFoundError:  # no lab holds any
        return {}


NOTHING: dict[str, list[str]] = {"interfaces": [], "processes": [], "files": [], "settings": []}

"""System settings (sysctl) that labs share: the first lab saves the old value, the last one restores it.

Open vSwitch's userspace datapath sends all frames through one AF_PACKET socket and receives those of each port through
another. At the kernel's default buffer sizes (208 KB) both silently drop frames under a lab's load.

Settings belong to the machine, so the record of their holders is one file per machine, wherever a lab keeps its other
state. A holder is a lab's directory; it is alive while the lock in that directory is held.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heddle.mininet_topos.host.locks import holding, is_held

LAB_SETTINGS = {"net.core.wmem_default": "33554432", "net.core.rmem_default": "4194304"}
MACHINE_STATE_DIRECTORY = Path("/run/heddle")
LOCK_NAME = "lock"


def hold_settings(holder: Path, settings: dict[str, str]) -> None:
    """Set each value until this holder, and every other one, has released it; needs root."""
    with holding(MACHINE_STATE_DIRECTORY / "settings.lock"):
        record = _read()
        for name, value in settings.items():
            entry = record.setdefault(name, {"old": _value_path(name).read_text().strip(), "set": value, "holders": []})
            entry["holders"].append(str(holder))
        _write(record)  # before the values change, so that a kill in between loses nothing
        for name, value in settings.items():
            _value_path(name).write_text(value)


def release_settings(holder: Path) -> None:
    """Release this holder's settings; restore those without another holder, except values changed by other programs."""
    if str(holder) in holders():
        _keep_holders(lambda other: other != str(holder))


def release_dead_holders() -> None:
    """Release the settings of labs that have ended, in whatever directory they kept their state."""
    if any(not _is_alive(holder) for holder in holders()) and os.access(MACHINE_STATE_DIRECTORY, os.W_OK):
        _keep_holders(_is_alive)


def holders() -> frozenset[str]:
    """Return the directories of the labs that hold any setting."""
    return frozenset(holder for entry in _read().values() for holder in entry["holders"])


def _keep_holders(wanted: Callable[[str], bool]) -> None:
    """Remove the holders that are not wanted, and restore every setting that has none left."""
    with holding(MACHINE_STATE_DIRECTORY / "settings.lock"):
        record = _read()
        for name, entry in list(record.items()):
            entry["holders"] = [holder for holder in entry["holders"] if wanted(holder)]
            if entry["holders"]:
                continue
            if _value_path(name).read_text().strip() == entry["set"]:
                _value_path(name).write_text(entry["old"])
            del record[name]
        _write(record)


def _is_alive(holder: str) -> bool:
    return is_held(Path(holder) / LOCK_NAME)


def _value_path(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))


def _record_file() -> Path:
    return MACHINE_STATE_DIRECTORY / "settings.json"


def _read() -> dict[str, dict[str, Any]]:
    return dict(json.loads(_record_file().read_text())) if _record_file().exists() else {}


def _write(record: dict[str, dict[str, Any]]) -> None:
    if not record:
        _record_file().unlink(missing_ok=True)
        return
    draft = _record_file().with_suffix(".new")
    draft.write_text(json.dumps(record))
    draft.replace(_record_file())

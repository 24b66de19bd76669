"""System settings that labs share: the first one saves the old value, the last one puts it back.

Open vSwitch's userspace datapath sends all frames through one AF_PACKET socket and receives each port's
through another; at the kernel's default sizes (208 KB) both drop in silence under a lab's load.

Settings are the machine's, so the book of who holds them is in one place for the whole machine, whatever directory a
lab keeps its other state in. A holder is the lab's directory; it is alive while the lock in it is held.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mininet_topos.host.locks import holding, is_held

LAB_SETTINGS = {"net.core.wmem_default": "33554432", "net.core.rmem_default": "4194304"}
MACHINE_STATE_DIRECTORY = Path("/run/heddle")
LOCK_NAME = "lock"


def hold_settings(holder: Path, settings: dict[str, str]) -> None:
    """Set each value until this holder, and every other one, has released it; needs root."""
    with holding(MACHINE_STATE_DIRECTORY / "settings.lock"):
        book = _read()
        for name, value in settings.items():
            entry = book.setdefault(name, {"old": _value_path(name).read_text().strip(), "set": value, "holders": []})
            entry["holders"].append(str(holder))
        _write(book)  # before the values change, so that a kill in between loses nothing
        for name, value in settings.items():
            _value_path(name).write_text(value)


def release_settings(holder: Path) -> None:
    """Give up this holder's settings; restore what nobody else holds, unless someone else changed it meanwhile."""
    if str(holder) in holders():
        _keep(lambda other: other != str(holder))


def release_dead_holders() -> None:
    """Give up the settings of holders that have ended, wherever they kept their state."""
    if any(not _is_alive(holder) for holder in holders()) and os.access(MACHINE_STATE_DIRECTORY, os.W_OK):
        _keep(_is_alive)


def holders() -> frozenset[str]:
    """Return the directories of the labs that hold any setting."""
    return frozenset(holder for entry in _read().values() for holder in entry["holders"])


def _keep(wanted: Callable[[str], bool]) -> None:
    """Keep the holders that are wanted and restore what has none left."""
    with holding(MACHINE_STATE_DIRECTORY / "settings.lock"):
        book = _read()
        for name, entry in list(book.items()):
            entry["holders"] = [holder for holder in entry["holders"] if wanted(holder)]
            if entry["holders"]:
                continue
            if _value_path(name).read_text().strip() == entry["set"]:
                _value_path(name).write_text(entry["old"])
            del book[name]
        _write(book)


def _is_alive(holder: str) -> bool:
    return is_held(Path(holder) / LOCK_NAME)


def _value_path(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))


def _book() -> Path:
    return MACHINE_STATE_DIRECTORY / "settings.json"


def _read() -> dict[str, dict[str, Any]]:
    return dict(json.loads(_book().read_text())) if _book().exists() else {}


def _write(book: dict[str, dict[str, Any]]) -> None:
    if not book:
        _book().unlink(missing_ok=True)
        return
    draft = _book().with_suffix(".new")
    draft.write_text(json.dumps(book))
    draft.replace(_book())

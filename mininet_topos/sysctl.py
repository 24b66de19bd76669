"""System settings that labs share: the first one saves the old value, the last one puts it back.

Open vSwitch's userspace datapath sends all frames through one AF_PACKET socket and receives each port's
through another; at the kernel's default sizes (208 KB) both drop in silence under a lab's load.
"""

import json
from pathlib import Path
from typing import Any

LAB_SETTINGS = {"net.core.wmem_default": "33554432", "net.core.rmem_default": "4194304"}


def hold_settings(ledger: Path, lab_id: str, settings: dict[str, str]) -> None:
    """Set each value for this lab's life; call under the registry's lock."""
    book = _read(ledger)
    for name, value in settings.items():
        entry = book.setdefault(name, {"old": _value_path(name).read_text().strip(), "set": value, "labs": []})
        if lab_id not in entry["labs"]:
            entry["labs"].append(lab_id)
    _write(ledger, book)
    for name, value in settings.items():
        _value_path(name).write_text(value)


def release_settings(ledger: Path, lab_id: str) -> None:
    """Give up this lab's hold; restore what no other lab holds, unless someone else changed it meanwhile."""
    book = _read(ledger)
    for name, entry in list(book.items()):
        entry["labs"] = [lab for lab in entry["labs"] if lab != lab_id]
        if entry["labs"]:
            continue
        if _value_path(name).read_text().strip() == entry["set"]:
            _value_path(name).write_text(entry["old"])
        del book[name]
    _write(ledger, book)


def holders(ledger: Path) -> frozenset[str]:
    """Return the ids of the labs that hold any setting."""
    return frozenset(lab for entry in _read(ledger).values() for lab in entry["labs"])


def _value_path(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))


def _read(ledger: Path) -> dict[str, dict[str, Any]]:
    return dict(json.loads(ledger.read_text())) if ledger.exists() else {}


def _write(ledger: Path, book: dict[str, dict[str, Any]]) -> None:
    if not book:
        ledger.unlink(missing_ok=True)
        return
    draft = ledger.with_suffix(".new")
    draft.write_text(json.dumps(book))
    draft.replace(ledger)

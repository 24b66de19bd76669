"""What a lab has on the machine, looked up by other means than the lab's own clearing."""

import json
import os
import socket
from contextlib import suppress
from pathlib import Path

SETTINGS = ("net/core/rmem_default", "net/core/wmem_default")


def traces_of(lab_id: str) -> dict[str, list[str]]:
    """Return everything that bears the lab's id: interfaces, processes, files, holds on system settings."""
    return {
        "interfaces": [name for _, name in socket.if_nameindex() if name.startswith(f"hd{lab_id}")],
        "processes": [name for name in os.listdir("/proc") if name.isdigit() and _bears(name, lab_id)],
        "files": [str(path) for path in Path("/run/heddle/labs").glob(lab_id)],
        "settings": [name for name, entry in _ledger().items() if f"/{lab_id}" in "".join(entry["holders"])],
    }


def namespaces() -> set[str]:
    """Return the network namespaces that any process is in."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{name}/ns/net"))
    return found


def _bears(process: str, lab_id: str) -> bool:
    try:
        return f"HEDDLE_LAB={lab_id}-".encode() in Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False


def _ledger() -> dict:
    path = Path("/run/heddle/settings.json")
    return json.loads(path.read_text()) if path.exists() else {}


NOTHING: dict[str, list[str]] = {"interfaces": [], "processes": [], "files": [], "settings": []}

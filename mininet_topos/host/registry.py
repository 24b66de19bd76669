"""The registry of labs: every lab has an id, a directory and a lock; each start removes what dead labs left behind.

A lab is *alive* while its owner holds the lock on `labs/<id>/lock`; the kernel releases it however the owner ends,
`kill -9` included. Every resource is identifiable as the lab's from the moment it exists, so a kill between creating
and recording loses nothing:

- processes carry `HEDDLE_LAB=<id>-<token>`, the lab's tag, in their environment (namespaces end with them),
- interfaces have the name prefix and the link group of the lab's id,
- files are in the lab's directory,
- system settings are shared between labs; their holders are recorded before the change (see `sysctl`).

Removal touches only resources that are identified in this way. Stopping a lab is the same removal.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from heddle.foundation.identity import TLS_VARIABLE
from heddle.mininet_topos.host import cleanup
from heddle.mininet_topos.host.locks import holding, is_held, try_lock
from heddle.mininet_topos.host.sysctl import LOCK_NAME, release_dead_holders, release_settings

ID_LENGTH = 4
DIGITS = "0123456789bcdfghjkmnpqrstvwxyz"  # no vowels: an id is never a word
ENVIRONMENT_TAG = "HEDDLE_LAB"
GROUP_BASE = 0x68000000
SYSTEM_DATAPATH_NOTE = "uses-the-kernel-datapath"


def run_directory() -> Path:
    """Return the directory of the labs' state: `HEDDLE_RUN_DIR`, or /run/heddle."""
    return Path(os.environ.get("HEDDLE_RUN_DIR") or "/run/heddle")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabEntry:
    """The identity of one lab and its directory."""

    id: str
    token: str
    directory: Path

    @property
    def tag(self) -> str:
        """Return the value of `HEDDLE_LAB` in the environment of the lab's processes."""
        return f"{self.id}-{self.token}"

    @property
    def prefix(self) -> str:
        """Return the prefix of the names of the lab's interfaces and bridges."""
        return f"hd{self.id}"

    @property
    def link_group(self) -> int:
        """Return the lab's link group (IFLA_GROUP), by which its interfaces are brought up and removed together."""
        return GROUP_BASE + sum(DIGITS.index(digit) * len(DIGITS) ** i for i, digit in enumerate(self.id))

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment for a process of this lab."""
        own = {name: value for name, value in os.environ.items() if name != TLS_VARIABLE}  # a lab's controller has none
        return {**own, ENVIRONMENT_TAG: self.tag, "OVS_RUNDIR": str(self.directory / "ovs")}


@contextmanager
def registry_lock() -> Iterator[Path]:
    """Hold the lock that serialises the creation and the removal of labs."""
    root = run_directory()
    (root / "labs").mkdir(parents=True, exist_ok=True)
    with holding(root / "registry.lock"):
        yield root


class LabRegistration:
    """The entry of a running lab in the registry; it holds the lab's lock until `end`."""

    def __init__(self) -> None:
        """Remove dead labs and take a free id."""
        with registry_lock() as root:
            _clear_dead(root)
            self.entry = _take_id(root)
            self._lock = try_lock(self.entry.directory / LOCK_NAME)
        if self._lock is None:
            raise RuntimeError(f"the new directory {self.entry.directory} is locked by another process")
        _write_owner(self.entry)

    def end(self) -> None:
        """Remove every resource of this lab, then its directory; may be called again."""
        if self._lock is None:
            return
        with registry_lock():
            _clear(self.entry)
            os.close(self._lock)
            self._lock = None


def clear_dead_labs() -> tuple[str, ...]:
    """Remove what labs without a living owner left behind; return their ids."""
    with registry_lock() as root:
        return _clear_dead(root)


def living_labs() -> tuple[str, ...]:
    """Return the ids of the labs whose owner is alive."""
    with registry_lock() as root:
        return tuple(path.name for path in _directories(root) if is_held(path / LOCK_NAME))


def entry_of(lab_id: str) -> LabEntry:
    """Return the entry of a lab by its id."""
    return _read_entry(run_directory() / "labs" / lab_id)


def _clear_dead(root: Path) -> tuple[str, ...]:
    cleared = []
    for directory in _directories(root):
        lock = try_lock(directory / LOCK_NAME)
        if lock is None:
            continue
        try:
            _clear(_read_entry(directory))
        finally:
            os.close(lock)
        cleared.append(directory.name)
    release_dead_holders()
    return tuple(cleared)


def _directories(root: Path) -> list[Path]:
    return sorted(path for path in (root / "labs").iterdir() if path.is_dir())


def _clear(entry: LabEntry) -> None:
    cleanup.end_processes(f"{ENVIRONMENT_TAG}={entry.tag}")
    if (entry.directory / SYSTEM_DATAPATH_NOTE).exists():
        cleanup.leave_system_datapath(entry.prefix)
    cleanup.remove_interfaces(entry.prefix, entry.link_group)
    release_settings(entry.directory)
    shutil.rmtree(entry.directory, ignore_errors=True)


def _take_id(root: Path) -> LabEntry:
    """Create the directory of a random free id; `mkdir` fails for an id that is taken."""
    while True:
        number = int.from_bytes(os.urandom(4), "big")
        lab_id = "".join(DIGITS[number // len(DIGITS) ** i % len(DIGITS)] for i in range(ID_LENGTH))
        directory = root / "labs" / lab_id
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            token = os.urandom(8).hex()
            (directory / "token").write_text(token)
            return LabEntry(id=lab_id, token=token, directory=directory)


def _read_entry(directory: Path) -> LabEntry:
    token = directory / "token"
    return LabEntry(id=directory.name, token=token.read_text() if token.exists() else "unstarted", directory=directory)


def _write_owner(entry: LabEntry) -> None:
    """Write the owner's process for human readers; only the lock decides whether the owner is alive."""
    stat = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    owner = {"pid": os.getpid(), "start_time_ticks": int(stat[19]), "boot_id": boot_id}
    (entry.directory / "owner.json").write_text(json.dumps(owner))

"""Every lab has an id, a directory and a lock; whoever starts next clears what the dead left.

A lab is *alive* while its owner holds the lock on `labs/<id>/lock`: the kernel lets go of it however the
owner ends, `kill -9` included. All that a lab makes is recognisable as its own before it exists, so
nothing is lost between making and recording:

- processes carry `HEDDLE_LAB=<id>-<token>` in their environment (namespaces end with them),
- interfaces have the name prefix and the link group of the lab's id,
- files lie in its directory,
- system settings are shared between labs and their holders written down first (see `sysctl`).

Clearing touches what bears those marks and nothing else. Stopping a lab is the same clearing.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mininet_topos.host import cleanup
from mininet_topos.host.locks import holding, is_held, try_lock
from mininet_topos.host.sysctl import LOCK_NAME, release_dead_holders, release_settings

ID_LENGTH = 4
DIGITS = "0123456789bcdfghjkmnpqrstvwxyz"  # no vowels: an id spells nothing
ENVIRONMENT_TAG = "HEDDLE_LAB"
GROUP_BASE = 0x68000000
SYSTEM_DATAPATH_NOTE = "uses-the-kernel-datapath"


def run_directory() -> Path:
    """Return where labs keep their state: `HEDDLE_RUN_DIR`, or /run/heddle."""
    return Path(os.environ.get("HEDDLE_RUN_DIR") or "/run/heddle")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabEntry:
    """One lab as the registry knows it."""

    id: str
    token: str
    directory: Path

    @property
    def mark(self) -> str:
        """Return the value that the lab's processes carry in their environment."""
        return f"{self.id}-{self.token}"

    @property
    def prefix(self) -> str:
        """Return how the names of the lab's interfaces and bridges begin."""
        return f"hd{self.id}"

    @property
    def link_group(self) -> int:
        """Return the lab's link group: its interfaces are brought up, and removed, as one."""
        return GROUP_BASE + sum(DIGITS.index(digit) * len(DIGITS) ** i for i, digit in enumerate(self.id))

    @property
    def environment(self) -> dict[str, str]:
        """Return an environment for a process of this lab."""
        return {**os.environ, ENVIRONMENT_TAG: self.mark, "OVS_RUNDIR": str(self.directory / "ovs")}


@contextmanager
def registry_lock() -> Iterator[Path]:
    """Hold the one lock that orders the making and the clearing of labs."""
    root = run_directory()
    (root / "labs").mkdir(parents=True, exist_ok=True)
    with holding(root / "registry.lock"):
        yield root


class LabRegistration:
    """A living lab's place in the registry; the lock is held until `end`."""

    def __init__(self) -> None:
        """Clear dead labs and take a free id."""
        with registry_lock() as root:
            _clear_dead(root)
            self.entry = _take_id(root)
            self._lock = try_lock(self.entry.directory / LOCK_NAME)
        if self._lock is None:
            raise RuntimeError(f"the new directory {self.entry.directory} is locked by another process")
        _write_owner(self.entry)

    def end(self) -> None:
        """Remove everything that bears this lab's marks, then its directory; may be called again."""
        if self._lock is None:
            return
        with registry_lock():
            _clear(self.entry)
            os.close(self._lock)
            self._lock = None


def clear_dead_labs() -> tuple[str, ...]:
    """Remove what labs left whose owner is gone; return their ids."""
    with registry_lock() as root:
        return _clear_dead(root)


def living_labs() -> tuple[str, ...]:
    """Return the ids of the labs whose owner is alive."""
    with registry_lock() as root:
        return tuple(path.name for path in _directories(root) if is_held(path / LOCK_NAME))


def entry_of(lab_id: str) -> LabEntry:
    """Return a lab as the registry knows it."""
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
    cleanup.end_processes(f"{ENVIRONMENT_TAG}={entry.mark}")
    if (entry.directory / SYSTEM_DATAPATH_NOTE).exists():
        cleanup.leave_system_datapath(entry.prefix)
    cleanup.remove_interfaces(entry.prefix, entry.link_group)
    release_settings(entry.directory)
    shutil.rmtree(entry.directory, ignore_errors=True)


def _take_id(root: Path) -> LabEntry:
    """Make the directory of a random free id; `mkdir` is what makes it ours alone."""
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
    """Say for people who owns the lab; what decides is the lock."""
    stat = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    owner = {"pid": os.getpid(), "start_time_ticks": int(stat[19]), "boot_id": boot_id}
    (entry.directory / "owner.json").write_text(json.dumps(owner))

"""Replace a topology file of Slurm: written beside, checked, renamed; the last sound file is kept.

A reader sees the old file or the new one, whole. What was there before is kept as FILE.last if Slurm could read it,
else as FILE.unsound, so that FILE.last always is a file to go back to.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from heddle.controller.config.text.document import MAX_BYTES
from heddle.controller.model.error import InputError
from heddle.controller.schedulers.slurm_check import problems_of
from heddle.controller.schedulers.slurm_files import Format
from heddle.foundation.regular_file import read_regular

LAST, UNSOUND = ".last", ".unsound"
MODE = 0o644
"""Every node of Slurm reads the file; slurmctld may run as a user of its own."""


def checked(text: str, form: Format, nodes: Sequence[str], name: str) -> str:
    """Return the text; raises InputError with a line for each problem that Slurm would have with it."""
    if problems := problems_of(text, form, nodes):
        raise InputError(*(f"{name}: not written: {problem}" for problem in problems))
    return text


def content_of(path: Path) -> bytes | None:
    """Return what a file holds, None where there is none; raises OSError for what is no regular file."""
    try:
        return read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        return None


def replace_file(path: Path, text: str, form: Format, nodes: Sequence[str]) -> bool:
    """Put a text in the place of a file, and return whether it differs from what was there.

    Raises InputError where Slurm would have problems with it, OSError where it cannot be written; the file stays.
    """
    path = path.resolve()
    content = checked(text, form, nodes, path.name).encode()
    before = content_of(path)
    if before == content:
        return False
    if before is not None:
        old = before.decode(errors="replace")
        is_sound = any(not problems_of(old, each) for each in Format)
        _put(path.with_name(path.name + (LAST if is_sound else UNSOUND)), before, path)
    _put(path, content, path, lambda written: checked(written.decode(), form, nodes, path.name))
    return True


def restore(path: Path, before: bytes | None) -> None:
    """Put back what a file held before, which is nothing where there was none."""
    path = path.resolve()
    if before is None:
        path.unlink(missing_ok=True)
    else:
        _put(path, before, path)


def _put(path: Path, content: bytes, like: Path, check: Callable[[bytes], object] = lambda content: None) -> None:
    """Write a file beside, check what was written, and rename it; with the mode and owner of `like` if that exists."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.unlink(missing_ok=True)
        with open(beside, "xb") as file:
            file.write(content)
            file.flush()
            _make_like(file.fileno(), like)
            os.fsync(file.fileno())
        check(beside.read_bytes())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _make_like(file: int, like: Path) -> None:
    """Set the mode and owner of an open file."""
    try:
        known = like.stat()
    except FileNotFoundError:
        os.fchmod(file, MODE)
        return
    os.fchmod(file, known.st_mode & 0o777)
    with suppress(PermissionError):
        os.fchown(file, known.st_uid, known.st_gid)

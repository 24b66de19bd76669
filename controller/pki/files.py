"""Write files that a process may be reading: each is whole, the old or the new one, and a key is no one else's."""

import os
import tempfile
from pathlib import Path

from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.foundation.regular_file import read_regular

SECRET, PUBLIC = 0o600, 0o644
MAX_BYTES = 16 << 20


def make_directory(path: Path) -> None:
    """Create a directory (mode 0700) where it is absent; raises PrerequisiteError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PrerequisiteError(f"{path}: cannot be created ({error.strerror}); name another directory") from None


def write(path: Path, content: bytes, mode: int) -> None:
    """Replace a file at once, and reach the disk; raises PrerequisiteError."""
    try:
        number, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
        try:
            with open(number, "wb") as file:
                file.write(content)
                os.fchmod(number, mode)
                file.flush()
                os.fsync(number)
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
        _sync(path.parent)
    except OSError as error:
        raise PrerequisiteError(f"{path}: cannot be written ({error.strerror})") from None


def read(path: Path) -> bytes:
    """Return the content of a file of ours; raises InputError."""
    try:
        return read_regular(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _sync(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)

"""Compile `port_shim.c` at first use and keep the library: machines differ, and it takes a fifth of a second."""

import os
import shutil
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path

from heddle.controller.model.error import PrerequisiteError

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = (
    *("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-nostdlib", "-ffreestanding"),
    *("-fno-stack-protector", "-fvisibility=hidden", "-Wl,-z,now", "-Wl,--hash-style=gnu"),
)
COMPILERS = ("cc", "gcc", "clang")
TIMEOUT_S = 60


def shim_library(folder: Path | None = None) -> Path:
    """Return the path of the compiled shim, in `folder` or the user's cache; raises PrerequisiteError."""
    source = SOURCE.read_bytes()
    key = sha256(b"\0".join((source, os.uname().machine.encode(), *(flag.encode() for flag in FLAGS)))).hexdigest()
    folder = folder or _cache()
    library = folder / f"heddle-port-shim-{key[:16]}.so"
    if not _is_ours(library):
        _compile(library)
    return library


def _compile(library: Path) -> None:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise PrerequisiteError("no C compiler for the port shim: apt-get install gcc libc6-dev, or name --no-shim")
    try:
        library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            made = Path(scratch, library.name)
            command = [compiler, *FLAGS, "-o", str(made), str(SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["no message"])[0]
                raise PrerequisiteError(f"{compiler} cannot compile the port shim: {reason}")
            made.chmod(0o755)
            made.replace(library)  # of two processes that compile, the later one's replaces the same bytes
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PrerequisiteError(f"the port shim cannot be compiled into {library.parent}: {error}") from None


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "heddle")


def _is_ours(library: Path) -> bool:
    """Return whether the library exists, belongs to this user or root, and no one else can write it."""
    try:
        found = library.stat()
    except OSError:
        return False
    return found.st_uid in (0, os.getuid()) and not found.st_mode & 0o022

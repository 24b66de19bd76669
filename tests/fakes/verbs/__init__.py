"""A libibverbs with versioned symbols, and programs that open queue pairs by it."""

import subprocess
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Programs(NamedTuple):
    """The folder of libibverbs.so.1, a program that resolves as NCCL does, and a linked one."""

    libraries: Path
    by_dlvsym: Path
    linked: Path


def compiled(folder):
    library = folder / "libibverbs.so.1"
    shared = ["-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", f"-Wl,--version-script={HERE / 'ibverbs.map'}"]
    _cc(*shared, "-o", library, HERE / "ibverbs.c")
    _cc("-o", folder / "by_dlvsym", HERE / "opens_queue_pairs.c", "-ldl")
    _cc("-DLINKED", "-o", folder / "linked", HERE / "opens_queue_pairs.c", library, "-ldl")
    return Programs(folder, folder / "by_dlvsym", folder / "linked")


def _cc(*arguments):
    subprocess.run(["cc", "-O1", *map(str, arguments)], check=True, timeout=60)

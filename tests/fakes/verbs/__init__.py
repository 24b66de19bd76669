"""A libibverbs with versioned symbols, and programs that open queue pairs by it."""

import subprocess
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Programs(NamedTuple):
    """The folder of libibverbs.so.1, and programs that resolve as NCCL, as NVSHMEM, linked, and as UCX's modules do."""

    libraries: Path
    by_dlvsym: Path
    by_dlsym: Path
    linked: Path
    by_module: Path


def compiled(folder):
    library, source, module = folder / "libibverbs.so.1", HERE / "opens_queue_pairs.c", folder / "module.so"
    shared = ["-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", f"-Wl,--version-script={HERE / 'ibverbs.map'}"]
    _cc(*shared, "-o", library, HERE / "ibverbs.c")
    _cc("-o", folder / "by_dlvsym", source, "-ldl")
    _cc("-DBY_DLSYM", "-o", folder / "by_dlsym", source, "-ldl")
    _cc("-DLINKED", "-o", folder / "linked", source, library, "-ldl")
    _cc("-DLINKED", "-Dmain=open_queue_pairs", "-shared", "-fPIC", "-o", module, source, library, "-ldl")
    _cc(f'-DMODULE="{module}"', "-o", folder / "by_module", HERE / "loads_a_module.c", "-ldl")
    programs = (folder / name for name in Programs._fields[1:])
    return Programs(folder, *programs)


def _cc(*arguments):
    subprocess.run(["cc", "-O1", *map(str, arguments)], check=True, timeout=60)

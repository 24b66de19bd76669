"""The kernel of a guest and its initial file system, from what `scripts/setup soak` has unpacked into `.venv/guest`.

.venv/guest/vmlinuz        Debian's linux-image-amd64
.venv/guest/lib/modules    its modules
.venv/guest/busybox        Debian's busybox-static
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(sys.prefix, "guest")
MODULES = ("9p", "9pnet_virtio", "virtio_pci", "overlay", "virtio_console")
"""What a guest needs to reach its root and the tests; it loads others from its root."""
PROGRAMS = ("qemu-system-x86_64", "modprobe", "ib_write_bw", "rdma")
HERE = Path(__file__).parent
DIRECTORY, FILE = 0o040755, 0o100755
ALIGNMENT = 4


def why_no_guests() -> str | None:
    """Return why no guest can run here; None if one can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)}: not installed (scripts/setup soak)"
    if not (FOLDER / "vmlinuz").exists():
        return f"no kernel for guests in {FOLDER} (scripts/setup soak)"
    return "guests take root" if os.geteuid() else None


def kernel_version() -> str:
    """Return the version of the guests' kernel, such as 6.1.0-56-amd64."""
    return next((FOLDER / "lib/modules").iterdir()).name


def write_initramfs(path: Path) -> None:
    """Write the archive that a guest starts from."""
    modules = _module_files()
    order = "".join(f"{module.name}\n" for module in modules).encode()
    folders = ("bin", "dev", "machine", "modules", "proc", "root", "scratch", "sys")
    files = {
        "init": (HERE / "init.sh").read_bytes(),
        "serve.sh": (HERE / "serve.sh").read_bytes(),
        "bin/busybox": (FOLDER / "busybox").read_bytes(),
        "modules/order": order,
        **{f"modules/{module.name}": module.read_bytes() for module in modules},
    }
    entries = [*((name, DIRECTORY, b"") for name in folders), *((name, FILE, data) for name, data in files.items())]
    path.write_bytes(archive(entries))


def archive(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Return a cpio archive of (name, mode, content), as kernels unpack it (format newc, cpio(5))."""
    parts = []
    for number, (name, mode, data) in enumerate((*entries, ("TRAILER!!!", 0, b"")), 1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        parts += [_aligned(header), _aligned(data)]
    return b"".join(parts)


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def _module_files() -> list[Path]:
    """Return the files of MODULES and of those that they need, in the order in which they can be loaded."""
    found: dict[Path, None] = {}
    for module in MODULES:
        command = ["modprobe", "-d", str(FOLDER), "-S", kernel_version(), "--show-depends", module]
        shown = subprocess.run(command, text=True, capture_output=True, check=True).stdout
        found |= dict.fromkeys(Path(line.split()[1]) for line in shown.splitlines() if line.startswith("insmod"))
    return list(found)

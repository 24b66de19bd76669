"""Run LLDP daemons in the namespaces of a lab's routers: lldpd where it is installed, else a stand-in."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from heddle.mininet_topos.routed.lab import RoutedLab

LLDPD = shutil.which("lldpd") or "/usr/sbin/lldpd"
SPEAKER = Path(__file__).with_name("lldp_speaker.py")
PREPARED = """hostname {name}; mount -t tmpfs none /run; mkdir -p /run/lldpd
exec {lldpd} -d -u {socket} -S a-router -O {config}"""
"""lldpd's names and files are of the machine: each router gets its own host name, and a /run of its own."""


class Daemons(NamedTuple):
    """What `--lldpd` of an agent names, by router, and the environment in which `lldpcli` is found."""

    socket_of: dict[str, Path]
    environment: dict[str, str]


def is_installed() -> bool:
    return Path(LLDPD).exists() and shutil.which("lldpcli") is not None


@contextmanager
def lldp_daemons(lab: RoutedLab, *, real: bool) -> Iterator[Daemons]:
    """Run a daemon in the namespace of each router while the context lasts.

    Debian's lldpcli is setuid `_lldpd`: that user must be able to reach the sockets, also where root runs it.
    """
    with TemporaryDirectory(prefix="heddle-lldp-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with _running(lab, folder, real=real) as daemons:
            yield daemons


@contextmanager
def _running(lab: RoutedLab, folder: Path, *, real: bool) -> Iterator[Daemons]:
    socket_of = {switch.id: folder / f"{switch.id}.lldp" for switch in lab.fabric.switches}
    environment = dict(os.environ)
    if not real:
        program = folder / "lldpcli"
        program.write_text('#!/bin/sh\nexec cat "$2"\n')
        program.chmod(0o755)
        environment["PATH"] = f"{folder}:{environment['PATH']}"
    config = folder / "lldpd.conf"
    config.write_text("configure lldp tx-interval 1\n")  # 30 s by default: an exchange takes so long to be heard
    running = []
    try:
        for name, path in socket_of.items():
            words = [sys.executable, str(SPEAKER), name, str(path)]
            if real:
                script = PREPARED.format(name=name, lldpd=LLDPD, socket=path, config=config)
                words = ["unshare", "-m", "-u", "sh", "-c", script]
            entrance = lab.net.host(name).entrance
            running.append(subprocess.Popen([*entrance, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        yield Daemons(socket_of, environment)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(20)

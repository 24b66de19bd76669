"""Report the kernels that a command compiles. Kernels stay on disk: this happens once after an installation."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from heddle.kernels.cache import on_compile

QUIET_S = 1.0
"""A command that compiles for no longer than this reports nothing."""
BESIDE = (sys.executable, "-m", "heddle.controller.planner.warm", "proof", "incast")
"""What a second process compiles meanwhile: what a plan needs last. The command then reads them from the cache."""


@contextmanager
def compiling(show: Callable[[str], None]) -> Iterator[None]:
    """While the context lasts, pass what is being compiled to `show`; a second processor compiles a part of it."""
    began: list[float] = []
    beside: list[subprocess.Popen[bytes]] = []
    active = True

    def begins(_kernel: str) -> None:
        if not active:
            return
        if not began and len(os.sched_getaffinity(0)) > 1:
            silent = subprocess.DEVNULL
            beside.append(subprocess.Popen(BESIDE, stdin=silent, stdout=silent, stderr=silent))
        began.append(time.monotonic())
        if began[-1] - began[0] >= QUIET_S:
            show(f"compiling kernels, once after an installation ({len(began)} so far)")

    on_compile(begins)
    try:
        yield
    finally:
        active = False
        for process in beside:
            process.kill()
            process.wait()

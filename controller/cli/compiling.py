"""Report the kernels that a command compiles, and let a second process compile some of them at the same time.

Kernels stay on disk, so this happens once after an installation or an update.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kernels.cache import on_compile

if TYPE_CHECKING:
    import subprocess

QUIET_S = 1.0
"""A command that compiles for no longer than this reports nothing."""
BESIDE = ("spread", "lower", "confine", "_fill", "_hash_paths")
"""Kernels that the second process compiles or, where this one has begun them, waits for. It interprets the others."""


@contextmanager
def compiling(show: Callable[[str], None]) -> Iterator[None]:
    """While the context lasts, pass what is being compiled to `show`.

    The second process writes to the same cache on disk: this one waits for a kernel that is in progress there, and
    reads it. A kernel that neither has begun is compiled by the process that needs it first.
    """
    work = _Work(show)
    on_compile(work.begins)
    try:
        yield
    finally:
        work.end()


class _Work:
    """What this process has compiled, and the process beside it."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show: Callable[[str], None] | None = show
        self._began = 0.0
        self._count = 0
        self._beside: subprocess.Popen[bytes] | None = None

    def begins(self, _kernel: str) -> None:
        if self._show is None:
            return
        self._began = self._began or time.monotonic()
        self._count += 1
        if time.monotonic() - self._began < QUIET_S:
            return
        self._show(f"compiling kernels, once after an installation ({self._count} so far)")
        if self._beside is None:
            self._beside = _compile_beside()

    def end(self) -> None:
        self._show = None
        if self._beside is not None:
            self._beside.terminate()
            self._beside.wait()


def _compile_beside() -> "subprocess.Popen[bytes]":
    import subprocess

    environment = {**os.environ, "HEDDLE_COMPILE_ONLY": ",".join(BESIDE)}
    return subprocess.Popen(
        [sys.executable, "-m", "controller.planner.warm", "incast"],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

"""Report the kernels that a command compiles. Kernels stay on disk: this happens once after an installation."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernels.cache import on_compile

QUIET_S = 1.0
"""A command that compiles for no longer than this reports nothing."""


@contextmanager
def compiling(show: Callable[[str], None]) -> Iterator[None]:
    """While the context lasts, pass what is being compiled to `show`."""
    began: list[float] = []
    active = True

    def begins(_kernel: str) -> None:
        if active:
            began.append(time.monotonic())
            if began[-1] - began[0] >= QUIET_S:
                show(f"compiling kernels, once after an installation ({len(began)} so far)")

    on_compile(begins)
    try:
        yield
    finally:
        active = False

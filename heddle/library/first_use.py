"""Say on a terminal, once in a process, that kernels compile: the first calls after an installation take seconds."""

import sys

from heddle.kernels.cache import on_compile

TEXT = "heddle: compiling kernels, once after an installation; they stay on disk"
_compiled: list[str] = []
"""The kernels that this process has compiled."""


def begins(kernel: str) -> None:
    """Print TEXT to standard error at the first kernel, where that is a terminal."""
    _compiled.append(kernel)
    if len(_compiled) == 1 and sys.stderr is not None and sys.stderr.isatty():
        print(TEXT, file=sys.stderr, flush=True)


def report() -> None:
    """Report compilations from now on; call it once."""
    on_compile(begins)

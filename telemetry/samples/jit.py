"""Compile the decoder's kernels, with a cache on disk."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from heddle.kernels.cache import keep_on_disk
from heddle.kernels.compilers import OneForm, njit

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function on its first call, without the GIL, cached on disk; it calls kernels of its own file only."""
    compiled: Callable[Parameters, Result] = njit(nogil=True)(function)
    compiled.__class__ = OneForm
    keep_on_disk(compiled)
    return compiled

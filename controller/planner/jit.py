"""Compile the planner's kernels once. The planner's one importer of numba."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
from numba.core.registry import CPUDispatcher
from numpy.typing import NDArray

from kernels.cache import digest, keep_on_disk

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]
Small = NDArray[np.int32]
Rows = NDArray[np.void]
"""Records of a structured dtype."""

COMPILE_ONLY = tuple(filter(None, os.environ.get("HEDDLE_COMPILE_ONLY", "").split(",")))
"""Kernels to compile, if any are named: the others are interpreted, so that a tiny plan reaches those at once."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function on its first call, without the GIL, cached on disk where that is possible.

    What is on disk is valid for one state of all of the planner's files, for kernels call kernels of other files.
    """
    return _compiled(function)


def bare_kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a kernel that allocates no arrays and calls only such kernels: it does not count references to arrays.

    With tuples of many arrays as arguments, that counting would take most of the time.
    """
    return _compiled(function, _nrt=False)


class _Interpreted(CPUDispatcher):
    """A kernel that Python interprets where Python calls it; kernels call it compiled."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


def _compiled(function: Callable[Parameters, Result], **options: bool) -> Callable[Parameters, Result]:
    compiled: Callable[Parameters, Result] = numba.njit(nogil=True, **options)(function)
    if COMPILE_ONLY and function.__name__ not in COMPILE_ONLY:
        compiled.__class__ = _Interpreted
    keep_on_disk(compiled, stamp=digest(Path(__file__).parent))
    return compiled

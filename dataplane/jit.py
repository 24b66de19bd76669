"""Compile packet kernels: no GIL, no reference counts, and bounds checks where a run asks for them.

A kernel that Python calls is a `kernel`, and is kept on disk; what kernels call is `inline`. Kernels may call
kernels of other files of the dataplane: the cache is valid for one state of all of them together.

With `HEDDLE_BOUNDS_CHECK=1` in the environment every access to an array or to a packet's bytes is checked and raises
IndexError, a negative index as well; such code is some times slower and is not kept on disk.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
from numba.core import types
from numba.core.registry import CPUDispatcher
from numba.np import arrayobj
from numpy.typing import NDArray

from kernels.cache import digest, keep_on_disk

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Grid = NDArray[np.int64]
"""Two dimensions."""
Row = Any
"""A row of an array with named fields, as kernels see it: `row.field` reads and writes it."""
Rows = NDArray[np.void]

CHECKED = os.environ.get("HEDDLE_BOUNDS_CHECK", "") == "1"
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# No kernel makes an array, so none needs the run time that counts references: where dozens of arrays are handed
# down, that counting costs more than the packets.
_OPTIONS = {"nogil": True, "_nrt": False, "error_model": "numpy", "boundscheck": CHECKED}
# What only kernels call needs no way in from Python: taking dozens of arrays apart was a third of all compiling.
_INNER_OPTIONS = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _as_it_is(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """Stand for Numba's function that counts a negative index from the end: ours say "none", so they are faults."""
    return context.cast(builder, index, kind, types.intp)


if CHECKED:
    arrayobj.fix_integer_index = _as_it_is


class _Inner(CPUDispatcher):
    """A function without a way in from Python."""

    def __call__(self, *arguments: object, **named: object) -> Any:
        raise TypeError(f"{self.py_func.__name__} is called by kernels only; wrap it in a kernel")


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that Python calls, at its first call for each set of argument types."""
    compiled: Callable[Parameters, Result] = numba.njit(**_OPTIONS)(function)
    if not CHECKED:
        keep_on_disk(compiled, stamp=digest(Path(__file__).parent))
    return compiled


def inline(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function into the kernels that call it."""
    compiled: Callable[Parameters, Result] = numba.njit(forceinline=True, **_INNER_OPTIONS)(function)
    compiled.__class__ = _Inner
    return compiled


def part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Paste a function into the one kernel that calls it: a piece of it with a name, and not compiled by itself."""
    pasted: Callable[Parameters, Result] = numba.njit(inline="always", **_INNER_OPTIONS)(function)
    pasted.__class__ = _Inner
    return pasted


def element(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that works on a whole burst: a call of its own inside a run loop, so that loops stay small."""
    compiled: Callable[Parameters, Result] = numba.njit(**_INNER_OPTIONS)(function)
    compiled.__class__ = _Inner
    return compiled

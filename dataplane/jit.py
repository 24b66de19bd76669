"""Compile packet kernels: no GIL, no reference counting, and bounds checks on request.

Python calls a `kernel`, whose code is cached on disk; kernels call `inline` functions. Kernels may call kernels of
other files of the dataplane: a cache entry is valid for one state of all files of the package.

With `HEDDLE_BOUNDS_CHECK=1` in the environment every access to an array or to a packet's bytes is checked and raises
IndexError, also for a negative index; this code is several times slower, and cached on disk beside the other.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from heddle.kernels.cache import digest, keep_on_disk
from heddle.kernels.compilers import EntryCompiler, OneForm, PartCompiler, WholeCompiler, njit

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Grid = NDArray[np.int64]
"""Two dimensions."""
Row = Any
"""A row of a structured array in kernels: `row.field` reads and writes it."""
Rows = NDArray[np.void]


def row_type(*names: str) -> np.dtype[np.void]:
    """Return the type of a row whose fields are words."""
    return np.dtype([(name, np.int64) for name in names])


CHECKED = os.environ.get("HEDDLE_BOUNDS_CHECK", "") == "1"
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# No kernel creates an array, so none needs Numba's reference counting: with dozens of arrays as arguments, counting
# would cost more than the packets.
_OPTIONS = {"nogil": True, "_nrt": False, "error_model": "numpy", "boundscheck": CHECKED}
# A function that only kernels call needs no wrapper for Python: unpacking dozens of arrays took a third of all compile
# time.
_INNER_OPTIONS = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Entries and parts take less time to compile, but their code without bounds checks is slower (docs/adr/0007).
_ENTRY: dict[str, Any] = {"pipeline_class": EntryCompiler if CHECKED else WholeCompiler}
_PART: dict[str, Any] = {"pipeline_class": PartCompiler if CHECKED else WholeCompiler}


if CHECKED:
    from numba.core import types
    from numba.np import arrayobj

    def _as_it_is(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        """Replace Numba's function that counts a negative index from the end: here a negative index is an error."""
        return context.cast(builder, index, kind, types.intp)

    arrayobj.fix_integer_index = _as_it_is


class _Inner(OneForm):
    """A compiled function that Python cannot call."""

    def __call__(self, *arguments: object, **named: object) -> Any:
        raise TypeError(f"{self.py_func.__name__} is called by kernels only; wrap it in a kernel")


def _stamp(file: Path) -> str:
    """Return what the code of a kernel in `file` is valid for: all files of the dataplane, and those beside a test."""
    package = Path(__file__).parent
    return digest(package) + ("" if package in file.parents else digest(file.parent))


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that Python calls, at its first call for each set of argument types."""
    compiled: Callable[Parameters, Result] = njit(**_OPTIONS, **_ENTRY)(function)
    compiled.__class__ = OneForm
    keep_on_disk(compiled, stamp=_stamp(Path(function.__code__.co_filename)), variant="-checked" if CHECKED else "")
    return compiled


def inline(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function inline into the kernels that call it."""
    compiled: Callable[Parameters, Result] = njit(forceinline=True, **_INNER_OPTIONS, **_PART)(function)
    compiled.__class__ = _Inner
    return compiled


def part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Inline a function in Numba's IR into its only caller: a named piece of a kernel, not compiled by itself."""
    pasted: Callable[Parameters, Result] = njit(inline="always", **_INNER_OPTIONS)(function)
    pasted.__class__ = _Inner
    return pasted


def element(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that processes a whole burst: a real call from the run loop, so that loops stay small."""
    compiled: Callable[Parameters, Result] = njit(**_INNER_OPTIONS, **_PART)(function)
    compiled.__class__ = _Inner
    return compiled

"""Compile the planner's kernels once. The planner's one importer of numba."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from heddle.kernels.cache import digest_with_imports, keep_on_disk
from heddle.kernels.compilers import EntryCompiler, OneForm, PartCompiler, QuickStart, njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]
Small = NDArray[np.int32]
Rows = NDArray[np.void]
"""Records of a structured dtype."""
_PLANNER = Path(__file__).parents[1]


def row(fields: Sequence[tuple[Any, ...]]) -> np.dtype[np.void]:
    """Return an aligned dtype of these fields; in interpreted code too, its records have them as attributes."""
    return np.dtype((np.record, np.dtype(list(fields), align=True)))


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function on its first call, without the GIL, cached on disk where that is possible.

    What is on disk is valid for one state of the kernel's file and of the planner's files that this imports, and so on:
    kernels call kernels of other files.
    """
    return _compiled(function)


def bare_kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a kernel that allocates no arrays and calls only such kernels: it does not count references to arrays.

    With tuples of many arrays as arguments, that counting would take most of the time.
    """
    return _compiled(function, _nrt=False)


class _Kernel(QuickStart):
    """A kernel with two compiled forms: one for Python, cached on disk, and a `part` for the kernels that call it.

    A part has no wrapper that unpacks Python's arguments and no machine code of its own, and has one form for literal
    arguments and others. This halves the time to compile. It is made for the first caller that is compiled: where all
    come from the cache, none is.
    """

    options: dict[str, Any]

    @cached_property
    def part(self) -> Any:
        made = njit(pipeline_class=PartCompiler, no_cpython_wrapper=True, **self.options)(self.py_func)
        made.__class__ = OneForm
        return made

    def get_call_template(self, args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
        return self.part.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        return self.part.get_overload(sig)


def _compiled(function: Callable[Parameters, Result], **options: bool) -> Callable[Parameters, Result]:
    # Kernels need none of numba's rewrites, which are for expressions of whole arrays, None, and tuples of mixed types.
    options |= {"nogil": True, "no_cfunc_wrapper": True, "no_rewrites": True}
    compiled = njit(pipeline_class=EntryCompiler, **options)(function)
    compiled.__class__, compiled.options = _Kernel, options
    file = Path(function.__code__.co_filename)
    keep_on_disk(compiled, stamp=digest_with_imports(file, _PLANNER, "heddle.controller.planner"))
    called: Callable[Parameters, Result] = compiled
    return called

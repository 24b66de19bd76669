"""Compile the kernels of the fluid model; they call kernels of the planner."""

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import numba

from heddle.controller import planner
from heddle.kernels.cache import digest, keep_on_disk
from heddle.kernels.compilers import OneForm

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function on its first call, without the GIL, cached on disk for one state of both packages' files."""
    compiled: Callable[Parameters, Result] = numba.njit(nogil=True)(function)
    compiled.__class__ = OneForm
    sources = (Path(__file__).parent, Path(planner.__file__).parent)
    keep_on_disk(compiled, stamp="".join(map(digest, sources)))
    return compiled

"""Compile the planner's kernels once, and never let the cache of compiled code be a reason to fail.

The one importer of numba. A cache directory that is read-only, or files in it that are torn, cost the time of
a compilation and nothing else.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]
Small = NDArray[np.int32]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _ForgivingCache:
    """Stands before numba's cache on disk: what cannot be read is compiled, what cannot be written is not kept."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            return self._cache.load_overload(signature, target_context)
        except Exception:
            # Whatever a torn pickle raises; an index that cannot be read would also stop the next save.
            with suppress(Exception):
                self._cache.flush()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        with suppress(Exception):
            self._cache.save_overload(signature, data)


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function on its first call, without the GIL, cached on disk where that is possible.

    Kernels call only kernels of their own file: numba's cache does not see a change in another one.
    """
    return _compiled(function)


def bare_kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a kernel that makes no arrays, and is called by such ones only: it counts no references to its arguments.

    Where dozens of arrays are handed down from kernel to kernel that counting is most of the time.
    """
    return _compiled(function, _nrt=False)


def _compiled(function: Callable[Parameters, Result], **options: bool) -> Callable[Parameters, Result]:
    dispatcher = numba.njit(nogil=True, **options)(function)
    with suppress(RuntimeError, OSError):
        dispatcher.enable_caching()
        dispatcher._cache = _ForgivingCache(dispatcher._cache)
    compiled: Callable[Parameters, Result] = dispatcher
    return compiled

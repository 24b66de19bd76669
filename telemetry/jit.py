"""Compile the decoder's kernels once, and never let the cache of compiled code be a reason to fail."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import numba

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
        except Exception:  # whatever a torn file raises
            with suppress(Exception):
                self._cache.flush()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        with suppress(Exception):
            self._cache.save_overload(signature, data)


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function on its first call, without the GIL, cached on disk; it calls kernels of its own file only."""
    dispatcher = numba.njit(nogil=True)(function)
    with suppress(RuntimeError, OSError):
        dispatcher.enable_caching()
        dispatcher._cache = _ForgivingCache(dispatcher._cache)
    compiled: Callable[Parameters, Result] = dispatcher
    return compiled

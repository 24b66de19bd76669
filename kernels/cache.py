"""Keep compiled kernels on disk, and never let that be a reason to fail.

A cache directory that is read-only, or files in it that are torn, cost the time of a compilation and nothing else.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile
from numba.core.runtime import rtsys

from kernels.compile_lock import CompileLock

_HASH_SECRET = b"_numba_hashsecret_"
"""Symbols of this prefix exist in a process only after a refresh of numba's target context."""


_observers: list[Callable[[str], None]] = []


def on_compile(observer: Callable[[str], None]) -> None:
    """Call `observer` with the name of each kernel that this process is about to compile."""
    _observers.append(observer)


class _ForgivingCache:
    """Stands before numba's cache on disk: what cannot be read is compiled, what cannot be written is not kept."""

    def __init__(self, cache: Any, variant: str) -> None:
        self._cache = cache
        self._lock = CompileLock(Path(cache._cache_path) / f"{cache._impl.filename_base}{variant}.lock")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return a compiled kernel; None where this process is to compile it, then with the lock."""
        found = self._read(signature, target_context)
        if found is None:
            self._lock.acquire()
            found = self._read(signature, target_context)  # as another process may have written it
            if found is not None:
                self._lock.release()
                return found
            for observer in _observers:
                observer(self._cache._impl.filename_base)
        return found

    def _read(self, signature: Any, target_context: Any) -> Any:
        with suppress(Exception):
            return self._load(signature, target_context)
        try:
            return self._cache.load_overload(signature, target_context)
        except Exception:
            # Whatever a torn pickle raises; an index that cannot be read would also stop the next save.
            with suppress(Exception):
                self._cache.flush()
            return None

    def _load(self, signature: Any, target_context: Any) -> Any:
        """Load a kernel without `target_context.refresh()`, which numba calls first: 100 ms in every process.

        A refresh imports and registers all that a compilation may need. Compiled code needs the symbols of numba's
        runtime alone, unless it hashes text. A kernel that is not in the cache is compiled, and compiling refreshes.
        """
        cache = self._cache
        rtsys.initialize(target_context)
        payload = cache._cache_file.load(cache._index_key(signature, target_context.codegen()))
        if payload is None:
            return None
        (_, _, (object_code, _)), *_ = payload
        if _HASH_SECRET in object_code:
            target_context.refresh()
        return cache._impl.rebuild(target_context, payload)

    def save_overload(self, signature: Any, data: Any) -> None:
        with suppress(Exception):
            self._cache.save_overload(signature, data)
        self._lock.release()


def keep_on_disk(dispatcher: Any, *, stamp: str | None = None, variant: str = "") -> None:
    """Cache what a dispatcher compiles; `stamp` says in which state of the sources that is valid.

    Code of the same file that is compiled with other options is another `variant`, with files of its own.

    Numba's own stamp is the kernel's file: it does not see a change in a kernel of another file that is called or
    inlined. Kernels that call into other files pass the `digest` of all of them.
    """
    with suppress(RuntimeError, OSError):
        dispatcher.enable_caching()
        inner = dispatcher._cache
        if stamp is not None:
            inner._cache_file = IndexDataCacheFile(
                cache_path=inner._cache_path, filename_base=inner._impl.filename_base + variant, source_stamp=stamp
            )
        dispatcher._cache = _ForgivingCache(inner, variant)


@cache
def digest(root: Path) -> str:
    """Return a SHA-256 hex digest of every Python file below `root`, by relative path and content."""
    whole = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        whole.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return whole.hexdigest()

"""Keep compiled kernels on disk, and never let that be a reason to fail.

A cache directory that is read-only, or files in it that are torn, cost the time of a compilation and nothing else.
"""

import hashlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile


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
        dispatcher._cache = _ForgivingCache(inner)


@cache
def digest(root: Path) -> str:
    """Return a SHA-256 hex digest of every Python file below `root`, by relative path and content."""
    whole = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        whole.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return whole.hexdigest()

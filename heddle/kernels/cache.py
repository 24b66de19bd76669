"""Cache compiled kernels on disk; a faulty cache costs compilation time and never raises.

A read-only cache directory, or damaged files in it, only make the process compile again.
"""

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from llvmlite.binding import parse_bitcode
from numba.core.caching import FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.runtime import rtsys

from heddle.kernels.compile_lock import CompileLock
from heddle.kernels.loading import CacheFile

_HASH_SECRET = b"_numba_hashsecret_"
"""Symbols of this prefix exist in a process only after a refresh of numba's target context."""


_observers: list[Callable[[str], None]] = []


def on_compile(observer: Callable[[str], None]) -> None:
    """Call `observer` with the name of each kernel that this process is about to compile."""
    _observers.append(observer)


class _Ready:
    """How many kernels this process has loaded or begun to compile."""

    count = 0


def kernels_ready() -> int:
    """Return how many kernels this process has loaded or begun to compile: a span of time without any holds neither."""
    return _Ready.count


class _Loaded(JITCodeLibrary):
    """The machine code of a kernel from the cache. Its bitcode is read where a kernel that is compiled links it in.

    Numba reads it at once, and lists its symbols one by one: half of the time and memory that loading took.
    """

    _bitcode: bytes
    _shared_module: Any

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> "_Loaded":
        name, _, (object_code, bitcode) = state
        library = cls(codegen, name)
        library._bitcode = bitcode
        library.enable_object_caching()
        library._set_compiled_object(object_code)
        library._finalize_final_module()
        return library

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function that the machine code holds, as numba asks for: the wrapper for Python."""
        return int(self._codegen._engine.get_function_address(name))

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = parse_bitcode(self._bitcode)
        return self._shared_module


class _ForgivingCache:
    """A wrapper of numba's on-disk cache: unreadable files are compiled again, write errors are ignored.

    Numba's own is made when the kernel is first called: a process calls few of the kernels that it imports.
    """

    def __init__(self, function: Any, stamp: str | None, variant: str) -> None:
        self._function, self._stamp, self._variant = function, stamp, variant

    @cached_property
    def _cache(self) -> Any:
        try:
            found = FunctionCache(self._function)
            if self._stamp is not None:
                name = found._impl.filename_base + self._variant
                found._cache_file = CacheFile(found._cache_path, name, self._stamp)
        except (RuntimeError, OSError):  # no directory can be written
            return NullCache()
        return found

    @cached_property
    def _lock(self) -> CompileLock:
        return CompileLock(Path(self._cache._cache_path) / f"{self._cache._impl.filename_base}{self._variant}.lock")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def make(self) -> None:
        """Make numba's cache now."""
        _ = self._cache

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return a compiled kernel; None where this process is to compile it, then with the lock."""
        if isinstance(self._cache, NullCache):
            return None
        _Ready.count += 1
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
            # A damaged pickle may raise anything; an unreadable index would also make the next save fail.
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
        generator = target_context.codegen()
        library, generator._library_class = generator._library_class, _Loaded
        try:
            return cache._impl.rebuild(target_context, payload)
        finally:
            generator._library_class = library

    def save_overload(self, signature: Any, data: Any) -> None:
        if isinstance(self._cache, NullCache):
            return
        with suppress(Exception):
            self._cache.save_overload(signature, data)
        self._lock.release()


def keep_on_disk(dispatcher: Any, *, stamp: str | None = None, variant: str = "") -> None:
    """Cache the compiled code of a dispatcher; it is valid for sources with the same `stamp`.

    Code of one file compiled with other options is another `variant`, with cache files of its own.

    Numba's own stamp covers the kernel's file only, not the kernels of other files that it calls or inlines. Kernels
    that call into other files pass the `digest` of those.
    """
    dispatcher._cache = _ForgivingCache(dispatcher.py_func, stamp, variant)
    if stamp is None:
        dispatcher._cache.make()  # numba's stamp is that of the file now, before another version of it may be installed


@cache
def digest(root: Path) -> str:
    """Return a SHA-256 hex digest of every Python file below `root`, by relative path and content."""
    whole = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        whole.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return whole.hexdigest()


@cache
def digest_with_imports(file: Path, root: Path, package: str) -> str:
    """Return a SHA-256 hex digest of a Python file and of the files of a package that it imports, and so on.

    `root` is the folder of `package`. Where a file imports a folder, all files below it count. The package has no
    relative imports.
    """
    found, left = set[Path](), [file]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += _read(each, root, package)[1]
    whole = hashlib.sha256()
    for each in sorted(found):
        name = each.relative_to(root) if root in each.parents else Path(each.name)
        whole.update(f"{name.as_posix()}\0{_read(each, root, package)[0]}\0".encode())
    return whole.hexdigest()


@cache
def _read(file: Path, root: Path, package: str) -> tuple[str, tuple[Path, ...]]:
    """Return the digest of a file, and the files of the package that it imports itself."""
    text, imported = file.read_bytes(), list[Path]()
    for module in re.findall(rb"(?m)^\s*(?:from|import)\s+" + re.escape(package).encode() + rb"((?:\.\w+)*)\s", text):
        path = root.joinpath(*module.decode().split("."))
        imported += [module_file] if (module_file := path.with_suffix(".py")).is_file() else sorted(path.rglob("*.py"))
    return hashlib.sha256(text).hexdigest(), tuple(imported)

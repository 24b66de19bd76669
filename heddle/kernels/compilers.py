"""Compile kernels that call each other in less time.

Numba compiles a function for its callers as it does for Python: it optimises the function, with all that it calls, and
generates machine code. The callers link it in, optimise the whole again, and never use that machine code. The compilers
here do both only for what Python calls.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys


class _Part(JITCodeLibrary):
    """The code of a function that only kernels call. It has no machine code: callers link it in."""

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, *_environment: Any) -> None:
        """Do nothing: an environment belongs to machine code."""

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def _optimize_final_module(self) -> None:
        """Do nothing: callers optimise it once everything is linked."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class EntryCompiler(Compiler):
    """The compiler of a kernel for Python."""

    _library: type[JITCodeLibrary] = JITCodeLibrary

    def __init__(self, typing: Any, target: Any, _library: Any, *others: Any) -> None:
        rtsys.initialize(target)  # before `compile_extra`, for numba's runtime is machine code
        super().__init__(typing, target, self._library(target.codegen(), "kernel"), *others)
        self.state.library.enable_object_caching()

    def compile_extra(self, func: Any) -> Any:
        """Compile a kernel; numba's own functions that it calls, such as `np.empty`, become parts as well."""
        generator = self.state.targetctx.codegen()
        library, generator._library_class = generator._library_class, _Part
        try:
            return super().compile_extra(func)
        finally:
            generator._library_class = library


class PartCompiler(EntryCompiler):
    """The compiler of a kernel for kernels."""

    _library = _Part

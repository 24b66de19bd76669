"""Compile kernels that call each other in less time.

Numba compiles a function for its callers as it does for Python: it optimises the function, with all that it calls, and
generates machine code. The callers link it in, optimise the whole again, and never use that machine code. The compilers
of entries and parts do both only for what Python calls.

While an entry compiles, so do the functions that it calls. Numba's own then become parts; a function that Python calls
as well must not, so it is an entry or whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from numba import njit as njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher as CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.types.misc import unliteral


class _Part(JITCodeLibrary):
    """The code of a function that only kernels call. It has no machine code: callers link it in."""

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, *_environment: Any) -> None:
        """Do nothing: an environment belongs to machine code."""

    def get_pointer_to_function(self, name: str) -> int:
        """Return no address; raises TypeError where numba asks for what Python calls: 0 ends the process."""
        if any(each.name == name for each in self._final_module.functions):
            raise TypeError(f"{self.name} is for Python and compiles as a part: give it the WholeCompiler")
        return 0

    def _optimize_final_module(self) -> None:
        """Do nothing: callers optimise it once everything is linked."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class WholeCompiler(Compiler):
    """The compiler of a function that is optimised by itself, as numba does; so is what it calls."""

    _library: type[JITCodeLibrary] = JITCodeLibrary
    _called: type[JITCodeLibrary] = JITCodeLibrary

    def __init__(self, typing: Any, target: Any, _library: Any, *others: Any) -> None:
        rtsys.initialize(target)  # before `compile_extra`, for numba's runtime is machine code
        super().__init__(typing, target, self._library(target.codegen(), "kernel"), *others)
        self.state.library.enable_object_caching()

    def compile_extra(self, func: Any) -> Any:
        """Compile a function, and numba's own functions that it calls, such as `np.empty`."""
        generator = self.state.targetctx.codegen()
        library, generator._library_class = generator._library_class, self._called
        try:
            return super().compile_extra(func)
        finally:
            generator._library_class = library


class EntryCompiler(WholeCompiler):
    """The compiler of a kernel for Python. What it calls becomes parts."""

    _called = _Part


class PartCompiler(EntryCompiler):
    """The compiler of a kernel for kernels."""

    _library = _Part


class QuickStart(CPUDispatcher):
    """A dispatcher that does not look for numba's extensions first: that reads the metadata of each distribution."""

    def _compilation_chain_init_hook(self) -> None:
        """Do nothing; numba calls it before it looks for the types of arguments. Kernels use none of them."""


class OneForm(QuickStart):
    """The dispatcher of a function that has one form for literal arguments and others.

    Numba's own compiles a form for each literal that a kernel passes, and again what that calls: a quarter of the
    functions of a gateway. LLVM folds the constants where it inlines.
    """

    def get_call_template(self, args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
        """Return the form for these types, as numba asks for: compiled for the types of the literals."""
        plain = {name: unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(unliteral, args)), plain)

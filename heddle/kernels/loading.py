"""Load kernels from the cache without what numba imports to compile: a third of the time that the first one takes."""

import pickle
import sys
from collections.abc import Sequence
from typing import Any

from numba.core.caching import IndexDataCacheFile
from numba.core.environment import Environment, _rebuild_env, lookup_environment


def _environment(module: str, constants: Sequence[Any], name: str) -> Environment:
    """Return the environment of a function, of numba's own without importing its module.

    Compiled code reads the constants alone; the module's names are for code that numba leaves to the interpreter.
    """
    if module in sys.modules or not module.startswith("numba.") or lookup_environment(name) is not None:
        return _rebuild_env(module, constants, name)
    made = Environment({"__name__": module})
    made.consts[:] = constants
    made.env_name = name
    Environment._memo[name] = made
    return made


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return _environment if found is _rebuild_env else found


class CacheFile(IndexDataCacheFile):
    """The files of one kernel."""

    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            return _Unpickler(file).load()

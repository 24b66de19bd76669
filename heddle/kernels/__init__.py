"""How kernels are compiled, and their cache on disk, shared by planner, telemetry, dataplane and benchmarks."""

import sys
from types import ModuleType

# Numba's support of coverage imports that package where it is installed, as it is in a checkout: for an option that no
# kernel uses, a twentieth of the time in which a process starts.
_support = ModuleType("numba.misc.coverage_support")
_support.get_registered_loc_notify = list  # type: ignore[attr-defined] # the receivers of a line's event: none
sys.modules.setdefault(_support.__name__, _support)

"""What is compiled ahead of time."""

import subprocess
import sys
import textwrap

from heddle.controller.planner.search import joint
from heddle.controller.planner.search.relax import relax
from heddle.controller.planner.warm import PLANNING, warm

UNREACHED = textwrap.dedent(
    """
    import importlib, pkgutil
    from numba.core.registry import CPUDispatcher
    from heddle.controller.planner import session, warm

    warm.warm(("session",))
    names = [f"{session.__name__}.{found.name}" for found in pkgutil.iter_modules(session.__path__)]
    modules = [importlib.import_module(name) for name in names]
    kernels = {kernel for module in modules for kernel in vars(module).values() if isinstance(kernel, CPUDispatcher)}
    assert len(kernels) > 20
    reached = [kernel for kernel in kernels if kernel.signatures]
    for kernel in reached:
        # A kernel is compiled with all kernels that it calls.
        code = kernel.py_func
        called = [code.__globals__.get(name) for name in code.__code__.co_names]
        reached += {value for value in called if isinstance(value, CPUDispatcher)} & kernels - set(reached)
    print(*sorted(kernel.__name__ for kernel in kernels.difference(reached)))
    """
)


def test_every_kernel_of_a_session_is_compiled_ahead_of_time():
    found = subprocess.run((sys.executable, "-c", UNREACHED), capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_each_start_of_a_planner_tries_few_paths(monkeypatch):
    tried = 0

    def counted(net, loads, moving, goal, steps, paths, patience):
        nonlocal tried
        missed, left = relax(net, loads, moving, goal, steps, paths, patience)
        tried += paths - left
        return missed, left

    monkeypatch.setattr(joint, "relax", counted)
    warm((*PLANNING, "session"))
    assert 0 < tried < 100_000, "a process that warms up plans small cases, to load their kernels"

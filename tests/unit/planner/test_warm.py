"""What is compiled ahead of time."""

import subprocess
import sys
import textwrap

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

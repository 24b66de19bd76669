"""Functions that Python and kernels call: the order in which they compile changes nothing."""

import subprocess
import sys

import pytest

CALLED_BY_BOTH = """
import numba
from heddle.kernels.compilers import EntryCompiler, WholeCompiler

@numba.njit(**{inner})
def inner(x):
    return 2 * x

@numba.njit(pipeline_class=EntryCompiler)
def outer(x):
    return inner(x) + 1

print(outer(21), inner(21))
"""


def run(inner: str) -> subprocess.CompletedProcess:
    """Run a process that compiles a function first for an entry's kernel, then calls it from Python."""
    command = [sys.executable, "-c", CALLED_BY_BOTH.replace("{inner}", inner)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("compiler", ["WholeCompiler", "EntryCompiler"])
def test_python_calls_a_function_that_compiled_for_a_kernel(compiler):
    assert run(f"dict(pipeline_class={compiler})").stdout == "43 42\n"


def test_a_function_for_python_that_would_become_a_part_is_an_error_that_names_it():
    done = run("{}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("TypeError: inner is for Python and compiles as a part")

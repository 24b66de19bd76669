"""Search and sum a column, for kernels: numpy's own routines take up to ten times as long to compile.

A kernel that uses those of `numba.np.arraymath` also imports that module when it is loaded: 0.06 s in each process, and
0.3 s where SciPy is installed.
"""

from heddle.controller.planner.ground.jit import Floats, Ints, Small, bare_kernel


@bare_kernel
def first_from(values: Ints | Small, low: int, high: int, value: int) -> int:
    """Return the first index from `low` on whose value, of ascending ones, is at least `value`; `high` if none is."""
    while low < high:
        half = (low + high) // 2
        if values[half] < value:
            low = half + 1
        else:
            high = half
    return low


@bare_kernel
def smallest(values: Ints | Floats) -> int:
    """Return the index of the first of the smallest values; there must be one."""
    found = 0
    for i in range(1, values.shape[0]):
        if values[i] < values[found]:
            found = i
    return found


@bare_kernel
def total(values: Ints | Floats) -> float:
    """Return the sum of the values."""
    found = 0.0
    for i in range(values.shape[0]):
        found += values[i]
    return found

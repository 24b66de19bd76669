"""Binary search in a sorted column, for kernels: `np.searchsorted` takes ten times as long to compile."""

from controller.planner.jit import Ints, Small, bare_kernel


@bare_kernel
def first_from(values: Ints | Small, low: int, high: int, value: int) -> int:
    """Return the first index from `low` on whose value is at least `value`; `high` where there is none below it."""
    while low < high:
        half = (low + high) // 2
        if values[half] < value:
            low = half + 1
        else:
            high = half
    return low

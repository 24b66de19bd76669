"""Compute when an agent samples: on a fixed grid, with time as an argument."""


def next_tick_ns(start_ns: int, period_ns: int, now_ns: int) -> tuple[int, int]:
    """Return the first moment of the grid after now, and its number: ticks that were missed are not made up for."""
    number = (now_ns - start_ns) // period_ns + 1
    return start_ns + number * period_ns, number

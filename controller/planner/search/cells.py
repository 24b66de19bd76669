"""A grid of links (`grid`) as the kernels that search on it see it: the links of a path, the best path, its load."""

from controller.planner.jit import Floats, Ints, kernel

Cells = tuple[int, int, int, int, int, Ints, Ints, Floats, Floats, Ints]
"""The fields of `grid.Grid`, in their order."""


@kernel
def link_of(grid: Cells, a: int, b: int, column: int, core: int, step: int) -> int:
    """Return the link of a path at a step of the four (up, down, core up, core down), -1 where it has none there."""
    leaves, columns, pods, planes, cores, pod, plane_of = grid[:7]
    if step == 0:
        return a * columns + column
    if step == 1:
        return (leaves + b) * columns + column
    if core < 0:
        return -1
    first = 2 * leaves * columns + plane_of[column] * cores + core
    return first + pod[a] * planes * cores if step == 2 else first + (pods + pod[b]) * planes * cores


@kernel
def best_core(
    grid: Cells, a: int, b: int, column: int, demand: float, worst: float, best: float
) -> tuple[int, float, float]:
    """Return the best core of a column's plane, its fullest link (`worst` or more) and the sum; -1 if none is below."""
    cores, load, inverse = grid[4], grid[7], grid[8]
    up, down = link_of(grid, a, b, column, 0, 2), link_of(grid, a, b, column, 0, 3)
    chosen, found, total = -1, best, 1e29
    for c in range(cores):
        x, y = (load[up + c] + demand) * inverse[up + c], (load[down + c] + demand) * inverse[down + c]
        full = max(worst, x, y)
        if full < found or (full == found and x + y < total):
            chosen, found, total = c, full, x + y
    return chosen, found, total


@kernel
def best_path(grid: Cells, a: int, b: int, demand: float) -> tuple[int, int, float]:
    """Return column and core of the best path and its fullest link; column -1 where there is none."""
    leaves, columns, _, _, _, pod, _, load, inverse, _ = grid
    up, down, across = a * columns, (leaves + b) * columns, pod[a] != pod[b]
    column, core, best, least = -1, -1, 1e29, 1e29
    for j in range(columns):
        x, y = (load[up + j] + demand) * inverse[up + j], (load[down + j] + demand) * inverse[down + j]
        full, total = max(x, y), x + y
        if full > best or full > 1e20:
            continue
        if not across:
            if full < best or total < least:
                column, best, least = j, full, total
            continue
        c, worst, more = best_core(grid, a, b, j, demand, full, best)
        if c >= 0 and worst < 1e20 and (worst < best or total + more < least):
            column, core, best, least = j, c, worst, total + more
    return column, core, best


@kernel
def put(grid: Cells, a: int, b: int, column: int, core: int, demand: float) -> None:
    """Add a demand to the load of a path's links."""
    for step in range(4):
        link = link_of(grid, a, b, column, core, step)
        if link >= 0:
            grid[7][link] += demand

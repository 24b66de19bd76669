"""Kernels that put the flows of a session on paths.

They keep loads, the list of flows of each link and the seat tables current, and log each change for `undo`.
"""

from heddle.controller.planner.ground.clos import NO_LINK
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, Rows, bare_kernel
from heddle.controller.planner.session.table import DEAD, Arrays


@bare_kernel
def reset_flows(
    flows: Rows, spots: Rows, rows: Ints, event: int, job: int, tenant: int, source: Ints, target: Ints, demand: Ints,
    held: Flags, layer: Ints,
) -> None:  # fmt: skip
    """Fill the rows of a job's flows, which have no paths yet; the arguments are fields of `table.FLOW`."""
    for i in range(rows.shape[0]):
        flow, spot = flows[rows[i]], spots[rows[i]]
        flow.source, flow.target, flow.demand, flow.held, flow.layer = (
            source[i],
            target[i],
            demand[i],
            held[i],
            layer[i],
        )
        flow.stamp, flow.fresh, flow.job, flow.tenant = 0, event, job, tenant
        for step in range(4):
            flow.path[step], flow.after[step], flow.before[step] = NO_LINK, NO_LINK, NO_LINK
        spot.leaf[0], spot.leaf[1], spot.column, spot.core = source[i], target[i], -1, -1


@bare_kernel
def mark_stranded(flows: Rows, rows: Ints, dead_leaf: Ints, stranded: Flags) -> None:
    """Mark which of these flows have no path, or are within a leaf that is dead."""
    for i in range(rows.shape[0]):
        flow = flows[rows[i]]
        inside = flow.source == flow.target
        stranded[rows[i]] = dead_leaf[flow.source] > 0 if inside else flow.path[0] < 0


@bare_kernel
def fullest_link(load: Floats, inverse: Floats, divisor: Floats) -> tuple[float, int]:
    """Return the largest utilisation, and the first link that has it; 0.0 and link 0 where no live link has load.

    The number of links is even. Utilisations that differ by less than a factor of 1 + 1e-12 count as equal.
    """
    # Many links have equal loads. A search that branches on each comparison takes five to ten times as long.
    half = load.shape[0] >> 1
    one, two = 0.0, 0.0
    for i in range(half):
        one = max(one, load[i] * inverse[i] if inverse[i] < DEAD else 0.0)
        two = max(two, load[half + i] * inverse[half + i] if inverse[half + i] < DEAD else 0.0)
    bar = max(one, two) * (1 - 1e-12)
    for i in range(load.shape[0] if bar > 0.0 else 0):
        if inverse[i] < DEAD and load[i] * inverse[i] >= bar:
            return load[i] / divisor[i], i
    return 0.0, 0


@bare_kernel
def growth(s: Arrays, link: int, row: int, amount: float) -> float:
    """Return by how much the load of a link grows with `amount` more in a layer: the job's heaviest phase counts."""
    before, after = 0.0, 0.0
    for other in range(s.layer_span[row].first, s.layer_span[row].end):
        load = s.layer_load[other, link]
        before, after = max(before, load), max(after, load + amount if other == row else load)
    return after - before


@bare_kernel
def _add_load(s: Arrays, f: int, link: int, amount: int) -> None:
    """Add a demand to the load of a link; for a job of several phases, only the increase of its heaviest phase."""
    row = s.flow[f].layer
    if row < 0:
        s.load[link] += amount
        return
    s.load[link] += growth(s, link, row, amount)
    s.layer_load[row, link] += amount


@bare_kernel
def _mark_seat(s: Arrays, link: int) -> None:
    """Update a link's owner in the seat tables: a flow, or -1: free, -2: dead, -3: several flows."""
    seat, node = s.seat_of[link], s.head[link]
    if seat < 0:
        return
    owner = -1 if node < 0 else node >> 2 if s.flow[node >> 2].after[node & 3] < 0 else -3
    s.owner[seat] = owner if s.inverse[link] < DEAD else -2
    bit, vertex = 1 << (seat & ((1 << s.shift) - 1)), seat >> s.shift
    s.free[vertex] = s.free[vertex] | bit if s.owner[seat] == -1 else s.free[vertex] & ~bit


@bare_kernel
def mark_seats(s: Arrays, links: Ints) -> None:
    """Update the seat tables for links that failed or came back."""
    for i in range(links.shape[0]):
        _mark_seat(s, links[i])


@bare_kernel
def seat_column(s: Arrays, up: int, down: int) -> int:
    """Return the column of two links; -1 where there is none, -2 where they have different ones."""
    if up < 0:
        return -1
    mask = (1 << s.shift) - 1
    return s.seat_of[up] & mask if (s.seat_of[up] ^ s.seat_of[down]) & mask == 0 else -2


@bare_kernel
def _mark_spot(s: Arrays, f: int) -> None:
    """Update column and core of a flow in the seat tables; -2 where it does not go up and down by the same one."""
    path, spot = s.flow[f].path, s.spot[f]
    spot.column, spot.core = seat_column(s, path[0], path[3]), seat_column(s, path[1], path[2])


@bare_kernel
def _leave(s: Arrays, f: int, step: int) -> None:
    """Remove a flow from the link at a step of its path."""
    flow = s.flow[f]
    link, after, before = flow.path[step], flow.after[step], flow.before[step]
    if link < 0:
        return
    if before >= 0:
        s.flow[before >> 2].after[before & 3] = after
    else:
        s.head[link] = after
    if after >= 0:
        s.flow[after >> 2].before[after & 3] = before
    _add_load(s, f, link, -flow.demand)
    _mark_seat(s, link)


@bare_kernel
def _enter(s: Arrays, f: int, step: int, link: int, after: int, before: int) -> None:
    """Put a flow on a link at a step of its path, between two nodes of its list."""
    flow = s.flow[f]
    flow.path[step], flow.after[step], flow.before[step] = link, after, before
    if link < 0:
        return
    if before >= 0:
        s.flow[before >> 2].after[before & 3] = 4 * f + step
    else:
        s.head[link] = 4 * f + step
    if after >= 0:
        s.flow[after >> 2].before[after & 3] = 4 * f + step
    _add_load(s, f, link, flow.demand)
    _mark_seat(s, link)


@bare_kernel
def set_path(s: Arrays, f: int, up: int, core_up: int, core_down: int, down: int) -> None:
    """Put a flow on a path, at the head of the list of each link that is new to it, and log its old path."""
    flow, path = s.flow[f], (up, core_up, core_down, down)
    entry = s.log[s.counter[0].logged]
    s.counter[0].logged += 1
    entry.flow, entry.fresh = f, flow.fresh
    for step in range(4):
        entry.path[step] = flow.path[step]
    for step in range(4):
        entry.after[step] = flow.after[step]
    for step in range(4):
        entry.before[step] = flow.before[step]
    for step in range(4):
        if flow.path[step] != path[step]:
            _leave(s, f, step)
            _enter(s, f, step, path[step], s.head[path[step]] if path[step] >= 0 else -1, -1)
    _mark_spot(s, f)


@bare_kernel
def set_paths(s: Arrays, rows: Ints, paths: Ints) -> None:
    """Put flows on given paths."""
    for i in range(rows.shape[0]):
        set_path(s, rows[i], paths[i, 0], paths[i, 1], paths[i, 2], paths[i, 3])


@bare_kernel
def undo(s: Arrays, mark: int) -> None:
    """Undo the changes logged since `mark`, the last first; lists are as before, order included, and so is `fresh`."""
    while s.counter[0].logged > mark:
        s.counter[0].logged -= 1
        entry = s.log[s.counter[0].logged]
        for step in range(4):
            if entry.path[step] != s.flow[entry.flow].path[step]:
                _leave(s, entry.flow, step)
                _enter(s, entry.flow, step, entry.path[step], entry.after[step], entry.before[step])
        s.flow[entry.flow].fresh = entry.fresh
        _mark_spot(s, entry.flow)

"""Kernels that place a flow by moving the fewest others: where moves are limited, each one counts.

Three methods to make room are tried, and the one that moves the fewest flows is carried out: the chains of columns of
`chains`, with the moves between cores that they cause; moves between cores alone; and *ejections*, where the flow takes
any path, and one flow of each link that is then too full moves to a path with room. Ejections also serve flows of
different sizes. Flows that the event has placed or moved cost nothing.
The first method that moves the fewest flows wins, so equal states give equal moves.
"""

from typing import Any

from heddle.controller.planner.ground.jit import bare_kernel
from heddle.controller.planner.session.chains import (
    MAX_FLOWS_READ,
    carry_out,
    charged,
    direct,
    find_core,
    may_move,
    put,
    shift,
    use,
    walk,
    wire,
)
from heddle.controller.planner.session.paths import growth, set_path, undo
from heddle.controller.planner.session.table import DEAD, Arrays

BY_CORES, BY_EJECTION = -1, -2
"""Values of a chain's `out` where no columns are exchanged: moves between cores, and ejections."""
MAX_EJECTIONS = 256
"""The paths that are tried for a flow with ejections."""
MAX_BITS = 64
"""The columns of which one word says whether they have room."""


@bare_kernel
def fewest(s: Arrays, f: int, limit: float, most: int) -> int:
    """Place a flow that is on no link within a limit; return how many moves count, or -1 without a change.

    At most `most` moves may count, with that of the flow itself where it is none of the event's.
    """
    mark, budget, own = s.counter[0].logged, s.counter[0].budget, 0 if s.flow[f].fresh == s.counter[0].event else 1
    trial, best = s.best[s.best.shape[0] - 2], s.best[s.best.shape[0] - 1]
    best.length = most + 1
    if s.planes > 0 and s.pod[s.flow[f].source] != s.pod[s.flow[f].target]:
        _by_cores(s, f, limit, own, trial, best)
    _by_ejection(s, f, limit, own, trial, best)
    _by_columns(s, f, limit, own, trial, best)
    done = best.length <= most and _carry_out(s, f, limit, best)
    s.counter[0].budget = budget
    return charged(s, mark) if done else -1


@bare_kernel
def _carry_out(s: Arrays, f: int, limit: float, chain: Any) -> bool:
    """Make room as a row of `Arrays.best` says; where it returns False, the caller must undo its changes."""
    s.counter[0].budget = s.counter[0].used + chain.allowed
    if chain.out == BY_EJECTION:
        return _push(s, f, chain.into, chain.core, limit, chain.allowed)
    if chain.out == BY_CORES:
        shift(s, f, 0, 0, chain.into)
        return find_core(s, f, s.plane_of[chain.into], limit)
    return carry_out(s, f, chain.into, chain.out, chain.right == 1, limit)


@bare_kernel
def _try(s: Arrays, f: int, limit: float, trial: Any, best: Any) -> None:
    """Make room as `trial` says and undo it; copy it to `best` if fewer moves count."""
    mark = s.counter[0].logged
    if _carry_out(s, f, limit, trial):
        cost = charged(s, mark)
        if cost < best.length:
            best.length, best.into, best.out, best.right = cost, trial.into, trial.out, trial.right
            best.core, best.allowed = trial.core, trial.allowed
    undo(s, mark)


@bare_kernel
def _by_cores(s: Arrays, f: int, limit: float, own: int, trial: Any, best: Any) -> None:
    """Try the columns with room at both ends, where flows must move between cores."""
    u, v, demand, row = s.flow[f].source, s.flow[f].target, s.flow[f].demand, s.flow[f].layer
    for column in range(s.up_leaf.shape[1]):
        up, down = s.up_leaf[u, column], s.up_leaf[v, column] + s.cables
        if best.length > own and max(use(s, up, demand, row), use(s, down, demand, row)) <= limit:
            trial.into, trial.out, trial.allowed = column, BY_CORES, best.length - 1 - own
            _try(s, f, limit, trial, best)


@bare_kernel
def _by_columns(s: Arrays, f: int, limit: float, own: int, trial: Any, best: Any) -> None:
    """Try the chains of all pairs of columns."""
    u, v, demand, row = s.flow[f].source, s.flow[f].target, s.flow[f].demand, s.flow[f].layer
    columns, longest, room = s.up_leaf.shape[1], s.chain.shape[0] - 1, 0
    for b in range(min(columns, MAX_BITS)):
        if use(s, s.up_leaf[v, b] + s.cables, demand, row) <= limit:
            room |= 1 << b
    for a in range(columns if room != 0 or columns > MAX_BITS else 0):
        if use(s, s.up_leaf[u, a], demand, row) > limit:
            continue
        for b in range(columns):
            if a == b or (b < MAX_BITS and (room >> b) & 1 == 0):
                continue
            if b >= MAX_BITS and use(s, s.up_leaf[v, b] + s.cables, demand, row) > limit:
                continue
            for side in range(2):
                into, out = (a, b) if side == 1 else (b, a)
                if best.length <= own:
                    return
                trial.into, trial.out, trial.right, trial.allowed = into, out, side, best.length - 1 - own
                s.counter[0].budget = s.counter[0].used + trial.allowed
                if walk(s, f, 0, 0, into, out, side == 1, limit, longest) >= 0:
                    _try(s, f, limit, trial, best)


@bare_kernel
def _by_ejection(s: Arrays, f: int, limit: float, own: int, trial: Any, best: Any) -> None:
    """Try all paths on which at most two links would be too full."""
    across, tried = s.planes > 0 and s.pod[s.flow[f].source] != s.pod[s.flow[f].target], 0
    u, v, alike = s.flow[f].source, s.flow[f].target, s.counter[0].pair > 0
    for column in range(s.up_leaf.shape[1]):
        if alike and not across and (_is_kept(s, u, column, False, limit) or _is_kept(s, v, column, True, limit)):
            continue  # no push can succeed; there are at most MAX_EJECTIONS columns
        for number in range(s.up_plane.shape[1] if across else 1):
            core = number if across else -1
            if best.length <= own or tried >= MAX_EJECTIONS:
                return
            if _blocked(s, f, column, core, limit) <= 2:
                trial.into, trial.out, trial.core, trial.allowed = column, BY_EJECTION, core, best.length - 1 - own
                if _may_push(s, f, column, limit, trial.allowed):
                    _try(s, f, limit, trial, best)
                tried += 1


@bare_kernel
def _blocked(s: Arrays, f: int, column: int, core: int, limit: float) -> int:
    """Return how many links of a path would be above a limit with a flow on them; many where one of them is dead."""
    count, demand, row = 0, s.flow[f].demand, s.flow[f].layer
    u, v = s.flow[f].source, s.flow[f].target
    plane = s.plane_of[column]
    for step in range(4 if core >= 0 else 2):
        if step < 2:
            link = wire(s, 0, u if step == 0 else v, column, step == 1)
        else:
            link = wire(s, 1, s.pod[u if step == 2 else v] * s.planes + plane, core, step == 3)
        full = use(s, link, demand, row)
        count += 5 if full >= DEAD else 1 if full > limit else 0
    return count


@bare_kernel
def _may_push(s: Arrays, f: int, column: int, limit: float, left: int) -> bool:
    """Return False where `_push` is bound to fail at a leaf's link of that column; read without a change."""
    for right in (False, True):
        link = wire(s, 0, s.flow[f].target if right else s.flow[f].source, column, right)
        if s.counter[0].pair * s.inverse[link] <= limit:
            return True
        node, seen, free = s.head[link], 0, s.head[link] < 0
        while node >= 0 and seen < MAX_FLOWS_READ and not free:
            g, seen = node >> 2, seen + 1
            cost, node = 0 if s.flow[g].fresh == s.counter[0].event else 1, s.flow[g].after[node & 3]
            free = cost <= left and may_move(s, g) and _has_room(s, g)
        if not free:
            return False
    return True


@bare_kernel
def _is_kept(s: Arrays, leaf: int, column: int, right: bool, limit: float) -> bool:
    """Return whether a leaf's link has one flow, which has no room elsewhere, and cannot carry two."""
    link = wire(s, 0, leaf, column, right)
    g = s.owner[s.seat_of[link]]
    return bool(g >= 0 and s.counter[0].pair * s.inverse[link] > limit and not _has_room(s, g))


@bare_kernel
def _has_room(s: Arrays, g: int) -> bool:
    """Return whether both leaves of a flow have a link without a flow in one column; needs the tables of `seats`."""
    return bool(s.free[s.spot[g].leaf[0]] & s.free[s.free.shape[0] // 2 + s.spot[g].leaf[1]] != 0)


@bare_kernel
def _push(s: Arrays, f: int, column: int, core: int, limit: float, left: int) -> bool:
    """Put a flow on a path and move one flow off each of its links that is above a limit; at most `left` count."""
    put(s, f, column, core)
    for step in range(4):
        link = s.flow[f].path[step]
        if link >= 0 and s.load[link] * s.inverse[link] > limit:
            cost = _eject(s, f, link, limit, left)
            if cost < 0:
                return False
            left -= cost
    return True


@bare_kernel
def _eject(s: Arrays, f: int, link: int, limit: float, left: int) -> int:
    """Move a flow other than f off a link above a limit, to a path with room; return 1 if it counts, or -1 for none."""
    node, seen = s.head[link], 0
    while node >= 0 and seen < MAX_FLOWS_READ:
        g, seen = node >> 2, seen + 1
        node, size, own = s.flow[g].after[node & 3], s.flow[g].demand, s.flow[g].layer
        cost = 0 if s.flow[g].fresh == s.counter[0].event else 1
        less = size if own < 0 else -growth(s, link, own, -size)
        if g == f or cost > left or (s.load[link] - less) * s.inverse[link] > limit or not may_move(s, g):
            continue
        if s.counter[0].pair * s.inverse[link] > limit and not _has_room(s, g):
            continue  # every other path has a flow on a link that cannot carry two
        mark = s.counter[0].logged
        set_path(s, g, -1, -1, -1, -1)
        column, core, worst = direct(s, g)
        if column >= 0 and worst <= limit:
            put(s, g, column, core)
            return cost
        undo(s, mark)
    return -1

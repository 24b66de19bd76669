"""Kernels that place flows one by one, and move flows off the fullest links."""

from heddle.controller.planner.ground.jit import Flags, Floats, Ints, bare_kernel
from heddle.controller.planner.session.chains import (
    CANDIDATES,
    carry_out,
    charged,
    commit,
    direct,
    find_core,
    may_move,
    put,
    search,
    shift,
    use,
    wire,
)
from heddle.controller.planner.session.fewest import fewest
from heddle.controller.planner.session.paths import set_path, undo
from heddle.controller.planner.session.table import Arrays

MAX_FLOWS_TRIED = 24
"""The flows of a full link for which other paths are tried."""
FAR = 1000
"""The cost of a link above the limit: more than that of any path within it."""
MAX_TRIES = 1024
"""The flows for which chains are searched in one go."""


@bare_kernel
def _make_room(s: Arrays, f: int, limit: float) -> bool:
    """Place a flow for which no path has room below the limit, by a chain; return False without a change."""
    if s.counter[0].thrifty != 0:
        return fewest(s, f, limit, 0) >= 0
    mark, demand, row = s.counter[0].logged, s.flow[f].demand, s.flow[f].layer
    u, v = s.flow[f].source, s.flow[f].target
    if s.planes > 0 and s.pod[u] != s.pod[v]:
        for column in range(s.up_leaf.shape[1]):
            up, down = s.up_leaf[u, column], s.up_leaf[v, column] + s.cables
            if max(use(s, up, demand, row), use(s, down, demand, row)) <= limit:
                shift(s, f, 0, 0, column)
                if find_core(s, f, s.plane_of[column], limit) and commit(s, mark):
                    return True
                undo(s, mark)
    # Short chains are common and quick to walk: longer ones are searched only where there are none.
    for step in range(6):
        longest = s.chain.shape[0] - 1 if step == 5 else 4 ** max(0, step - 1)
        shortest = 4 ** max(0, step - 1) // 4 + 1
        best = s.best[: 1 if s.planes == 0 or step == 0 else CANDIDATES]
        for choice in range(search(s, f, 0, 0, limit, shortest, longest, best)):
            chain = best[choice]
            if carry_out(s, f, chain.into, chain.out, chain.right == 1, limit) and commit(s, mark):
                return True
            undo(s, mark)
    return False


@bare_kernel
def _calmest(s: Arrays, f: int, limit: float) -> tuple[int, int]:
    """Return column and core of the path within a limit that has the fewest links above 1 with f on it.

    Of equal paths, one whose links above 1 have the fewest flows of other jobs at their head wins.
    """
    u, v, demand, row = s.flow[f].source, s.flow[f].target, s.flow[f].demand, s.flow[f].layer
    across, least, column, core = s.planes > 0 and s.pod[u] != s.pod[v], FAR, -1, -1
    for a in range(s.up_leaf.shape[1]):
        for b in range(s.up_plane.shape[1] if across else 1):
            cost = 0
            for step in range(4 if across else 2):
                leaf, plane = v if step & 1 == 1 else u, s.plane_of[a]
                vertex, number = (leaf, a) if step < 2 else (s.pod[leaf] * s.planes + plane, b)
                link = wire(s, step >> 1, vertex, number, step & 1 == 1)
                used = use(s, link, demand, row)
                foreign = s.head[link] >= 0 and s.flow[s.head[link] >> 2].job != s.flow[f].job
                cost += FAR if used > limit else 8 + (1 if foreign else 0) if used > 1 + 1e-9 else 0
            if cost < least:
                least, column, core = cost, a, b if across else -1
    return column, core


@bare_kernel
def place(s: Arrays, rows: Ints, bound: Floats, goal: float) -> None:
    """Place flows again, each within the bounds of the cuts it crosses if possible, else within `goal`.

    `bound` has leaves out, leaves in, pods out, pods in. Where moves are limited, only flows of the event move here.
    """
    leaves, pods = s.up_leaf.shape[0], s.up_plane.shape[0] // max(s.planes, 1)
    for i in range(rows.shape[0]):
        f, mark = rows[i], s.counter[0].logged
        u, v, p, q = s.flow[f].source, s.flow[f].target, s.pod[s.flow[f].source], s.pod[s.flow[f].target]
        s.counter[0].job, s.counter[0].tenant = s.flow[f].job, s.flow[f].tenant
        set_path(s, f, -1, -1, -1, -1)
        if u == v:
            continue
        low = max(bound[u], bound[leaves + v])
        if s.planes > 0 and p != q:
            low = max(low, max(bound[2 * leaves + p], bound[2 * leaves + pods + q]))
        low = (max(low, min(goal, 1.0)) if s.counter[0].thrifty != 0 else low) * (1 + 1e-9)
        column, core, worst = direct(s, f)
        if worst > low and column >= 0 and (_make_room(s, f, low) or (worst > goal > low and _make_room(s, f, goal))):
            continue
        if column >= 0:
            if s.counter[0].thrifty != 0 and worst > 1 + 1e-9:
                column, core = _calmest(s, f, worst * (1 + 1e-9))
            put(s, f, column, core)
            commit(s, mark)


@bare_kernel
def leave(s: Arrays, f: int, limit: float, most: int) -> int:
    """Move a flow to links within a limit; return how many moves count, or -1 without a change, where above `most`."""
    mark = s.counter[0].logged
    if s.flow[f].fresh != s.counter[0].event and most <= 0:
        return -1
    set_path(s, f, -1, -1, -1, -1)
    column, core, worst = direct(s, f)
    if column >= 0 and worst <= limit:
        put(s, f, column, core)
        return charged(s, mark)
    s.counter[0].tries -= 1
    cost = fewest(s, f, limit, most) if column >= 0 and s.counter[0].tries >= 0 else -1
    if cost < 0:
        undo(s, mark)
    return cost


@bare_kernel
def _lighten(s: Arrays, link: int, limit: float, most: int) -> bool:
    """Move the flow off a link that needs the fewest moves; return False without a change where that is above `most`.

    A flow is moved to links within the limit.
    """
    mark, best, chosen, allowed, seen, node = s.counter[0].logged, most + 1, -1, 0, 0, s.head[link]
    while node >= 0 and seen < MAX_FLOWS_TRIED and best > 0:
        f, seen = node >> 2, seen + 1
        node = s.flow[f].after[node & 3]
        if not may_move(s, f):
            continue
        cost = leave(s, f, limit, best - 1)
        if cost >= 0:
            undo(s, mark)
            best, chosen, allowed = cost, f, best - 1
    return chosen >= 0 and leave(s, chosen, limit, allowed) >= 0 and commit(s, mark)


@bare_kernel
def relieve(s: Arrays, limit: float, whole: bool, charge: int, full: Ints) -> bool:
    """Move flows off links above a limit to links within it, the cheapest moves first; return whether none remains.

    At most `charge` moves count for one flow that leaves. With `whole`, end at the first link for which no moves are
    found. `full` has room for all links: it lists those that remain, as no other rises above the limit by a move.
    """
    step, most, s.counter[0].tries, count = 0, 0, MAX_TRIES, -1
    while True:
        left, kept = s.counter[0].budget - s.counter[0].used, 0
        last = most >= min(left, charge) or s.counter[0].tries <= 0
        for number in range(s.load.shape[0] if count < 0 else count):
            link = number if count < 0 else full[number]
            while s.load[link] * s.inverse[link] > limit:
                ends = s.counter[0].logged + 256 > s.log.shape[0] - s.counter[0].reserve
                if ends or not _lighten(s, link, limit, min(most, s.counter[0].budget - s.counter[0].used)):
                    full[kept] = link
                    kept += 1
                    break
            if kept > 0 and whole and last:
                return False
        if last or kept == 0:
            return kept == 0
        count = kept
        step += 1
        most = step if step < 4 else 2 * most


@bare_kernel
def slowed(s: Arrays, used: Flags) -> float:
    """Return by how much flows are slowed: the sum of 1 - 1 / u over flows whose fullest link has utilisation u > 1."""
    total = 0.0
    for f in range(used.shape[0]):
        worst = 1.0 + 1e-9
        for step in range(4 if used[f] else 0):
            link = s.flow[f].path[step]
            if link >= 0:
                worst = max(worst, s.load[link] * s.inverse[link])
        total += 1 - 1 / worst if worst > 1.0 + 1e-9 else 0.0
    return total

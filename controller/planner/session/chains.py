"""Kernels of a session on a regular Clos fabric: place a flow, or make room for it by a chain of moves.

A *column* is one uplink of every leaf; in three tiers, also one core of every switch of a plane. A flow goes up and
down in one column, the colour of an edge. Where no column has room at both ends, the flow takes column a, a flow in
its way at the far end moves from a to b, one in the way of that from b to a, and so on (Kempe; Paull 1962). The search
walks such chains for all pairs (a, b) without a change, then carries out a shortest one. A link holds
several flows of any size; a flow that moves is no larger than the one it makes room for. Every change is logged, so
that it can be undone exactly, lists included.
"""

from heddle.controller.planner.ground.jit import Rows, bare_kernel
from heddle.controller.planner.session.paths import growth, set_path, undo
from heddle.controller.planner.session.table import DEAD, Arrays

MAX_FLOWS_READ = 24
"""The flows of a full link that a step of a chain reads at most."""
CANDIDATES = 4
"""The chains that are tried where a flow may find no core."""


@bare_kernel
def may_move(s: Arrays, g: int) -> bool:
    """Return whether a flow may move for the one at hand; a flow that this event has placed or moved always may."""
    flow, at_hand = s.flow[g], s.counter[0]
    same = flow.job == at_hand.job if at_hand.who == 1 else flow.tenant == at_hand.tenant
    return flow.held == 0 and (flow.fresh == at_hand.event or at_hand.who == 3 or (at_hand.who > 0 and same))


@bare_kernel
def charged(s: Arrays, mark: int) -> int:
    """Return how many flows moved since `mark` count towards the budget."""
    s.counter[0].tick += 1
    tick, event, moved = s.counter[0].tick, s.counter[0].event, 0
    for row in range(mark, s.counter[0].logged):
        g = s.log[row].flow
        if s.flow[g].fresh != event and s.flow[g].stamp != tick:
            s.flow[g].stamp = tick
            moved += 1
    return moved


@bare_kernel
def commit(s: Arrays, mark: int) -> bool:
    """Charge the flows moved since `mark` to the budget and return True; undo the moves where they exceed it."""
    event, moved = s.counter[0].event, charged(s, mark)
    if moved > s.counter[0].budget - s.counter[0].used:
        undo(s, mark)
        return False
    s.counter[0].used += moved
    for row in range(mark, s.counter[0].logged):
        s.flow[s.log[row].flow].fresh = event
    return True


@bare_kernel
def _vertex(s: Arrays, g: int, level: int, plane: int, right: bool) -> int:
    """Return the vertex at an end of a flow: its leaf (level 0), or its pod's switch of a plane (level 1)."""
    leaf = s.flow[g].target if right else s.flow[g].source
    return leaf if level == 0 else s.pod[leaf] * s.planes + plane


@bare_kernel
def wire(s: Arrays, level: int, vertex: int, column: int, right: bool) -> int:
    """Return the link of a column at a vertex: the cable upwards on the left, downwards on the right."""
    return (s.up_leaf if level == 0 else s.up_plane)[vertex, column] + (s.cables if right else 0)


@bare_kernel
def use(s: Arrays, link: int, demand: float, row: int) -> float:
    """Return the utilisation of a link with `demand` more in a layer (-1: none); `DEAD` for a dead one."""
    if s.inverse[link] >= DEAD:
        return DEAD
    return (s.load[link] + (demand if row < 0 else growth(s, link, row, demand))) * s.inverse[link]


@bare_kernel
def walk(
    s: Arrays, f: int, level: int, plane: int, into: int, out: int, right: bool, limit: float, longest: int
) -> int:  # fmt: skip
    """Walk the chain that f starts by taking column `into`, whose link at one end (`right` or left) is full.

    Writes the flows that must change columns to `Arrays.chain` and returns their number; -1 where the chain is blocked
    or longer than `longest`.
    """
    s.counter[0].tick += 1
    tick, event, left_over = s.counter[0].tick, s.counter[0].event, s.counter[0].budget - s.counter[0].used
    demand, row, vertex, length = s.flow[f].demand, s.flow[f].layer, _vertex(s, f, level, plane, right), 0
    s.flow[f].stamp = tick
    while True:
        link = wire(s, level, vertex, into, right)
        if use(s, link, demand, row) <= limit:
            return length
        node, seen, found, far = s.head[link], 0, -1, -1
        if length >= longest or s.inverse[link] >= DEAD:
            return -1
        while node >= 0 and seen < MAX_FLOWS_READ:
            g, seen = node >> 2, seen + 1
            size, own = s.flow[g].demand, s.flow[g].layer
            node = -1 if own < 0 and s.load[link] <= size else s.flow[g].after[node & 3]
            cost = 0 if s.flow[g].fresh == event else 1
            if s.flow[g].stamp == tick or size > demand or cost > left_over or not may_move(s, g):
                continue
            end, less = _vertex(s, g, level, plane, not right), size if own < 0 else -growth(s, link, own, -size)
            if use(s, link, demand, row) - less * s.inverse[link] > limit:
                continue
            if use(s, wire(s, level, end, out, not right), size, own) <= limit:
                found, far = g, end
                break
            found, far = (g, end) if found < 0 else (found, far)
        if found < 0:
            return -1
        left_over -= 0 if s.flow[found].fresh == event else 1
        s.flow[found].stamp, s.chain[length] = tick, found
        demand, row, vertex, right = s.flow[found].demand, s.flow[found].layer, far, not right
        length += 1
        into, out = out, into


@bare_kernel
def shift(s: Arrays, g: int, level: int, plane: int, column: int) -> None:
    """Move a flow to a column (level 0) or core (level 1); a flow that changes planes has no core afterwards."""
    path, u, v = s.flow[g].path, _vertex(s, g, level, plane, False), _vertex(s, g, level, plane, True)
    up, down = wire(s, level, u, column, False), wire(s, level, v, column, True)
    if level == 1:
        return set_path(s, g, path[0], up, down, path[3])
    stays = path[1] >= 0 and s.plane_at[path[0]] == s.plane_of[column]
    set_path(s, g, up, path[1] if stays else -1, path[2] if stays else -1, down)


@bare_kernel
def _swap(s: Arrays, f: int, level: int, plane: int, into: int, out: int, right: bool, limit: float) -> int:
    """Walk a chain again and carry it out, f included; return its length, or -1 without a change."""
    length = walk(s, f, level, plane, into, out, right, limit, s.chain.shape[0] - 1)
    mark = s.counter[0].logged
    if length < 0 or mark + 4 * length + 64 > s.log.shape[0] - s.counter[0].reserve:
        return -1
    s.chain[length] = f
    for i in range(length):
        shift(s, s.chain[i], level, plane, out if i % 2 == 0 else into)
    shift(s, f, level, plane, into)
    for i in range(length + 1):
        for step in range(4):
            link = s.flow[s.chain[i]].path[step]
            # The walk does not detect a chain that meets itself, nor a flow that goes up and down by different columns.
            if link >= 0 and (step == 1 or step == 2) == (level == 1) and s.load[link] * s.inverse[link] > limit:
                undo(s, mark)
                return -1
    return length


@bare_kernel
def search(s: Arrays, f: int, level: int, plane: int, limit: float, shortest: int, longest: int, best: Rows) -> int:
    """Write chains for f of `shortest` to `longest` flows to `best` and return their number."""
    found, columns = 0, s.up_leaf.shape[1] if level == 0 else s.up_plane.shape[1]
    u, v = _vertex(s, f, level, plane, False), _vertex(s, f, level, plane, True)
    demand, row = s.flow[f].demand, s.flow[f].layer
    for a in range(columns):
        if use(s, wire(s, level, u, a, False), demand, row) > limit:
            continue
        for b in range(columns):
            if a == b or use(s, wire(s, level, v, b, True), demand, row) > limit:
                continue
            for side in range(2):
                into, out = (a, b) if side == 1 else (b, a)
                length = walk(s, f, level, plane, into, out, side == 1, limit, longest)
                if length < shortest:
                    continue
                at = min(found, best.shape[0] - 1)
                chain = best[at]
                chain.length, chain.into, chain.out, chain.right = length, into, out, side
                found = at + 1
                if found == best.shape[0]:
                    longest = length - 1
                if longest < shortest:
                    return found
    return found


@bare_kernel
def find_core(s: Arrays, f: int, plane: int, limit: float) -> bool:
    """Put a flow that has its column on a core of that plane, by a chain if need be; False where that is impossible."""
    left, right = _vertex(s, f, 1, plane, False), _vertex(s, f, 1, plane, True)
    core, worst = _best_core(s, left, right, s.flow[f].demand, s.flow[f].layer, DEAD)
    if core >= 0 and worst <= limit:
        shift(s, f, 1, plane, core)
        return True
    best = s.best[CANDIDATES : CANDIDATES + 1]
    for step in range(5):
        shortest, longest = 4**step // 4 + 1, s.chain.shape[0] - 1 if step == 4 else 4**step
        if search(s, f, 1, plane, limit, shortest, longest, best) > 0:
            return _swap(s, f, 1, plane, best[0].into, best[0].out, best[0].right == 1, limit) >= 0
    return False


@bare_kernel
def _from_first(s: Arrays, link: int, demand: float) -> bool:
    """Return whether columns are tried from the first on, instead of from one that depends on both ends.

    So it is where moves are limited: free columns then are the same at more pairs of leaves. Where no other flow may
    move, and two flows fit on a link, flows are spread, since later events cannot even them out.
    """
    return s.counter[0].thrifty == 1 or (s.counter[0].thrifty == 2 and 2 * demand * s.inverse[link] > 1)


@bare_kernel
def _best_core(s: Arrays, u: int, v: int, demand: float, row: int, below: float) -> tuple[int, float]:
    """Return the core of a plane whose two links stay emptiest, and their maximum; -1 where none is below `below`."""
    cores = s.up_plane.shape[1]
    best, chosen = below, -1
    start = 0 if _from_first(s, s.up_plane[u, 0], demand) else (u * 5 + v * 3) % cores
    for turn in range(cores):
        core = start + turn if start + turn < cores else start + turn - cores
        up, down = s.up_plane[u, core], s.up_plane[v, core] + s.cables
        worst = max(use(s, up, demand, row), use(s, down, demand, row))
        if worst < best:
            best, chosen = worst, core
            if s.load[up] + s.load[down] == 0.0:
                break
    return chosen, best


@bare_kernel
def direct(s: Arrays, f: int) -> tuple[int, int, float]:
    """Return column, core and maximum of the live path whose fullest link stays emptiest with f on it; -1 for none."""
    u, v, demand, row = s.flow[f].source, s.flow[f].target, s.flow[f].demand, s.flow[f].layer
    columns = s.up_leaf.shape[1]
    inside = s.planes == 0 or s.pod[u] == s.pod[v]
    best, least, chosen, core = 1e29, 1e29, -1, -1
    start = 0 if _from_first(s, s.up_leaf[u, 0], demand) else (u * 7 + v * 3) % columns
    for turn in range(columns):
        column = start + turn if start + turn < columns else start + turn - columns
        up, down = s.up_leaf[u, column], s.up_leaf[v, column] + s.cables
        one, two = use(s, up, demand, row), use(s, down, demand, row)
        worst, total, found = max(one, two), one + two, -1
        if worst > best or (worst == best and (total >= least or not inside)):
            continue
        if not inside:
            plane = s.plane_of[column]
            left, right = s.pod[u] * s.planes + plane, s.pod[v] * s.planes + plane
            found, fullest = _best_core(s, left, right, demand, row, best)
            if found < 0:
                continue
            worst = max(worst, fullest)
        best, least, chosen, core = worst, total, column, found
        if s.load[up] + s.load[down] == 0.0 and worst <= max(one, two):
            break
    return chosen, core, best


@bare_kernel
def put(s: Arrays, f: int, column: int, core: int) -> None:
    """Put a flow that is on no link on a path, given by its column and its core (-1: none)."""
    shift(s, f, 0, 0, column)
    if core >= 0:
        shift(s, f, 1, s.plane_of[column], core)


@bare_kernel
def carry_out(s: Arrays, f: int, into: int, out: int, right: bool, limit: float) -> bool:
    """Carry out a chain of columns, and find a core for each flow that it moved to another plane."""
    length = _swap(s, f, 0, 0, into, out, right, limit)
    for i in range(length + 1):
        s.carried[i] = s.chain[i]
    for i in range(length + 1):
        g = s.carried[i]
        bare = s.planes > 0 and s.pod[s.flow[g].source] != s.pod[s.flow[g].target] and s.flow[g].path[1] < 0
        if bare and not find_core(s, g, s.plane_of[into if i == length or i % 2 == 1 else out], limit):
            return False
    return length >= 0

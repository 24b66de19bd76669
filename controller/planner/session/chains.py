"""The kernels of a session on a regular Clos: a flow finds room, or a chain of flows steps aside for it.

A *column* is one uplink of every leaf, in three tiers also one core of every switch of a plane. A flow rises and falls
by one column, the colour of an edge. Where none has room at both ends the flow takes column a, one in its way at the
far end goes from a to b, one in that one's way from b to a, and so on (Kempe; Paull 1962). Such chains are walked for
all pairs (a, b) without a change, and a shortest is carried out. A link holds any number of flows of any size: whoever
steps aside is no larger than who comes. Every change is logged, so that it can be undone to the last bit.
"""

from controller.planner.jit import Floats, Ints, bare_kernel
from controller.planner.session.table import State

DEAD = 1e30  # inverse capacity of a link that may carry nothing, and how full it counts as
LOGGED, TICK, EVENT, USED, WHO, BUDGET, OWNER, TENANT, RESERVE = range(9)
"""Places in `State.counter`: changes logged, stamp, event number, moves made, who may move, the most moves, whose flow
is being placed (job, tenant), log rows kept free."""
SOURCE, TARGET, DEMAND, STAMP, FRESH, HELD, OWNED_BY, TENANT_OF, PATH, AFTER, BEFORE, LAYER = *range(9), 12, 16, 20
FLOW_COLUMNS, LOG_COLUMNS = 24, 13
"""Columns of `State.flow`, the first eight in one line of a cache: leaf rows, bit/s, stamp, the event that placed it,
whether it must stay, job, tenant; then four links and its neighbours in their lists; its layer."""
LOOK, CANDIDATES = 24, 4  # flows of a full link looked at for a step; chains tried where a core may be missing


@bare_kernel
def _add_load(s: State, f: int, place: int, amount: int) -> None:
    """Add a flow's demand to a place; with phases only what its job's heaviest phase grows by."""
    row = s.flow[f, LAYER]
    if row < 0:
        s.load[place] += amount
        return
    was, now = 0.0, 0.0
    for other in range(s.layer_span[row, 0], s.layer_span[row, 1]):
        was = max(was, s.layer_load[other, place])
        s.layer_load[other, place] += amount if other == row else 0
        now = max(now, s.layer_load[other, place])
    s.load[place] += now - was


@bare_kernel
def _mark_seat(s: State, link: int) -> None:
    """Tell the tables of seats who has a link: a flow, nobody (-1), nobody for it is dead (-2), several (-3)."""
    seat, node = s.seat_of[link], s.head[link]
    if seat < 0:
        return
    owner = -1 if node < 0 else node >> 2 if s.flow[node >> 2, AFTER + (node & 3)] < 0 else -3
    s.owner[seat] = owner if s.inverse[link] < DEAD else -2
    bit, vertex = 1 << (seat & ((1 << s.shift) - 1)), seat >> s.shift
    s.free[vertex] = s.free[vertex] | bit if s.owner[seat] == -1 else s.free[vertex] & ~bit


@bare_kernel
def mark_seats(s: State, links: Ints) -> None:
    """Tell the tables of seats about links that died or came back."""
    for i in range(links.shape[0]):
        _mark_seat(s, links[i])


@bare_kernel
def _mark_spot(s: State, f: int) -> None:
    """Tell the tables of seats a flow's column and core; -2 where it does not rise and fall by the same."""
    for level in range(2):
        up, down, mask = s.flow[f, PATH + level], s.flow[f, PATH + 3 - level], (1 << s.shift) - 1
        same = up >= 0 and (s.seat_of[up] ^ s.seat_of[down]) & mask == 0
        s.spot[f, 2 + level] = s.seat_of[up] & mask if same else -1 if up < 0 else -2


@bare_kernel
def _leave(s: State, f: int, step: int) -> None:
    link, after, before = s.flow[f, PATH + step], s.flow[f, AFTER + step], s.flow[f, BEFORE + step]
    if link < 0:
        return
    if before >= 0:
        s.flow[before >> 2, AFTER + (before & 3)] = after
    else:
        s.head[link] = after
    if after >= 0:
        s.flow[after >> 2, BEFORE + (after & 3)] = before
    _add_load(s, f, link, -s.flow[f, DEMAND])
    _mark_seat(s, link)


@bare_kernel
def _enter(s: State, f: int, step: int, link: int, after: int, before: int) -> None:
    s.flow[f, PATH + step], s.flow[f, AFTER + step], s.flow[f, BEFORE + step] = link, after, before
    if link < 0:
        return
    if before >= 0:
        s.flow[before >> 2, AFTER + (before & 3)] = 4 * f + step
    else:
        s.head[link] = 4 * f + step
    if after >= 0:
        s.flow[after >> 2, BEFORE + (after & 3)] = 4 * f + step
    _add_load(s, f, link, s.flow[f, DEMAND])
    _mark_seat(s, link)


@bare_kernel
def _set_path(s: State, f: int, up: int, core_up: int, core_down: int, down: int) -> None:
    """Put a flow on a path, at the head of the list of each link that is new to it, and log where it was."""
    row, path = s.counter[LOGGED], (up, core_up, core_down, down)
    s.counter[LOGGED], s.log[row, 0] = row + 1, f
    for column in range(12):
        s.log[row, 1 + column] = s.flow[f, PATH + column]
    for step in range(4):
        if s.flow[f, PATH + step] != path[step]:
            _leave(s, f, step)
            _enter(s, f, step, path[step], s.head[path[step]] if path[step] >= 0 else -1, -1)
    _mark_spot(s, f)


@bare_kernel
def set_paths(s: State, rows: Ints, paths: Ints) -> None:
    """Put flows on given paths."""
    for i in range(rows.shape[0]):
        _set_path(s, rows[i], paths[i, 0], paths[i, 1], paths[i, 2], paths[i, 3])


@bare_kernel
def undo(s: State, mark: int) -> None:
    """Take back what was logged since `mark`, the last first: each list is then as it was, order included."""
    while s.counter[LOGGED] > mark:
        s.counter[LOGGED] -= 1
        entry = s.log[s.counter[LOGGED]]
        for step in range(4):
            if entry[1 + step] != s.flow[entry[0], PATH + step]:
                _leave(s, entry[0], step)
                _enter(s, entry[0], step, entry[1 + step], entry[5 + step], entry[9 + step])
        _mark_spot(s, entry[0])


@bare_kernel
def _may_move(s: State, g: int) -> bool:
    """Say whether a flow may step aside for the one at hand: what this event has placed or moved always may."""
    who = s.counter[WHO]
    same = s.flow[g, OWNED_BY] == s.counter[OWNER] if who == 1 else s.flow[g, TENANT_OF] == s.counter[TENANT]
    return s.flow[g, HELD] == 0 and (s.flow[g, FRESH] == s.counter[EVENT] or who == 3 or (who > 0 and same))


@bare_kernel
def _commit(s: State, mark: int) -> bool:
    """Count the flows moved since `mark`; undo everything where that passes the budget."""
    s.counter[TICK] += 1
    tick, event, moved = s.counter[TICK], s.counter[EVENT], 0
    for row in range(mark, s.counter[LOGGED]):
        g = s.log[row, 0]
        if s.flow[g, FRESH] != event and s.flow[g, STAMP] != tick:
            s.flow[g, STAMP] = tick
            moved += 1
    if moved > s.counter[BUDGET] - s.counter[USED]:
        undo(s, mark)
        return False
    s.counter[USED] += moved
    for row in range(mark, s.counter[LOGGED]):
        s.flow[s.log[row, 0], FRESH] = event
    return True


@bare_kernel
def _vertex(s: State, g: int, level: int, plane: int, right: bool) -> int:
    """Return the row of a flow's end: its leaf (level 0), or its pod's switch of a plane (level 1)."""
    leaf = s.flow[g, TARGET if right else SOURCE]
    return leaf if level == 0 else s.pod[leaf] * s.planes + plane


@bare_kernel
def _wire(s: State, level: int, vertex: int, column: int, right: bool) -> int:
    """Return the link of a column at a vertex: the cable upwards on the left, downwards on the right."""
    return (s.up_leaf if level == 0 else s.up_plane)[vertex, column] + (s.cables if right else 0)


@bare_kernel
def _use(s: State, link: int, demand: float) -> float:
    """Return how full a link would be with `demand` more; a dead one is too full for any flow, be it of no size."""
    return DEAD if s.inverse[link] >= DEAD else (s.load[link] + demand) * s.inverse[link]


@bare_kernel
def _walk(s: State, f: int, level: int, plane: int, into: int, out: int, right: bool, limit: float, most: int) -> int:
    """Walk the chain that f starts by taking column `into`, whose link at one end (`right` or left) is full.

    Returns how many flows must change columns (`State.chain`), -1 where it is blocked or longer than `most`.
    """
    s.counter[TICK] += 1
    tick, event, left_over = s.counter[TICK], s.counter[EVENT], s.counter[BUDGET] - s.counter[USED]
    demand, vertex, length, s.flow[f, STAMP] = s.flow[f, DEMAND], _vertex(s, f, level, plane, right), 0, tick
    while True:
        link = _wire(s, level, vertex, into, right)
        if _use(s, link, demand) <= limit:
            return length
        node, seen, found, far = s.head[link], 0, -1, -1
        if length >= most or s.inverse[link] >= DEAD:
            return -1
        while node >= 0 and seen < LOOK:
            g, seen = node >> 2, seen + 1
            node = -1 if s.load[link] <= s.flow[g, DEMAND] else s.flow[g, AFTER + (node & 3)]
            cost = 0 if s.flow[g, FRESH] == event else 1
            if s.flow[g, STAMP] == tick or s.flow[g, DEMAND] > demand or cost > left_over or not _may_move(s, g):
                continue
            end, size = _vertex(s, g, level, plane, not right), s.flow[g, DEMAND]
            if _use(s, link, demand - size) > limit:
                continue
            if _use(s, _wire(s, level, end, out, not right), size) <= limit:
                found, far = g, end
                break
            found, far = (g, end) if found < 0 else (found, far)
        if found < 0:
            return -1
        left_over -= 0 if s.flow[found, FRESH] == event else 1
        s.flow[found, STAMP], s.chain[0, length] = tick, found
        demand, vertex, right, length = s.flow[found, DEMAND], far, not right, length + 1
        into, out = out, into


@bare_kernel
def _shift(s: State, g: int, level: int, plane: int, column: int) -> None:
    """Put a flow into a column; one that comes to another plane has no core yet."""
    u, v = _vertex(s, g, level, plane, False), _vertex(s, g, level, plane, True)
    up, down = _wire(s, level, u, column, False), _wire(s, level, v, column, True)
    if level == 1:
        return _set_path(s, g, s.flow[g, PATH], up, down, s.flow[g, PATH + 3])
    stays = s.flow[g, PATH + 1] >= 0 and s.plane_at[s.flow[g, PATH]] == s.plane_of[column]
    _set_path(s, g, up, s.flow[g, PATH + 1] if stays else -1, s.flow[g, PATH + 2] if stays else -1, down)


@bare_kernel
def _swap(s: State, f: int, level: int, plane: int, into: int, out: int, right: bool, limit: float) -> int:
    """Walk a chain again and carry it out, f included; return its length, or -1 with nothing changed."""
    length = _walk(s, f, level, plane, into, out, right, limit, s.chain.shape[1] - 1)
    mark = s.counter[LOGGED]
    if length < 0 or mark + 4 * length + 64 > s.log.shape[0] - s.counter[RESERVE]:
        return -1
    s.chain[0, length] = f
    for i in range(length):
        _shift(s, s.chain[0, i], level, plane, out if i % 2 == 0 else into)
    _shift(s, f, level, plane, into)
    for i in range(length + 1):
        for step in range(4):
            link = s.flow[s.chain[0, i], PATH + step]
            # The walk does not see a chain that meets itself, nor a flow that rises and falls by different columns.
            if link >= 0 and (step == 1 or step == 2) == (level == 1) and s.load[link] * s.inverse[link] > limit:
                undo(s, mark)
                return -1
    return length


@bare_kernel
def _search(s: State, f: int, level: int, plane: int, limit: float, fewest: int, most: int, best: Ints) -> int:
    """Fill `best` with chains for f of `fewest` to `most` flows: (length, into, out, right); return how many."""
    found, columns = 0, s.up_leaf.shape[1] if level == 0 else s.up_plane.shape[1]
    u, v = _vertex(s, f, level, plane, False), _vertex(s, f, level, plane, True)
    demand = s.flow[f, DEMAND]
    for a in range(columns):
        if _use(s, _wire(s, level, u, a, False), demand) > limit:
            continue
        for b in range(columns):
            if a == b or _use(s, _wire(s, level, v, b, True), demand) > limit:
                continue
            for side in range(2):
                into, out = (a, b) if side == 1 else (b, a)
                length = _walk(s, f, level, plane, into, out, side == 1, limit, most)
                if length < fewest:
                    continue
                at = min(found, best.shape[0] - 1)
                best[at, 0], best[at, 1], best[at, 2], best[at, 3] = length, into, out, side
                found = at + 1
                if found == best.shape[0]:
                    most = length - 1
                if most < fewest:
                    return found
    return found


@bare_kernel
def _core(s: State, f: int, plane: int, limit: float) -> bool:
    """Give a flow that has its column a core of that plane, by a chain where none has room; False where none can."""
    left, right = _vertex(s, f, 1, plane, False), _vertex(s, f, 1, plane, True)
    core, worst = _best_core(s, left, right, s.flow[f, DEMAND], DEAD)
    if core >= 0 and worst <= limit:
        _shift(s, f, 1, plane, core)
        return True
    best, fewest = s.best[CANDIDATES:], 1
    for step in range(5):
        most = s.chain.shape[1] - 1 if step == 4 else 4**step
        if _search(s, f, 1, plane, limit, fewest, most, best) > 0:
            return _swap(s, f, 1, plane, best[0, 1], best[0, 2], best[0, 3] == 1, limit) >= 0
        fewest = most + 1
    return False


@bare_kernel
def _best_core(s: State, u: int, v: int, demand: float, below: float) -> tuple[int, float]:
    """Return the core of a plane whose two links stay emptiest, if that is below a limit: (core or -1, fullest)."""
    cores = s.up_plane.shape[1]
    best, chosen, start = below, -1, (u * 5 + v * 3) % cores
    for turn in range(cores):
        core = start + turn if start + turn < cores else start + turn - cores
        up, down = s.up_plane[u, core], s.up_plane[v, core] + s.cables
        worst = max(_use(s, up, demand), _use(s, down, demand))
        if worst < best:
            best, chosen = worst, core
            if s.load[up] + s.load[down] == 0.0:
                break
    return chosen, best


@bare_kernel
def _direct(s: State, f: int) -> tuple[int, int, float]:
    """Return the column and core whose fullest link stays emptiest with f on it, and how full; -1: none is alive."""
    u, v, demand, columns = s.flow[f, SOURCE], s.flow[f, TARGET], s.flow[f, DEMAND], s.up_leaf.shape[1]
    inside = s.planes == 0 or s.pod[u] == s.pod[v]
    best, least, chosen, core, start = 1e29, 1e29, -1, -1, (u * 7 + v * 3) % columns
    for turn in range(columns):
        column = start + turn if start + turn < columns else start + turn - columns
        up, down = s.up_leaf[u, column], s.up_leaf[v, column] + s.cables
        one, two = _use(s, up, demand), _use(s, down, demand)
        worst, total, way = max(one, two), one + two, -1
        if worst > best or (worst == best and (total >= least or not inside)):
            continue
        if not inside:
            plane = s.plane_of[column]
            way, most = _best_core(s, s.pod[u] * s.planes + plane, s.pod[v] * s.planes + plane, demand, best)
            if way < 0:
                continue
            worst = max(worst, most)
        best, least, chosen, core = worst, total, column, way
        if s.load[up] + s.load[down] == 0.0 and worst <= max(one, two):
            break
    return chosen, core, best


@bare_kernel
def _make_room(s: State, f: int, limit: float) -> bool:
    """Place a flow for which no path has room below the limit, by a chain; False with nothing changed."""
    mark = s.counter[LOGGED]
    u, v = s.flow[f, SOURCE], s.flow[f, TARGET]
    if s.planes > 0 and s.pod[u] != s.pod[v]:
        for column in range(s.up_leaf.shape[1]):
            up, down = s.up_leaf[u, column], s.up_leaf[v, column] + s.cables
            if max(_use(s, up, s.flow[f, DEMAND]), _use(s, down, s.flow[f, DEMAND])) <= limit:
                _shift(s, f, 0, 0, column)
                if _core(s, f, s.plane_of[column], limit) and _commit(s, mark):
                    return True
                undo(s, mark)
    # Short chains are common and quickly walked: longer ones are looked for only where there are none.
    fewest = 1
    for step in range(6):
        most = s.chain.shape[1] - 1 if step == 5 else 4 ** max(0, step - 1)
        best = s.best[: 1 if s.planes == 0 or step == 0 else CANDIDATES]
        for choice in range(_search(s, f, 0, 0, limit, fewest, most, best)):
            if _carry_out(s, f, best[choice, 1], best[choice, 2], best[choice, 3] == 1, limit) and _commit(s, mark):
                return True
            undo(s, mark)
        fewest = most + 1 if step > 0 else 1
    return False


@bare_kernel
def _carry_out(s: State, f: int, into: int, out: int, right: bool, limit: float) -> bool:
    """Carry out a chain of columns, and give a core to each flow that came to another plane by it."""
    length = _swap(s, f, 0, 0, into, out, right, limit)
    for i in range(length + 1):
        s.chain[1, i] = s.chain[0, i]
    for i in range(length + 1):
        g = s.chain[1, i]
        bare = s.planes > 0 and s.pod[s.flow[g, SOURCE]] != s.pod[s.flow[g, TARGET]] and s.flow[g, PATH + 1] < 0
        if bare and not _core(s, g, s.plane_of[into if i == length or i % 2 == 1 else out], limit):
            return False
    return length >= 0


@bare_kernel
def place(s: State, rows: Ints, bound: Floats, goal: float, strict: bool, found: Ints) -> None:
    """Place flows anew, each within the bounds of the cuts it crosses if that can be, else within `goal`.

    `bound` has leaves out, leaves in, pods out, pods in. `found` tells of each 0: within them, 1: on the emptiest
    path, fuller than that, 2: no live path. With `strict`, one that does not come within `goal` stays and is told 1.
    """
    leaves, pods = s.up_leaf.shape[0], s.up_plane.shape[0] // max(s.planes, 1)
    for i in range(rows.shape[0]):
        f, mark, found[i] = rows[i], s.counter[LOGGED], 0
        u, v, p, q = s.flow[f, SOURCE], s.flow[f, TARGET], s.pod[s.flow[f, SOURCE]], s.pod[s.flow[f, TARGET]]
        s.counter[OWNER], s.counter[TENANT] = s.flow[f, OWNED_BY], s.flow[f, TENANT_OF]
        _set_path(s, f, -1, -1, -1, -1)
        if u == v:
            continue
        low = max(bound[u], bound[leaves + v])
        if s.planes > 0 and p != q:
            low = max(low, max(bound[2 * leaves + p], bound[2 * leaves + pods + q]))
        low = goal if strict else low * (1 + 1e-9)
        column, core, worst = _direct(s, f)
        if worst > low and column >= 0 and (_make_room(s, f, low) or (worst > goal > low and _make_room(s, f, goal))):
            continue
        found[i] = 2 if column < 0 else 1 if worst > low else 0
        if column >= 0 and not (strict and worst > low):
            _shift(s, f, 0, 0, column)
            if core >= 0:
                _shift(s, f, 1, s.plane_of[column], core)
            found[i] = found[i] if _commit(s, mark) else 1
        elif strict:
            undo(s, mark)

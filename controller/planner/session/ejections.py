"""Give flows links of their own by moving few others, in three tiers: a search over both tiers at once.

A flow that takes a column and a core *ejects* the flows on its links, at most two; these need a place too, and may
eject others. A search with more and more to spend finds the cheapest sequence in which all flows find a place
(iterative deepening: Korf 1985). The flows that need the least are placed first. A flow that the event has placed or
moved costs little, any other as much as `MOVE`. Where flows are left over, those that moved go back to their old paths
if only flows of the event step aside, and the search goes on with the moves saved. It works on the tables of `seats`;
its steps are limited.
"""

from typing import Any

import numpy as np

from heddle.controller.planner.ground.jit import Ints, Rows, bare_kernel, row
from heddle.controller.planner.session.chains import direct, may_move, put
from heddle.controller.planner.session.paths import seat_column, set_path, undo
from heddle.controller.planner.session.place import slowed
from heddle.controller.planner.session.seats import Seats, back, change, end_of, free_cores, lowest
from heddle.controller.planner.session.state import UNLIMITED, Store
from heddle.controller.planner.session.table import Arrays

STEP, MOVE = 1, 4
"""The cost of an ejected flow that the event has placed or moved, and of any other."""
NEVER = 1 << 20
"""The cost of a flow that must stay, and of a dead link."""
MAX_COST = 28
"""The most that is spent for a flow."""
MAX_EJECTED = 2
"""The flows that a flow ejects."""
MAX_DIRECT = 2
"""The free places that are tried for a flow while others are unplaced."""
MAX_STEPS, MAX_STEPS_BACK, MAX_ALL_STEPS = 3_000, 300, 60_000
"""The trials in a search, in one for a flow that goes back, and in all searches of an event; a trial is one flow."""
MAX_DEPTH = 64
"""The flows that are placed in one sequence."""
MAX_LIFTED = 1024
"""The flows that share links and get other places in one event."""

_WORD = np.int64
FRAME = row([(name, _WORD) for name in ("flow", "unplaced", "left", "ejects", "next", "direct", "cost", "mark")])
"""A flow for which places are tried, as the last of so many `unplaced`: what is left to spend, how many flows a place
may eject, the next place, the free places tried, the cost of the last place, and the trail before it."""
LIFTED = row([("flow", _WORD), ("path", _WORD, 4)])
"""A flow that shares a link, and its path; -1 once it has links of its own."""


@bare_kernel
def _owner(t: Seats, vertex: int, column: int) -> int:
    """Return the owner of a link, as a whole word."""
    return int(np.int64(t.owner[(vertex << t.shift) + column]))


@bare_kernel
def _owners(t: Seats, f: int, column: int, core: int) -> tuple[int, int, int, int]:
    """Return the owners of the up to four links of a place, each once; -1 for a free link."""
    one, two = _owner(t, end_of(t, f, 0, 0, 0), column), _owner(t, end_of(t, f, 0, 0, 1), column)
    three, four = -1, -1
    if core >= 0:
        plane = t.plane_of[column]
        three, four = _owner(t, end_of(t, f, 1, plane, 0), core), _owner(t, end_of(t, f, 1, plane, 1), core)
    # A product of differences is 0 where one of the others is the same flow.
    if four >= 0 and (four - three) * (four - two) * (four - one) == 0:
        four = -1
    if three >= 0 and (three - two) * (three - one) == 0:
        three = -1
    return one, -1 if two == one and two >= 0 else two, three, four


@bare_kernel
def _price(s: Arrays, g: int, tick: int) -> int:
    """Return the cost of ejecting the owner of a link."""
    if g == -1:
        return 0
    if g < 0 or s.flow[g].stamp == tick or s.spot[g].column < 0 or s.spot[g].core < -1 or not may_move(s, g):
        return NEVER
    return STEP if s.flow[g].fresh == s.counter[0].event else MOVE


@bare_kernel
def _cores_of(t: Seats, f: int) -> int:
    """Return the number of cores of a plane if a flow crosses one, else 0."""
    pods = t.pod[t.spot[f].leaf[0]] != t.pod[t.spot[f].leaf[1]]
    return 1 << t.shift if t.planes > 0 and pods else 0


@bare_kernel
def _next_direct(t: Seats, frame: Any, columns: int) -> bool:
    """Advance to the next place that is free; return False where there is none."""
    f, width = frame.flow, 1 << t.shift
    word = t.free[end_of(t, f, 0, 0, 0)] & t.free[end_of(t, f, 0, 0, 1)]
    while frame.next < columns * width and frame.direct < MAX_DIRECT:
        column, core = frame.next >> t.shift, frame.next & (width - 1)
        cores = free_cores(t, f, column) & (-1 << core) if word >> column & 1 else 0
        if cores != 0:
            frame.next = (column << t.shift) + lowest(cores)
            frame.direct += 1
            frame.cost = 0
            return True
        frame.next = (column + 1) << t.shift
    return False


@bare_kernel
def _next_ejecting(t: Seats, s: Arrays, frame: Any, tick: int) -> bool:
    """Advance to the next place that ejects `frame.ejects` flows within its cost; return False where there is none."""
    f, width, cores = frame.flow, 1 << t.shift, s.up_plane.shape[1]
    across = _cores_of(t, f) > 0
    while frame.next < s.up_leaf.shape[1] * width:
        column, core = frame.next >> t.shift, frame.next & (width - 1)
        one, two, three, four = _owners(t, f, column, core if across else -1)
        low = _price(s, one, tick) + _price(s, two, tick)
        if low > frame.left or core >= cores or (core > 0 and not across):
            frame.next = (column + 1) << t.shift
            continue
        cost = low + _price(s, three, tick) + _price(s, four, tick)
        count = (one >= 0) + (two >= 0) + (three >= 0) + (four >= 0)
        if count == frame.ejects and cost <= frame.left:
            frame.cost = cost
            return True
        frame.next += 1
    return False


@bare_kernel
def _advance(t: Seats, s: Arrays, frame: Any, tick: int) -> bool:
    """Advance to the next place of a flow, the cheapest kind first; return False after the last."""
    if frame.ejects == 0:
        if _next_direct(t, frame, s.up_leaf.shape[1]):
            return True
        if frame.direct > 0:
            return False
        frame.ejects, frame.next = 1, 0
    while frame.ejects <= MAX_EJECTED and frame.ejects * STEP <= frame.left:
        if _next_ejecting(t, s, frame, tick):
            return True
        frame.ejects, frame.next = frame.ejects + 1, 0
    return False


@bare_kernel
def _take(t: Seats, frame: Any, unplaced: Ints) -> int:
    """Put a flow on its place and append those that it ejects to the unplaced ones; return how many these are then."""
    f, column, count = frame.flow, frame.next >> t.shift, frame.unplaced - 1
    core = frame.next & ((1 << t.shift) - 1) if _cores_of(t, f) > 0 else -1
    for g in _owners(t, f, column, core):
        if g >= 0:
            change(t, g, -1, -1)
            unplaced[count] = g
            count += 1
    change(t, f, column, core)
    frame.next += 1
    return count


@bare_kernel
def _is_direct(t: Seats, g: int) -> bool:
    """Return whether a flow has a free place."""
    word = t.free[end_of(t, g, 0, 0, 0)] & t.free[end_of(t, g, 0, 0, 1)]
    while word != 0:
        if free_cores(t, g, lowest(word)) != 0:
            return True
        word &= word - 1
    return False


@bare_kernel
def _open(s: Arrays, frame: Any, unplaced: Ints, count: int, left: int, mark: int, tick: int) -> None:
    """Begin to try places for the last unplaced flow."""
    frame.flow, frame.unplaced, frame.left, frame.mark = unplaced[count - 1], count, left, mark
    frame.ejects, frame.next, frame.direct, frame.cost = 0, 0, 0, 0
    s.flow[frame.flow].stamp = tick


@bare_kernel
def _search(t: Seats, s: Arrays, frames: Rows, unplaced: Ints, count: int, left: int, steps: Ints, most: int) -> bool:
    """Find places for unplaced flows and all that they eject, at a cost of at most `left`; they are in the trail.

    `Arrays.counter.tick` is the stamp of flows that must not be ejected. At most so many steps are taken.
    """
    tick, depth, end = s.counter[0].tick, 0, max(0, steps[0] - most)
    if count > 0:
        _open(s, frames[0], unplaced, count, left, t.used[0], tick)
    while depth >= 0 and count > 0:
        frame = frames[depth]
        back(t, frame.mark)
        unplaced[frame.unplaced - 1] = frame.flow
        if not _advance(t, s, frame, tick):
            s.flow[frame.flow].stamp = 0
            depth -= 1
            continue
        count, need = _take(t, frame, unplaced), frame.cost
        for i in range(frame.unplaced - 1, count):
            need += 0 if _is_direct(t, unplaced[i]) else STEP
        if count == 0 or need > frame.left or depth + 1 == frames.shape[0]:
            continue
        steps[0] -= 1
        if steps[0] <= end:
            break
        depth += 1
        _open(s, frames[depth], unplaced, count, frame.left - frame.cost, t.used[0], tick)
    if count > 0:
        back(t, 0)
    return count == 0


@bare_kernel
def _settle(t: Seats, s: Arrays) -> None:
    """Carry out the changes of the trail, and charge flows that move for the first time in this event."""
    s.counter[0].tick += 1
    tick, event = s.counter[0].tick, s.counter[0].event
    for i in range(t.used[0]):
        f = t.trail[i].flow
        if s.flow[f].stamp == tick:
            continue
        s.flow[f].stamp = tick
        u, v, column, core, up, down = t.spot[f].leaf[0], t.spot[f].leaf[1], t.spot[f].column, t.spot[f].core, -1, -1
        if core >= 0:
            up = s.up_plane[s.pod[u] * s.planes + s.plane_of[column], core]
            down = s.up_plane[s.pod[v] * s.planes + s.plane_of[column], core] + s.cables
        set_path(s, f, s.up_leaf[u, column], up, down, s.up_leaf[v, column] + s.cables)
        s.counter[0].used += 0 if s.flow[f].fresh == event else 1
        s.flow[f].fresh = event


@bare_kernel
def _full(s: Arrays, f: int, limit: float) -> int:
    """Return how many links of a flow are above a limit."""
    count = 0
    for step in range(4):
        link = s.flow[f].path[step]
        count += 1 if link >= 0 and s.load[link] * s.inverse[link] > limit else 0
    return count


@bare_kernel
def _lift(s: Arrays, lifted: Rows, limit: float) -> int:
    """Take flows off their paths until no link is above a limit, those of the event first; return their number."""
    count = 0
    for link in range(s.load.shape[0]):
        while s.load[link] * s.inverse[link] > limit and count < lifted.shape[0]:
            node, best, chosen = s.head[link], 0, -1
            while node >= 0:
                g = node >> 2
                worth = _full(s, g, limit) + (8 if s.flow[g].fresh == s.counter[0].event else 0)
                if worth > best and may_move(s, g):
                    best, chosen = worth, g
                node = s.flow[g].after[node & 3]
            if chosen < 0:
                break
            lifted[count].flow = chosen
            for step in range(4):
                lifted[count].path[step] = s.flow[chosen].path[step]
            set_path(s, chosen, -1, -1, -1, -1)
            count += 1
    return count


@bare_kernel
def _goes_on(s: Arrays, steps: Ints) -> bool:
    """Return whether steps are left, and rows of the log for what they change and for flows that go back."""
    return steps[0] > 0 and s.counter[0].logged + 4 * MAX_LIFTED < s.log.shape[0] - s.counter[0].reserve


@bare_kernel
def _start(t: Seats, s: Arrays, f: int, unplaced: Ints) -> None:
    """Begin a search for a flow."""
    s.counter[0].tick += 1
    unplaced[0], t.used[0] = f, 0


@bare_kernel
def _spread(t: Seats, s: Arrays, lifted: Rows, count: int, frames: Rows, unplaced: Ints, steps: Ints) -> int:
    """Give lifted flows links of their own, the cheapest first; return how many find none."""
    rest = 0
    for cost in range(MAX_COST + 1):
        placed = True
        while placed:
            placed, rest = False, 0
            for i in range(count):
                f = lifted[i].flow
                if f < 0:
                    continue
                rest += 1
                left = cost - (0 if s.flow[f].fresh == s.counter[0].event else MOVE)
                if left < 0 or not _goes_on(s, steps) or cost // MOVE > s.counter[0].budget - s.counter[0].used:
                    continue
                _start(t, s, f, unplaced)
                if _search(t, s, frames, unplaced, 1, left, steps, MAX_STEPS):
                    _settle(t, s)
                    lifted[i].flow, placed = -1, True
    return rest


@bare_kernel
def _go_back(t: Seats, s: Arrays, frames: Rows, unplaced: Ints, steps: Ints) -> int:
    """Put flows that moved in this event back on their old paths where that moves no others; return their number."""
    count, event, tick = 0, s.counter[0].event, 0
    for i in range(s.counter[0].logged):
        entry = s.log[i]
        f, old, path = entry.flow, entry.fresh, entry.path
        column, core = seat_column(s, path[0], path[3]), seat_column(s, path[1], path[2])
        if old == event or s.flow[f].fresh != event or s.flow[f].path[0] < 0 or column < 0 or core < -1:
            continue
        if not _goes_on(s, steps):
            break
        _start(t, s, f, unplaced)
        tick, s.flow[f].stamp = s.counter[0].tick, s.counter[0].tick
        change(t, f, -1, -1)
        one, two, three, four = _owners(t, f, column, core)
        cost = _price(s, one, tick) + _price(s, two, tick) + _price(s, three, tick) + _price(s, four, tick)
        frames[0].flow, frames[0].next, frames[0].unplaced = f, (column << t.shift) + max(core, 0), 1
        if cost >= MOVE:
            back(t, 0)
        elif _search(t, s, frames, unplaced, _take(t, frames[0], unplaced), MOVE - 1 - cost, steps, MAX_STEPS_BACK):
            _settle(t, s)
            s.flow[f].fresh = old
            s.counter[0].used -= 1
            count += 1
    return count


@bare_kernel
def spread_out(t: Seats, s: Arrays, limit: float, lifted: Rows, frames: Rows, unplaced: Ints, steps: Ints) -> None:
    """Give flows on links above a limit links of their own, within the budget.

    The others of the event share links as evenly as paths allow, and those of no event keep their paths.
    """
    count = _lift(s, lifted, limit)
    while _spread(t, s, lifted, count, frames, unplaced, steps) > 0 and _go_back(t, s, frames, unplaced, steps) > 0:
        pass
    for i in range(count):
        f, path = lifted[i].flow, lifted[i].path
        if f >= 0 and s.flow[f].fresh != s.counter[0].event:
            set_path(s, f, path[0], path[1], path[2], path[3])
    for i in range(count):
        f = lifted[i].flow
        if f >= 0 and s.flow[f].fresh == s.counter[0].event:
            column, core, _ = direct(s, f)
            put(s, f, column, core)
    t.used[0] = 0


def make_room(store: Store, limit: float) -> float:
    """Give flows links of their own, in three tiers where a link within a limit holds one; return the fullest link."""
    s, counter = store.s, store.counter
    one = s.planes and len(s.free) and 1 < counter.pair[0] / (limit * store.seat_bps) <= 2
    if not one or counter.budget[0] >= UNLIMITED or store.background.any():
        return store.fullest()[0]
    mark, used, score = int(counter.logged[0]), int(counter.used[0]), (store.fullest()[0], slowed(s, store.used))
    lifted, frames = np.empty(MAX_LIFTED, dtype=LIFTED), np.empty(MAX_DEPTH, dtype=FRAME)
    unplaced, steps = np.empty(4 * MAX_DEPTH, dtype=np.int64), np.array([MAX_ALL_STEPS], dtype=np.int64)
    spread_out(store.seats, s, limit, lifted, frames, unplaced, steps)
    if (store.fullest()[0], slowed(s, store.used)) > score:
        undo(s, mark)
        counter.used[0] = used
    return store.fullest()[0]

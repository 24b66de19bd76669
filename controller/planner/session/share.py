"""Kernels that choose which flows share where some must: at a leaf with more traffic than capacity.

So many links of such a leaf are *widened*: they count as if they could carry what is on them, and the other links are
relieved beside them. Then flows of few jobs gather on them, for a job is as slow as its slowest flow.
"""

from heddle.controller.planner.ground.jit import Floats, Ints, bare_kernel
from heddle.controller.planner.session.chains import commit, may_move, wire
from heddle.controller.planner.session.paths import set_path, undo
from heddle.controller.planner.session.place import leave
from heddle.controller.planner.session.table import DEAD, Arrays

MAX_GATHERED = 256
"""The flows for which chains are searched to slow fewer jobs."""


@bare_kernel
def _excess(s: Arrays, background: Floats, leaf: int, right: bool, size: int) -> float:
    """Return by how much a leaf's flows exceed what its links carry beside traffic of no job.

    With a size above 0, that is whole flows of this size.
    """
    excess = 0.0
    for column in range(s.up_leaf.shape[1]):
        link = wire(s, 0, leaf, column, right)
        excess += s.load[link] - background[link]
        if s.inverse[link] < DEAD:
            room = max((1 + 1e-9) / s.inverse[link] - background[link], 0.0)
            excess -= size * int(room / size) if size > 0 else room
    return excess


@bare_kernel
def widen(s: Arrays, background: Floats, size: int, limit: float, links: Ints, before: Floats) -> int:
    """Widen as many links above a limit as each leaf must have; return their number.

    `background` is the load of traffic of no job in bit/s per link. Writes the links, and their inverse capacities
    before.
    """
    count = 0
    for vertex in range(2 * s.up_leaf.shape[0]):
        leaf, right = vertex >> 1, vertex & 1 == 1
        excess = _excess(s, background, leaf, right, size)
        for column in range(s.up_leaf.shape[1]):
            link = wire(s, 0, leaf, column, right)
            if excess > 0 and s.inverse[link] < DEAD and s.load[link] * s.inverse[link] > limit:
                links[count], before[count] = link, s.inverse[link]
                count += 1
                excess -= s.load[link] - 1 / s.inverse[link]
                s.inverse[link] = 1 / s.load[link]
    return count


@bare_kernel
def _list_slowed(s: Arrays, limit: float, links: Ints, on: Ints) -> int:
    """Write the flows on these links and on all above a limit, some of them twice; return how many were written."""
    count = 0
    for i in range(links.shape[0] + s.load.shape[0]):
        link = links[i] if i < links.shape[0] else i - links.shape[0]
        node = s.head[link] if i < links.shape[0] or s.load[link] * s.inverse[link] > limit else -1
        while node >= 0 and count < on.shape[0]:
            on[count] = node >> 2
            node, count = s.flow[node >> 2].after[node & 3], count + 1
    return count


@bare_kernel
def _has_job(s: Arrays, on: Ints, job: int, other: int) -> bool:
    """Return whether a flow of the list other than `other` is of a job."""
    found, i = False, 0
    while i < on.shape[0] and not found:
        found = on[i] != other and s.flow[on[i]].job == job
        i += 1
    return found


@bare_kernel
def _jobs(s: Arrays, on: Ints) -> int:
    """Return how many jobs the flows of a list have."""
    count = 0
    for i in range(on.shape[0]):
        count += 0 if _has_job(s, on[:i], s.flow[on[i]].job, -1) else 1
    return count


@bare_kernel
def _exchange(s: Arrays, x: int, z: int, link: int, narrow: float, limit: float) -> bool:
    """Move x off a widened link and z of the same leaf to it; return False, with changes, where that is impossible."""
    left, wide = s.counter[0].budget - s.counter[0].used, s.inverse[link]
    set_path(s, z, -1, -1, -1, -1)
    # With z away and the link narrow, the leaf has room for x where z was; then only the link has room for z.
    s.inverse[link] = narrow
    cost = leave(s, x, limit, left)
    s.inverse[link] = wide
    return cost >= 0 and leave(s, z, limit, left - cost) >= 0


@bare_kernel
def _gather(s: Arrays, link: int, narrow: float, limit: float, links: Ints, room: Ints, size: int) -> bool:
    """Exchange one flow of a widened link such that fewer jobs are slowed; return False without a change if none is.

    The first `size` flows of `room` are slowed now.
    """
    mark, on, node, right = s.counter[0].logged, room[:size], s.head[link], link >= s.cables
    while node >= 0:
        x = node >> 2
        node, leaf = s.flow[x].after[node & 3], s.flow[x].target if right else s.flow[x].source
        if not may_move(s, x) or _has_job(s, on, s.flow[x].job, x):
            continue
        for column in range(s.up_leaf.shape[1]):
            other = s.head[wire(s, 0, leaf, column, right)]
            z = other >> 2
            if other < 0 or s.flow[z].after[other & 3] >= 0 or not may_move(s, z):
                continue
            if not _has_job(s, on, s.flow[z].job, x) or s.counter[0].tries <= 0:
                continue
            if _exchange(s, x, z, link, narrow, limit):
                left = room[size:][: _list_slowed(s, limit, links, room[size:])]
                if left.shape[0] <= size and _jobs(s, left) < _jobs(s, on) and commit(s, mark):
                    return True
            undo(s, mark)
    return False


@bare_kernel
def gather(s: Arrays, limit: float, links: Ints, before: Floats, room: Ints) -> None:
    """Exchange flows of widened links with others of their leaf, one by one, while fewer jobs are slowed by that."""
    s.counter[0].tries = MAX_GATHERED
    for i in range(links.shape[0]):
        while True:
            size = _list_slowed(s, limit, links, room[: room.shape[0] // 2])
            if not _gather(s, links[i], before[i], limit, links, room, size):
                break

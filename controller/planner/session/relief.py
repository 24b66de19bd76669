"""Lower the fullest links of a session by few moves: the maximum first, then the flows and the jobs that are slowed."""

import numpy as np

from heddle.controller.planner.session.ejections import make_room
from heddle.controller.planner.session.paths import undo
from heddle.controller.planner.session.place import relieve, slowed
from heddle.controller.planner.session.share import gather, widen
from heddle.controller.planner.session.state import Store
from heddle.controller.planner.session.table import DEAD

MAX_CHARGE, MAX_CHARGE_AHEAD = 32, 8
"""The flows that may move for one flow that leaves a link: where it is too full, and where its column is emptied."""
HAIR = 1 + 1e-9
"""Two utilisations that differ by less than this factor count as equal: they are quotients of floats."""


def score(store: Store, goal: float) -> tuple[float, float]:
    """Return the fullest link above the bound, and by how much flows are slowed: the lower, the better.

    The latter is 0.0 where jobs have phases: their flows do not all run together.
    """
    worst = store.fullest()[0]
    return worst if worst > goal * HAIR else 0.0, 0.0 if store.phased else slowed(store.s, store.used)


def evenness(store: Store) -> tuple[float, float]:
    """Return the utilisation of the fullest link, and the sum of the squares of all: the lower, the better."""
    return store.fullest()[0], float(np.square(store.s.load / store.divisor).sum())


def lowered(store: Store, goal: float, worst: float, levels: int) -> float:
    """Lower the fullest link towards a goal by the fewest moves and return the limit reached.

    So many utilisations are tried: the goal, then by bisection between it and the fullest link.
    """
    counter, low = store.counter, goal
    for number in range(levels):
        target = (low + worst) / 2 if number else goal
        mark, used = int(counter.logged[0]), int(counter.used[0])
        if relieve(store.s, target * HAIR, True, MAX_CHARGE, store.full):
            worst = target
            if not number:
                break
        else:
            undo(store.s, mark)
            counter.used[0], low = used, target
    return worst


def spare(store: Store) -> bool:
    """Move flows off links above 1 where others have room; return whether only links that a leaf needs remain above 1.

    Flows of few jobs share those. Nothing is widened for jobs with phases, whose flows do not all run together.
    """
    s, size = store.s, int(store.cuts.one_size)
    if store.phased:
        return relieve(s, HAIR, False, MAX_CHARGE, store.full)
    links, before = np.zeros(len(s.load), dtype=np.int64), np.zeros(len(s.load))
    count = widen(s, store.background, size, HAIR, links, before)
    make_room(store, HAIR)
    done = relieve(s, HAIR, False, MAX_CHARGE, store.full)
    if count:
        gather(s, HAIR, links[:count], before[:count], np.zeros(2 * len(s.load), dtype=np.int64))
    s.inverse[links[:count]] = before[:count]
    return done


def emptied(store: Store) -> None:
    """Move flows off the last column to links within their capacity, with what is left of the budget.

    A job that arrives later finds room there. Without it, in three tiers, each of its flows may need a chain of moves
    in a column, and one between cores for each flow of that chain.
    """
    store.reserve_log(0)
    s = store.s
    column = s.up_leaf[:, -1]
    links = np.concatenate((column, column + s.cables))
    before = s.inverse[links]
    s.inverse[links] = np.where(before < DEAD, 2 * before, before)  # a flow that fills more than half is too much now
    relieve(s, HAIR, False, MAX_CHARGE_AHEAD, store.full)
    s.inverse[links] = before

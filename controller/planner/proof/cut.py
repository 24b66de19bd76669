"""Lower bounds on the largest utilisation of the links of one cut; each flow that crosses the cut uses one of them.

At any time a job is in one phase, and on each link it counts by its heaviest. So whatever a flow adds to a link by its
demand alone, a job adds to all links together at least that of its phase in which this sum is largest: each bound takes
that phase for each job. More demand never lowers such a sum, nor the bound:

- cut: the load of the cut over the capacity of its links; equal links have whole bits per second each;
- largest_flow: the largest flow over the widest link;
- pigeonhole: n flows of demand d or more fill at best the n emptiest slots of size d, for every d;
- bin_packing: of flows of demand e or more, one of more than C - e is alone on a link of capacity C, so it takes C
  (the bound L2 of Martello and Toth, Knapsack Problems, 1990, 8.3.2), for every e; all links count as the widest.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Ints, bare_kernel, kernel
from heddle.controller.planner.ground.loads import Layers

CUT, LARGEST_FLOW, PIGEONHOLE, BIN_PACKING = range(4)
KINDS = ("cut", "largest_flow", "pigeonhole", "bin_packing")
"""The name of each kind of proof, the simplest first."""


class Best(NamedTuple):
    """The largest bound so far and the simplest kind of proof that gives it."""

    value: float
    kind: int


class Demands(NamedTuple):
    """The demand and the layer of each flow, the job of each layer, and the first layer of each job and of none."""

    bps: Ints
    layer: Ints
    job: Ints
    begin: Ints


class Counters(NamedTuple):
    """Counts across one cut: by layer, by job (of its largest layer), by link. The first four are 0 between cuts."""

    load: Ints
    flows: Ints
    heaviest: Ints
    most: Ints
    taken: Ints


def demands_of(flows: Flows, layers: Layers) -> Demands:
    """Return the flows as the kernels read them; jobs are numbered from 0."""
    begins = np.flatnonzero(np.concatenate(([True], layers.job[1:] != layers.job[:-1])))
    begin = np.append(begins, len(layers.job)).astype(np.int64)
    job = np.repeat(np.arange(len(begins), dtype=np.int64), np.diff(begin))
    return Demands(flows.demand_bps, layers.of_flow, job, begin)


def counters_of(demands: Demands, links: int) -> Counters:
    """Return counters for these demands and cuts of up to so many links."""
    layers, jobs = len(demands.job), len(demands.begin) - 1
    sizes = (layers, layers, jobs, jobs, links)
    return Counters(*(np.zeros(size, dtype=np.int64) for size in sizes))


@kernel
def grouped(order: Ints, key: Ints, size: int) -> tuple[Ints, Ints]:
    """Sort the rows of `order` by key (0 to size - 1; -1: left out), stably; return them and where each key begins."""
    begin = np.zeros(size + 1, np.int64)
    for i in range(order.shape[0]):
        if key[order[i]] >= 0:
            begin[key[order[i]] + 1] += 1
    for group in range(size):
        begin[group + 1] += begin[group]
    cursor, found = begin.copy(), np.empty(begin[size], np.int64)
    for i in range(order.shape[0]):
        group = key[order[i]]
        if group >= 0:
            found[cursor[group]] = order[i]
            cursor[group] += 1
    return found, begin


@bare_kernel
def _better(best: Best, value: float, kind: int) -> Best:
    """Return the larger of two bounds, of equal ones the simpler."""
    return Best(value, kind) if value > best.value or (value == best.value and kind < best.kind) else best


@bare_kernel
def may_improve(flows: int, largest: int, links: int, narrowest: int, best: Best) -> bool:
    """Return whether this many flows of at most `largest` over links of at least `narrowest` may improve `best`.

    Flows dealt to the links in turn show what no bound exceeds. The cut reaches that only with so much load that no
    link could have less.
    """
    if flows == 0 or links == 0:
        return False
    level = (flows + links - 1) // links * largest / narrowest
    simplest = CUT if flows * largest > links * (largest - 1) else LARGEST_FLOW
    return level > best.value or (level == best.value and simplest < best.kind)


@bare_kernel
def bound_of_cut(rows: Ints, widths: Ints, demands: Demands, counters: Counters, best: Best) -> Best:
    """Return the largest of `best` and the bounds of one cut.

    `rows` are the flows that cross it by descending demand, `widths` the capacities of its links. Equal links take
    slots in rotation; of unequal links, the one that stays least full takes the next slot.
    """
    links, capacity, load, slots = widths.shape[0], 0, 0, 0
    if links == 0 or rows.shape[0] == 0:
        return best
    narrowest = widest = widths[0]
    for link in range(links):
        counters.taken[link] = 0
        capacity += widths[link]
        narrowest, widest = min(narrowest, widths[link]), max(widest, widths[link])
    if not may_improve(rows.shape[0], demands.bps[rows[0]], links, narrowest, best):
        return best
    even = narrowest == widest
    for i in range(rows.shape[0]):
        layer, demand = demands.layer[rows[i]], demands.bps[rows[i]]
        job = demands.job[layer]
        counters.load[layer] += demand
        counters.flows[layer] += 1
        if counters.load[layer] > counters.heaviest[job]:
            load += counters.load[layer] - counters.heaviest[job]
            counters.heaviest[job] = counters.load[layer]
        if counters.flows[layer] > counters.most[job]:
            counters.most[job] += 1
            link = slots % links if even else _emptiest(widths, counters.taken)
            slots += 1
            counters.taken[link] += 1
            level = counters.taken[link] * demand / widths[link]
            best = _better(best, level, PIGEONHOLE if slots > 1 else LARGEST_FLOW)
    _clear(rows, rows.shape[0], demands, counters)
    level = (load + links - 1) // links / widest if even else load / capacity
    best = _better(best, level, CUT)
    return _packed(rows, links, widest, demands, counters, best)


@bare_kernel
def _emptiest(widths: Ints, taken: Ints) -> int:
    """Return the link that is least full with one more slot taken, the first of equal ones."""
    best = 0
    for link in range(1, widths.shape[0]):
        if (taken[link] + 1) * widths[best] < (taken[best] + 1) * widths[link]:
            best = link
    return best


@bare_kernel
def _clear(rows: Ints, count: int, demands: Demands, counters: Counters) -> None:
    """Set the counters of the layers and jobs of the first rows to 0 again."""
    for i in range(count):
        layer = demands.layer[rows[i]]
        job = demands.job[layer]
        counters.load[layer] = counters.flows[layer] = 0
        counters.heaviest[job] = counters.most[job] = 0


@bare_kernel
def _packed(rows: Ints, links: int, width: int, demands: Demands, counters: Counters, best: Best) -> Best:
    """Return the larger of `best` and the bin-packing bound: the least load per link at which the flows may fit.

    Loads are whole bits per second. If two of the largest flow fit on a link, none is alone.
    """
    largest, smallest = demands.bps[rows[0]], demands.bps[rows[-1]]
    full = int(best.value * width)
    while (full + 1) / width <= best.value:
        full += 1
    while full / width > best.value:
        full -= 1
    if largest == smallest or 2 * largest <= full or not _overfull(rows, links, full, demands, counters):
        return best
    fits = 2 * largest
    while fits - full > 1:
        middle = (full + fits) // 2
        if _overfull(rows, links, middle, demands, counters):
            full = middle
        else:
            fits = middle
    return Best(fits / width, BIN_PACKING)


@bare_kernel
def _overfull(rows: Ints, links: int, capacity: int, demands: Demands, counters: Counters) -> bool:
    """Return whether flows of some demand or more need more than all links: the first `alone` flows have one each."""
    bps, needed, entered, alone, over = demands.bps, 0, 0, 0, False
    while entered < rows.shape[0] and not over:
        least = bps[rows[entered]]
        if bps[rows[0]] + least <= capacity:
            break
        while alone > 0 and bps[rows[alone - 1]] + least <= capacity:
            alone -= 1
            needed += _add(rows[alone], bps[rows[alone]] - capacity, demands, counters)
        while entered < rows.shape[0] and bps[rows[entered]] == least:
            needed += _add(rows[entered], capacity if 2 * least > capacity else least, demands, counters)
            entered += 1
        if 2 * least > capacity:
            alone = entered
        over = needed > links * capacity
    _clear(rows, entered, demands, counters)
    return over


@bare_kernel
def _add(row: int, amount: int, demands: Demands, counters: Counters) -> int:
    """Add an amount, maybe below 0, to the layer of a flow; return what its job's heaviest layer gains."""
    layer = demands.layer[row]
    job = demands.job[layer]
    counters.load[layer] += amount
    before, heaviest = counters.heaviest[job], counters.load[layer]
    if amount >= 0:
        heaviest = max(before, heaviest)
    else:
        for other in range(demands.begin[job], demands.begin[job + 1]):
            heaviest = max(heaviest, counters.load[other])
    counters.heaviest[job] = heaviest
    return heaviest - before

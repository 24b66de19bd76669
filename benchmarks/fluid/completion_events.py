"""Event by event through a max-min fluid model: who is done next, and whose rate that changes.

A flow that ends or begins disturbs few others. Max-min rates are the only ones at which every flow is at its own cap or
on a full link where none is faster (Bertsekas and Gallager, Data Networks, 6.5.2), so it is enough to fill anew the
flows that no longer are, to look whether a neighbour has thereby lost its link, and to take those in until none has.
Times are nanoseconds, amounts bits, rates bits per nanosecond.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.fluid.jit import kernel
from controller.planner.jit import Flags, Floats, Ints
from controller.planner.search.heap import sink

SLACK = 1e-9
"""What a full link may have left, and equal rates may differ by, relative to themselves."""
TIE = 1e-12
"""Times closer than this, relatively, are one event: sums of floats differ where the fractions would not."""


class Network(NamedTuple):
    """Flows and the links they share; an edge is one flow on one link.

    `first` has each flow's first edge (and the end), `link` and `owner` each edge's ends, `begin` each link's first
    place in `edges`, whose first `active` places hold its active edges; `place` finds an edge there. `load` sums the
    rates, `held` is the full link that holds a flow, -1 where its own cap `most` does (`by_cap` sorts by that).
    """

    first: Ints
    link: Ints
    owner: Ints
    begin: Ints
    edges: Ints
    place: Ints
    active: Ints
    capacity: Floats
    load: Floats
    rate: Floats
    most: Floats
    by_cap: Ints
    held: Ints


class Refill(NamedTuple):
    """The flows that are being filled anew, and room to work in.

    `flows` lists them and `chosen` flags them, `before` is the rate at which each came in. `links` lists what they
    cross, `local` finds a link in it (-1: no), `left`, `open`, `key` and `heap` are by that number. `counts` holds how
    many flows and links there are.
    """

    flows: Ints
    chosen: Flags
    frozen: Flags
    before: Floats
    links: Ints
    local: Ints
    left: Floats
    open: Ints
    key: Floats
    heap: Ints
    counts: Ints


class Queue(NamedTuple):
    """Active flows as a heap by the time at which each ends if nothing changes; `at` finds a flow in it, -1 outside."""

    heap: Ints
    at: Ints
    size: Ints
    ends: Floats
    left: Floats
    stamp: Floats


@kernel
def _join(f: int, net: Network) -> None:
    """Make a flow active, still without a rate."""
    net.rate[f], net.held[f] = 0.0, -1
    for edge in range(net.first[f], net.first[f + 1]):
        link = net.link[edge]
        net.place[edge] = net.begin[link] + net.active[link]
        net.edges[net.place[edge]] = edge
        net.active[link] += 1


@kernel
def _leave(f: int, net: Network, refill: Refill) -> None:
    """Take a flow out, and choose for filling whom its links have held."""
    for edge in range(net.first[f], net.first[f + 1]):
        link = net.link[edge]
        net.active[link] -= 1
        last = net.begin[link] + net.active[link]
        net.edges[net.place[edge]] = net.edges[last]
        net.place[net.edges[last]] = net.place[edge]
        net.load[link] = net.load[link] - net.rate[f] if net.active[link] > 0 else 0.0
        for place in range(net.begin[link], last):
            g = net.owner[net.edges[place]]
            if net.held[g] == link:
                _choose(g, net, refill)
    net.rate[f] = 0.0


@kernel
def _choose(f: int, net: Network, refill: Refill) -> None:
    """Take an active flow among those to fill anew, once."""
    if not refill.chosen[f]:
        refill.chosen[f], refill.before[f] = True, net.rate[f]
        refill.flows[refill.counts[0]] = f
        refill.counts[0] += 1


@kernel
def _open_links(net: Network, refill: Refill) -> None:
    """List the chosen flows' links with what their other flows leave of them."""
    links = 0
    for i in range(refill.counts[0]):
        f = refill.flows[i]
        refill.frozen[f] = False
        for edge in range(net.first[f], net.first[f + 1]):
            link = net.link[edge]
            if refill.local[link] < 0:
                refill.local[link], refill.links[links] = links, link
                refill.left[links], refill.open[links] = net.capacity[link] - net.load[link], 0
                links += 1
            refill.left[refill.local[link]] += net.rate[f]
            refill.open[refill.local[link]] += 1
    refill.counts[1] = links
    for number in range(links):
        refill.key[number] = max(0.0, refill.left[number]) / refill.open[number]
        refill.heap[number] = number
    for place in range(links // 2 - 1, -1, -1):
        sink(refill.key, refill.heap, links, place)


@kernel
def _freeze(f: int, rate: float, link: int, net: Network, refill: Refill) -> None:
    net.rate[f], net.held[f], refill.frozen[f] = rate, link, True
    for edge in range(net.first[f], net.first[f + 1]):
        number = refill.local[net.link[edge]]
        refill.left[number] -= rate
        refill.open[number] -= 1


@kernel
def _chosen_by_cap(net: Network, refill: Refill) -> Ints:
    """Return the chosen flows, perhaps among others, by what they may send at most: sorted anew only where few."""
    if 8 * refill.counts[0] > len(net.by_cap):
        return net.by_cap
    flows = refill.flows[: refill.counts[0]]
    return flows[np.argsort(net.most[flows])]


@kernel
def _fill(net: Network, refill: Refill) -> None:
    """Give the chosen flows max-min shares of what the others leave them."""
    _open_links(net, refill)
    by_cap, next_cap, size = _chosen_by_cap(net, refill), 0, refill.counts[1]
    while size > 0:
        while next_cap < len(by_cap) and (refill.frozen[by_cap[next_cap]] or not refill.chosen[by_cap[next_cap]]):
            next_cap += 1
        if next_cap < len(by_cap) and net.most[by_cap[next_cap]] <= refill.key[0]:
            _freeze(by_cap[next_cap], net.most[by_cap[next_cap]], -1, net, refill)
            continue
        top = refill.heap[0]
        share = max(0.0, refill.left[top]) / refill.open[top] if refill.open[top] > 0 else 0.0
        if refill.open[top] > 0 and share > refill.key[0] * (1 + TIE):
            refill.key[0] = share
        else:
            link = refill.links[top]
            for place in range(net.begin[link], net.begin[link] + net.active[link] if refill.open[top] > 0 else 0):
                f = net.owner[net.edges[place]]
                if refill.chosen[f] and not refill.frozen[f]:
                    _freeze(f, share, link, net, refill)
            size -= 1
            refill.key[0], refill.heap[0] = refill.key[size], refill.heap[size]
        if size > 0:
            sink(refill.key, refill.heap, size, 0)
    for number in range(refill.counts[1]):
        link = refill.links[number]
        net.load[link], refill.local[link] = net.capacity[link] - refill.left[number], -1


@kernel
def _choose_disturbed(net: Network, refill: Refill) -> None:
    """Choose whom the filling has left without a link that holds it, or faster than one that its link holds."""
    for number in range(refill.counts[1]):
        link = refill.links[number]
        begin, end = net.begin[link], net.begin[link] + net.active[link]
        full = refill.left[number] <= SLACK * net.capacity[link]
        lowest, highest = np.inf, 0.0
        for place in range(begin, end):
            f = net.owner[net.edges[place]]
            if refill.chosen[f]:
                highest = max(highest, net.rate[f])
                if net.held[f] == link:
                    lowest = min(lowest, net.rate[f])
        for place in range(begin, end):
            f = net.owner[net.edges[place]]
            if not refill.chosen[f]:
                lost = net.held[f] == link and (not full or highest > net.rate[f] * (1 + SLACK))
                if lost or net.rate[f] > lowest * (1 + SLACK):
                    _choose(f, net, refill)


@kernel
def _settle(now: float, net: Network, refill: Refill, queue: Queue) -> int:
    """Fill until every flow is held; returns how many fillings of a flow that took."""
    fillings, known = 0, 0
    while refill.counts[0] > known:
        known = refill.counts[0]
        if 4 * known > queue.size[0]:
            _choose_all(net, refill, queue)
            known = refill.counts[0]
        fillings += known
        _fill(net, refill)
        if known < queue.size[0]:
            _choose_disturbed(net, refill)
    every = refill.counts[0] == queue.size[0]
    for i in range(refill.counts[0]):
        f = refill.flows[i]
        refill.chosen[f] = False
        if net.rate[f] != refill.before[f]:
            queue.left[f] = max(0.0, queue.left[f] - refill.before[f] * (now - queue.stamp[f]))
            queue.stamp[f] = now
            queue.ends[f] = now + queue.left[f] / net.rate[f] if net.rate[f] > 0 else np.inf
            if not every:
                _requeue(f, queue)
    for place in range(queue.size[0] // 2 - 1 if every else -1, -1, -1):
        _sink_flow(queue.heap[place], place, queue)
    refill.counts[0] = 0
    return fillings


@kernel
def _choose_all(net: Network, refill: Refill, queue: Queue) -> None:
    """Choose every active flow, in the order of memory where they are many."""
    if 4 * queue.size[0] > len(queue.at):
        for f in range(len(queue.at)):
            if queue.at[f] >= 0:
                _choose(f, net, refill)
    else:
        for i in range(queue.size[0]):
            _choose(queue.heap[i], net, refill)


@kernel
def _requeue(f: int, queue: Queue) -> None:
    """Restore the heap order around a flow whose end has changed."""
    place, ends = queue.at[f], queue.ends[f]
    while place > 0 and queue.ends[queue.heap[(place - 1) // 2]] > ends:
        queue.heap[place] = queue.heap[(place - 1) // 2]
        queue.at[queue.heap[place]] = place
        place = (place - 1) // 2
    _sink_flow(f, place, queue)


@kernel
def _sink_flow(f: int, place: int, queue: Queue) -> None:
    """Put a flow at a place of the heap, or as far below as it belongs."""
    ends = queue.ends[f]
    while 2 * place + 1 < queue.size[0]:
        child = 2 * place + 1
        if child + 1 < queue.size[0] and queue.ends[queue.heap[child + 1]] < queue.ends[queue.heap[child]]:
            child += 1
        if queue.ends[queue.heap[child]] >= ends:
            break
        queue.heap[place] = queue.heap[child]
        queue.at[queue.heap[place]] = place
        place = child
    queue.heap[place], queue.at[f] = f, place


@kernel
def _enqueue(f: int, queue: Queue) -> None:
    queue.heap[queue.size[0]], queue.at[f], queue.ends[f] = f, queue.size[0], np.inf
    queue.size[0] += 1


@kernel
def _dequeue(queue: Queue) -> int:
    """Take out the flow that ends first; it stays to be seen in the place just beyond the heap."""
    first, queue.size[0] = queue.heap[0], queue.size[0] - 1
    last = queue.heap[queue.size[0]]
    queue.heap[0], queue.at[last], queue.heap[queue.size[0]] = last, 0, first
    queue.at[first] = -1
    if queue.size[0] > 0:
        _sink_flow(last, 0, queue)
    return int(first)


@kernel
def run_events(
    net: Network, refill: Refill, queue: Queue, start: Floats, order: Ints, tolerance: float, most_fillings: int
) -> tuple[int, int]:
    """Run until no flow is left, or the fillings are used up; returns the events and the fillings of a flow.

    `order` sorts the flows by `start`. `queue.ends` has each flow's end; after too many fillings, the end that it
    would have if nothing changed any more. Ends within `tolerance` of the first one's age are one event.
    """
    begun, events, fillings = 0, 0, 0
    while (begun < len(order) or queue.size[0] > 0) and fillings <= most_fillings:
        ends = queue.ends[queue.heap[0]] if queue.size[0] > 0 else np.inf
        starts = start[order[begun]] if begun < len(order) else np.inf
        if ends == np.inf and starts == np.inf:
            break
        now = min(starts, ends)
        if ends <= starts:
            until = min(starts, ends + max(tolerance * (ends - start[queue.heap[0]]), TIE * ends))
            before = queue.size[0]
            while queue.size[0] > 0 and queue.ends[queue.heap[0]] <= until:
                now = queue.ends[queue.heap[0]]
                net.held[_dequeue(queue)] = -1
            for place in range(queue.size[0], before):
                _leave(queue.heap[place], net, refill)
        while begun < len(order) and start[order[begun]] <= now:
            f = order[begun]
            queue.stamp[f] = now
            _join(f, net)
            _enqueue(f, queue)
            _choose(f, net, refill)
            begun += 1
        events += 1
        fillings += _settle(now, net, refill, queue)
    return events, fillings

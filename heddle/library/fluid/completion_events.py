"""Simulate a max-min fluid model event by event: the next flow to end, and the flows whose rates change.

A flow that starts or ends changes the rates of few others. At max-min rates every flow is at its own cap, or on a full
link where no flow is faster (Bertsekas and Gallager, Data Networks, 6.5.2); no other rates have this property. It is
therefore enough to recompute (refill) the flows that lost it, then those of their neighbours that lost it, until none
is left.
Times are nanoseconds, amounts bits, rates bits per nanosecond.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.proof.heap import sink
from heddle.library.fluid.jit import kernel

SLACK = 1e-9
"""Relative tolerance for a full link and for equal rates."""
TIE = 1e-12
"""Relative difference of times that are one event: float sums differ where exact fractions are equal."""


class Network(NamedTuple):
    """Flows and their shared links; an edge is one flow on one link.

    `first` has each flow's first edge (and the end), `link` and `owner` each edge's ends, `begin` each link's first
    place in `edges`, whose first `active` places hold its active edges; `place` finds an edge there. `load` sums the
    rates, `held` is the full link that limits a flow, -1 if its own cap does; `by_cap` sorts by `cap`.
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
    cap: Floats
    by_cap: Ints
    held: Ints


class Refill(NamedTuple):
    """The flows being refilled, and scratch arrays.

    `flows` lists them, `chosen` flags them, `before` has their previous rates. `links` lists their links, `local` is a
    link's index in it (-1: not in it), and `left`, `open`, `key` and `heap` use that index. `counts` has the numbers of
    flows and links.
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
    """Active flows in a heap by end time at current rates; `at` is a flow's place in it, -1 outside."""

    heap: Ints
    at: Ints
    size: Ints
    ends: Floats
    left: Floats
    stamp: Floats


@kernel
def _join(f: int, net: Network) -> None:
    """Activate a flow, with rate 0."""
    net.rate[f], net.held[f] = 0.0, -1
    for edge in range(net.first[f], net.first[f + 1]):
        link = net.link[edge]
        net.place[edge] = net.begin[link] + net.active[link]
        net.edges[net.place[edge]] = edge
        net.active[link] += 1


@kernel
def _leave(f: int, net: Network, refill: Refill) -> None:
    """Deactivate a flow, and choose the flows that its links limited for refilling."""
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
    """Choose an active flow for refilling, once."""
    if not refill.chosen[f]:
        refill.chosen[f], refill.before[f] = True, net.rate[f]
        refill.flows[refill.counts[0]] = f
        refill.counts[0] += 1


@kernel
def _open_links(net: Network, refill: Refill) -> None:
    """List the links of the chosen flows with the capacity that other flows leave."""
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
    """Return the chosen flows, possibly among others, by cap; sorts only if they are few."""
    if 8 * refill.counts[0] > len(net.by_cap):
        return net.by_cap
    flows = refill.flows[: refill.counts[0]]
    return flows[np.argsort(net.cap[flows])]


@kernel
def _fill(net: Network, refill: Refill) -> None:
    """Assign max-min rates to the chosen flows within the capacity that other flows leave."""
    _open_links(net, refill)
    by_cap, next_cap, size = _chosen_by_cap(net, refill), 0, refill.counts[1]
    while size > 0:
        while next_cap < len(by_cap) and (refill.frozen[by_cap[next_cap]] or not refill.chosen[by_cap[next_cap]]):
            next_cap += 1
        if next_cap < len(by_cap) and net.cap[by_cap[next_cap]] <= refill.key[0]:
            _freeze(by_cap[next_cap], net.cap[by_cap[next_cap]], -1, net, refill)
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
    """Choose the flows that lost their limiting link, or that are faster than a flow limited by a common link."""
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
    """Refill until every flow is limited by a link or its cap; return the number of new rates."""
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
    """Choose every active flow, in memory order if they are many."""
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
    """Move a flow down the heap from a place to where it belongs."""
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
    """Remove and return the flow that ends first; it stays readable just beyond the heap's end."""
    first, queue.size[0] = queue.heap[0], queue.size[0] - 1
    last = queue.heap[queue.size[0]]
    queue.heap[0], queue.at[last], queue.heap[queue.size[0]] = last, 0, first
    queue.at[first] = -1
    if queue.size[0] > 0:
        _sink_flow(last, 0, queue)
    return int(first)


@kernel
def run_events(
    net: Network, refill: Refill, queue: Queue, start: Floats, order: Ints, tolerance: float, max_fillings: int
) -> tuple[int, int]:
    """Run until no flow is left or the limit of fillings is reached; return the numbers of events and of fillings.

    `order` sorts the flows by `start`. `queue.ends` has each flow's end, or its end at current rates if the limit was
    reached. Ends within `tolerance` of the first one's age are one event.
    """
    begun, events, fillings = 0, 0, 0
    while (begun < len(order) or queue.size[0] > 0) and fillings <= max_fillings:
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

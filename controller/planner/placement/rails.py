"""Choose and order the NICs of a placement so that a ring over its ranks keeps its rail from host to host.

A ring enters a host on one NIC and leaves it on another, or on the same where all its ranks there are behind one. From
host to host it uses no link between switches if it enters the next on the leaf on which it left the last. Of a host
that is not used whole, any of its idle NICs may serve. Hosts keep their order.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf

from heddle.controller.planner.placement.blocks import Seat
from heddle.controller.planner.placement.choose import Candidate, Part, on_host

Ends = tuple[int, int]
"""The leaves on which a ring enters a host and leaves it."""
Orders = Mapping[Ends, Sequence[int]]
"""For each possible pair of ends, the seats of a host's ranks, by their places on the host."""


def on_rails(candidate: Candidate) -> Candidate | None:
    """Return a candidate whose ring changes its leaf between hosts as rarely as possible, None if it is such a one."""
    if len(candidate.parts) < 2:
        return None
    parts = candidate.parts
    usual = [on_host(part)[0] for part in parts]
    changes, seats = _arranged(parts)
    if changes and (lent := _lent(parts)) is not None and (other := _arranged(lent))[0] < changes:
        parts, seats = lent, other[1]
        changes = other[0]
    if changes >= _changes([(mine[0].leaf, mine[-1].leaf) for mine in usual]):
        return None
    nics = tuple(seat.nic for seat in seats)
    return replace(candidate, nics=nics, parts=parts, leaves=len({seat.leaf for seat in seats}), turned=True)


def _arranged(parts: Sequence[Part]) -> tuple[int, list[Seat]]:
    """Return the changes of leaf that no choice of NICs on these hosts avoids, and the seat of each rank."""
    known: dict[object, Orders] = {}
    for part in parts:
        if (kind := _kind(part)) not in known:
            known[kind] = _orders(part)
    orders = [known[_kind(part)] for part in parts]
    ends = fewest_changes([list(each) for each in orders])
    seats = [
        part.host.seats[place] for part, each, chosen in zip(parts, orders, ends, strict=True) for place in each[chosen]
    ]
    return _changes(ends), seats


def _changes(ends: Sequence[Ends]) -> int:
    return sum(one[1] != other[0] for one, other in pairwise([*ends, ends[0]]))


def _lent(parts: Sequence[Part]) -> tuple[Part, ...] | None:
    """Return the parts where a host with one rank gets one more of the largest; None where that is not possible.

    A ring enters and leaves a host with one rank on one leaf, which few others do.
    """
    small = next((at for at, part in enumerate(parts) if (part.snug, part.fresh) == (0, 1)), None)
    large = max(range(len(parts)), key=lambda at: -1 if parts[at].snug else parts[at].fresh)
    if small is None or parts[large].fresh < 3 or parts[large].snug or parts[small].host.size < 2:
        return None
    lent = list(parts)
    lent[small] = parts[small]._replace(fresh=2)
    lent[large] = parts[large]._replace(fresh=parts[large].fresh - 1)
    more = sum(on_host(part)[1] for part in lent) > sum(on_host(part)[1] for part in parts)
    return None if more or sum(seat.fresh for seat in lent[small].host.seats) < 2 else tuple(lent)


def fewest_changes(choices: Sequence[Collection[Ends]]) -> list[Ends]:
    """Return one of each host's possible ends, so that a ring over the hosts changes its leaf least often."""
    leaves = [{leaf for ends in each for leaf in ends} for each in choices]
    inevitable = sum(one.isdisjoint(other) for one, other in pairwise([*leaves, leaves[0]]))
    best: tuple[float, list[Ends]] = (inf, [])
    for start in dict.fromkeys(first for first, _ in choices[0]):
        best = min(best, _from(start, choices), key=lambda found: found[0])
        if best[0] <= inevitable:
            break
    return best[1]


def _from(start: int, choices: Sequence[Collection[Ends]]) -> tuple[float, list[Ends]]:
    """Return the fewest changes of a ring that enters the first host on this leaf, and its ends."""
    changes: dict[int, float] = {last: 0 for first, last in choices[0] if first == start}
    steps = [dict.fromkeys(changes, (start, start))]
    for each in choices[1:]:
        cheapest = min(changes, key=changes.__getitem__)
        reached: dict[int, float] = {}
        step: dict[int, Ends] = {}
        for first, last in each:
            before = first if changes.get(first, inf) <= changes[cheapest] + 1 else cheapest
            total = changes[before] + (before != first)
            if total < reached.get(last, inf):
                reached[last], step[last] = total, (before, first)
        changes = reached
        steps.append(step)
    last = min(changes, key=lambda leaf: changes[leaf] + (leaf != start))
    total, ends = changes[last] + (last != start), []
    for step in reversed(steps):
        before, first = step[last]
        ends.append((first, last))
        last = before
    return total, ends[::-1]


def _kind(part: Part) -> object:
    """Return what the orders of a part depend on."""
    return part.snug, part.fresh, tuple((seat.leaf, seat.snug, seat.fresh, seat.each) for seat in part.host.seats)


def _orders(part: Part) -> Orders:
    """Return an order of a host's ranks for each possible pair of ends; no more idle GPUs come into use than usual."""
    seats = part.host.seats
    usual, opened = on_host(part)
    given = part.snug > 0 or len(usual) == part.host.size
    counts = Counter(seat.nic for seat in usual)
    room = {
        place: counts[seat.nic] if given else seat.fresh
        for place, seat in enumerate(seats)
        if (seat.nic in counts if given else seat.fresh)
    }
    found: dict[Ends, Sequence[int]] = {}
    for first in room:
        for last in reversed(room):
            order = _order(room, first, last, len(usual))
            if order and (given or _opened(seats, order) <= opened):
                found.setdefault((seats[first].leaf, seats[last].leaf), order)
    return found


def _order(room: Mapping[int, int], first: int, last: int, ranks: int) -> list[int]:
    """Return the seat of each rank where the first and the last are given; empty where that is not possible."""
    if first == last:
        return [first] * ranks if room[first] >= ranks else []
    taken = {first: min(room[first], ranks - 1)}
    taken[last] = min(room[last], ranks - taken[first])
    between = sorted((place for place in room if place not in taken), reverse=first > last)
    for place in between:
        taken[place] = min(room[place], ranks - sum(taken.values()))
    return [place for place in (first, *between, last) for _ in range(taken[place])] if taken[first] else []


def _opened(seats: Sequence[Seat], order: Sequence[int]) -> int:
    """Return how many idle GPUs come into use."""
    return sum(-(-count // seats[place].each) for place, count in Counter(order).items())

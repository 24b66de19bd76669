"""Name what joins no two ends of the fabric: crossed fibres, ports that several hear, and strangers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from heddle.controller.cabling.cause import Cause, CauseKind, listed
from heddle.controller.cabling.ends import NONE
from heddle.controller.cabling.observed import Observed
from heddle.controller.cabling.undoing import cables_of, ports_of


def crossed_fibres(observed: Observed) -> Iterator[Cause]:
    """Yield the cables whose ends hear others than those that hear them; cables with fibres in common are one cause."""
    ends, hears = observed.ends, observed.hears
    for group in _groups(observed):
        hearing = [f"{ends.name(end)} hears {_named(observed, end)}" for end in group]
        members = dict.fromkeys((*group, *(hears[end] for end in group)))
        text = f"fibres are crossed: {listed(hearing)}"
        yield Cause(kind=CauseKind.CROSSED, text=text, cables=cables_of(ends, group), ports=ports_of(ends, members))


def claimed_ports(observed: Observed) -> Iterator[Cause]:
    """Yield each end that several ports hear; none of them is accused, since only one can be right."""
    ends = observed.ends
    contested = dict.fromkeys(observed.hears[end] for end in observed.claimed)
    hearers: dict[int, list[int]] = defaultdict(list)
    for end, heard in observed.hears.items() if contested else ():
        hearers[heard].append(end)
    for heard in contested:
        these = sorted(dict.fromkeys((*hearers[heard], *filter(lambda far: far != NONE, (observed.met[heard],)))))
        names = [ends.name(end) for end in these]
        text = f"{ends.name(heard)} is heard at {listed(names)}: only one of them can be right"
        yield Cause(kind=CauseKind.CLAIMED, text=text, cables=(), ports=ports_of(ends, these))


def strangers(observed: Observed) -> Iterator[Cause]:
    """Yield devices that the fabric lacks where one of its own belongs, and remove them from the cabling as heard."""
    ends, met = observed.ends, observed.met
    hearers: dict[int, list[int]] = defaultdict(list)
    for stranger in range(ends.built, len(ends.node)):
        end = met[stranger]
        if end != NONE and ends.is_stranger(stranger):
            met[stranger] = met[end] = NONE
            observed.explained |= {end, ends.expected[end]}
            if ends.expected[end] != NONE:
                hearers[ends.node[stranger]].append(end)
    for node, these in hearers.items():
        name = ends.node_names[node]
        what = "a port of it that is not known" if ends.is_known[node] else "which the fabric lacks"
        wanted = listed([f"{ends.name(end)} (expected: {ends.name(ends.expected[end])})" for end in these])
        text = f"{name}, {what}, is heard at {wanted}"
        yield Cause(kind=CauseKind.STRANGER, text=text, cables=cables_of(ends, these), ports=ports_of(ends, these))


def _named(observed: Observed, end: int) -> str:
    heard = observed.hears[end]
    return "itself" if heard == end else observed.ends.name(heard)


def _groups(observed: Observed) -> Iterable[list[int]]:
    """Return the crossed ends in groups that what they hear, or should hear, joins."""
    neighbours: dict[int, set[int]] = defaultdict(set)
    for end in observed.crossed:
        for other in (observed.hears[end], observed.ends.expected[end]):
            if other != NONE:
                neighbours[end].add(other)
                neighbours[other].add(end)
    crossed, seen = set(observed.crossed), set[int]()
    for start in observed.crossed:
        if start in seen:
            continue
        group, todo = [], [start]
        seen.add(start)
        while todo:
            end = todo.pop()
            group.append(end)
            fresh = sorted(neighbours[end] - seen)
            seen.update(fresh)
            todo += fresh
        yield sorted(crossed.intersection(group))

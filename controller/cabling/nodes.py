"""Find whole nodes in the place of others: exchanged switches or hosts, exchanged datapath ids, a stranger."""

from collections import Counter

from heddle.controller.cabling.ends import NONE
from heddle.controller.cabling.observed import Observed

MAJORITY = 0.6
"""The part of a node's heard plugs that must belong to one other node."""
MIN_HEARD = 0.3
"""The part of a node's cables that must say so, lest two of the few that are heard accuse a whole switch."""
MIN_PLUGS = 2


def displaced_nodes(observed: Observed) -> list[tuple[int, ...]]:
    """Return the nodes that stand in each other's place: each in that of the next, the last in that of the first.

    The last one of a row stands in the place of a node of which nothing is heard, which is then its last member.
    """
    goes = _places(observed)
    heard = {observed.ends.node[end] for end, far in enumerate(observed.met) if far != NONE}
    rows: list[tuple[int, ...]] = []
    taken = set(goes.values())
    for start in sorted(goes, key=lambda node: (node in taken, node)):
        row = []
        at = start
        while at in goes and at not in row:
            row.append(at)
            at = goes.pop(at)
        if len(row) > 1 and at == start:
            rows.append(tuple(row))
        elif row and at not in row and at not in heard:
            rows.append((*row, at))
    return rows


def places_of_plugs(observed: Observed, row: tuple[int, ...]) -> dict[int, int]:
    """Return where the plugs of displaced nodes belong: the same numbers of the next node."""
    ends = observed.ends
    after = {node: row[(at + 1) % len(row)] for at, node in enumerate(row)}
    members = [end for end, node in enumerate(ends.node) if node in after and ends.number[end] >= 0]
    places = {end: ends.at(after[ends.node[end]], ends.number[end]) for end in members}
    observed.grow()
    return places


def _places(observed: Observed) -> dict[int, int]:
    """Return the node whose place each node takes by the majority of its plugs; no place is taken twice."""
    ends = observed.ends
    heard, cables = Counter[int](), Counter[int]()
    votes: dict[int, Counter[int]] = {}
    for end, (far, wanted, node) in enumerate(zip(observed.met, ends.expected, ends.node, strict=True)):
        cables[node] += wanted != NONE
        if far == NONE or (home := ends.expected[far]) == NONE:
            continue
        heard[node] += 1
        if home != end and ends.number[home] == ends.number[end] and ends.node[home] != node:
            votes.setdefault(node, Counter())[ends.node[home]] += 1
    goes: dict[int, int] = {}
    for node, counts in votes.items():
        place, count = max(counts.items(), key=lambda item: (item[1], -item[0]))
        if count >= max(MIN_PLUGS, MAJORITY * heard[node], MIN_HEARD * max(cables[node], cables[place])):
            goes[node] = place
    taken = Counter(goes.values())
    return {node: place for node, place in goes.items() if taken[place] == 1}

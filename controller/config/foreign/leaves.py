"""Decide which switches are leaves: those with hosts, except where the links show that a switch is above others.

A collector on a spine makes no leaf of the spine. Two switches with hosts that are linked are peers if a switch without
hosts is linked to both; else one is above the other. Which one follows from a switch without hosts that joins the same
switches; else from the number of hosts; else from hints.
"""

from collections.abc import Mapping

from heddle.controller.config.foreign.graph import Graph, Near, groups_of, halves_of
from heddle.controller.config.foreign.hints import Hint

Hints = Mapping[str, Hint | None]
_MAX_COMPARED = 64
"""How many switches below a switch are searched for another one that joins them."""


def leaves_of(graph: Graph, hints: Hints, pinned: Mapping[str, Hint]) -> set[str]:
    """Return the leaves; `pinned` decides before the structure, `hints` where it leaves a choice."""
    above = {name for name, role in pinned.items() if role.is_upper}
    leaves = {name for name in graph.near if graph.nics[name]} - above
    leaves |= {name for name, role in pinned.items() if role is Hint.LEAF and name in graph.near}
    fixed = {name for name, role in pinned.items() if role is Hint.LEAF}
    while upper := _above_others(graph, leaves, hints) - fixed:
        leaves -= upper
    return leaves - (_between_pods(graph, leaves, hints) - fixed)


def _above_others(graph: Graph, leaves: set[str], hints: Hints) -> set[str]:
    """Return the switches with hosts that are above others with hosts."""
    near = upright(graph.near, leaves, graph.near.keys() - leaves)
    found: set[str] = set()
    for group in groups_of(near):
        if len(group) == 1:
            continue
        halves = halves_of(group, near)
        found |= _hinted(group, near, hints) if halves is None else _upper_half(graph, leaves, near, hints, halves)
    return found


def upright(near: Near, names: set[str], joining: set[str]) -> dict[str, set[str]]:
    """Return the links among `names` that lead to another tier: no switch of `joining` is linked to both ends."""
    outside = {name: near[name] & joining for name in near if name in names}
    return {
        name: {other for other in near[name] if other in names and outside[name].isdisjoint(outside[other])}
        for name in outside
    }


def _upper_half(
    graph: Graph, leaves: set[str], near: Near, hints: Hints, halves: tuple[list[str], list[str]]
) -> set[str]:
    """Return the half whose switches are above those of the other; empty if nothing decides."""
    twins = [any(_has_twin(graph, leaves, near, name) for name in half) for half in halves]
    if twins[0] != twins[1]:
        return set(halves[0] if twins[0] else halves[1])
    joins = [any(len(near[name]) > 1 for name in half) for half in halves]
    hosts = [graph.among(half) / len(half) for half in halves]
    weights = [sum(_weight(hints[name]) for name in half) for half in halves]
    alone = [not any(graph.near[name] - leaves for name in half) for half in halves]
    for upper, lower in ((0, 1), (1, 0)):
        if joins[upper] and alone[lower] and 2 * hosts[upper] <= hosts[lower]:
            return set(halves[upper])
    for upper, lower in ((0, 1), (1, 0)):
        named = weights[upper] > 0 > weights[lower]
        if named or (weights[upper] > weights[lower] and joins[upper] and alone[lower]):
            return set(halves[upper])
    return set()


def _weight(hint: Hint | None) -> int:
    return 0 if hint is None else 1 if hint.is_upper else -1 if hint is Hint.LEAF else 0


def _has_twin(graph: Graph, leaves: set[str], near: Near, name: str) -> bool:
    """Return whether a switch without hosts, not linked to this one, joins the same switches and few more."""
    below = near[name]
    if len(below) < 2:
        return False
    counts: dict[str, int] = {}
    for other in sorted(below)[:_MAX_COMPARED]:
        for twin in graph.near[other]:
            if twin not in leaves and twin not in graph.near[name]:
                counts[twin] = counts.get(twin, 0) + 1
    enough = max(2, min(len(below), _MAX_COMPARED) / 2)
    return any(
        count >= enough and (len(below) > _MAX_COMPARED or 2 * count > len(graph.near[twin] & leaves))
        for twin, count in counts.items()
    )


def _hinted(group: list[str], near: Near, hints: Hints) -> set[str]:
    """Return the switches of a group without halves that hints place above, if none of them are linked."""
    upper = {name for name in group if _weight(hints[name]) > 0 and len(near[name]) > 1}
    return upper if len(upper) < len(group) and all(near[name].isdisjoint(upper) for name in upper) else set()


def _between_pods(graph: Graph, leaves: set[str], hints: Hints) -> set[str]:
    """Return the switches with hosts that are cores: they join pods, as a switch without hosts does or as hinted."""
    middle = _next_to(graph, leaves)
    some = {name for name in leaves if _weight(hints[name]) > 0}
    for other in graph.near.keys() - leaves - middle:
        shared: dict[str, int] = {}
        for joined in graph.near[other] & middle:
            for name in graph.near[joined] & leaves:
                shared[name] = shared.get(name, 0) + 1
        some |= {name for name, count in shared.items() if count > 1 and name not in graph.near[other]}
    rest = leaves - some
    if not some or 2 * graph.among(some) > graph.among(rest):
        return set()
    pod_of = pods(graph, rest, _next_to(graph, rest))
    return {name for name in some if len({pod_of[other] for other in graph.near[name] if other in pod_of}) > 1}


def _next_to(graph: Graph, leaves: set[str]) -> set[str]:
    return {other for name in leaves for other in graph.near[name]} - leaves


def pods(graph: Graph, leaves: set[str], middle: set[str]) -> dict[str, int]:
    """Return the pod of each leaf and each switch next to leaves: a group that links between the two kinds join."""
    near = {name: graph.near[name] & (middle if name in leaves else leaves) for name in (*leaves, *middle)}
    return {name: number for number, group in enumerate(groups_of(near)) for name in group}

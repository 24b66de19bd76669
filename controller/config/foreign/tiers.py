"""Assign a tier to each switch of a draft, by its structure: leaves, then what joins them, then what joins pods.

A switch without hosts that hangs on one pod, as leaves do, is an unused leaf, and no path crosses it. Links within one
tier are left out; if paths between hosts need them, the draft is refused.
"""

from heddle.controller.config.foreign.draft import Draft, DraftLink
from heddle.controller.config.foreign.fit import check_fit, usable
from heddle.controller.config.foreign.graph import Graph, groups_of, halves_of
from heddle.controller.config.foreign.hints import Hint
from heddle.controller.config.foreign.leaves import Hints, leaves_of, pods, upright
from heddle.controller.model.fabric import Role

_HIGHEST = 2
_PINNED = {Hint.LEAF: 0, Hint.SPINE: 1, Hint.CORE: 2}


def roles_of(draft: Draft) -> dict[str, Role]:
    """Return the role of every switch that is kept; remove the links and NICs that a fabric file cannot hold.

    Two tiers are leaves and spines, three are leaves, aggs and cores. Raises InputError if too much does not fit.
    """
    given = {name: switch.tier for name, switch in draft.switches.items() if switch.tier is not None}
    tier_of = given if len(given) == len(draft.switches) else _by_structure(draft)
    before = list(draft.links)
    _leave_out(draft, tier_of)
    check_fit(draft, tier_of, before)
    upper = [Role.AGG, Role.CORE] if _HIGHEST in tier_of.values() else [Role.SPINE]
    roles = [Role.LEAF, *upper]
    return {name: roles[tier_of[name]] for name in draft.switches if name in tier_of}


def _by_structure(draft: Draft) -> dict[str, int]:
    bridges = _spare_bridges(draft)
    for name in bridges:
        switch = draft.switches[name]
        what = "firewall or gateway" if switch.hint is Hint.OUTSIDE else "bridge"
        draft.leave_out(f"{what} without hosts", switch.place)
    graph = Graph(draft, bridges)
    pinned = {name: role for name, role in draft.pinned.items() if name in graph.near}
    hints = {name: draft.switches[name].hint for name in graph.near}
    leaves = leaves_of(graph, hints, pinned)
    tier_of = dict.fromkeys(leaves, 0) | {name: _PINNED[role] for name, role in pinned.items() if role in _PINNED}
    for name in leaves:
        for other in graph.near[name]:
            tier_of.setdefault(other, 1)
    for name in _below_leaves(graph, tier_of, hints) - pinned.keys():
        del tier_of[name]
    _raise_above_neighbours(graph, tier_of, hints, pinned)
    _add_third_tier(graph, tier_of, hints)
    return tier_of


def _spare_bridges(draft: Draft) -> list[str]:
    """Return the bridges and firewalls without hosts; none if they join hosts that nothing else joins."""
    hosts = {plug.switch for plug in draft.plugs}
    bridges = [
        name for name, switch in draft.switches.items() if switch.bridge and name not in hosts | draft.pinned.keys()
    ]
    if not bridges:
        return []
    parts = [
        {frozenset(hosts.intersection(group)) for group in groups_of(Graph(draft, without).near)} - {frozenset()}
        for without in ((), bridges)
    ]
    return bridges if parts[0] == parts[1] else []


def _below_leaves(graph: Graph, tier_of: dict[str, int], hints: Hints) -> set[str]:
    """Return the switches without hosts that hang below some of the leaves: named so, and another one joins more."""
    leaves = {name for name, tier in tier_of.items() if tier == 0}
    above = [name for name, tier in tier_of.items() if tier == 1]
    named = [name for name in above if hints[name] is Hint.LEAF]
    others = [graph.near[name] & leaves for name in above if hints[name] is not Hint.LEAF]
    return {name for name in named if any(graph.near[name] & leaves < joined for joined in others)}


def _raise_above_neighbours(
    graph: Graph, tier_of: dict[str, int], hints: Hints, pinned: dict[str, Hint]
) -> None:  # fmt: skip
    """Raise switches of the second tier that join others of it to the third: a leaf may hang on a core."""
    leaves = {name for name, tier in tier_of.items() if tier == 0}
    middle = {name for name, tier in tier_of.items() if tier == 1 and name not in pinned}
    near = upright(graph.near, middle, leaves)
    for group in groups_of(near):
        halves = halves_of(group, near) if len(group) > 1 else None
        if halves is not None:
            below = [graph.among({leaf for name in half for leaf in graph.near[name] & leaves}) for half in halves]
            cores = [sum(hints[name] is Hint.CORE for name in half) for half in halves]
            upper = max((0, 1), key=lambda at: (-below[at], cores[at], at))
            tier_of.update(dict.fromkeys(halves[upper], _HIGHEST))


def _add_third_tier(graph: Graph, tier_of: dict[str, int], hints: Hints) -> None:
    """Add what hangs on the second tier: cores, which join pods; else unused leaves. Then pods without hosts."""
    leaves = {name for name, tier in tier_of.items() if tier == 0}
    middle = {name for name, tier in tier_of.items() if tier == 1}
    pod_of = pods(graph, leaves, middle)
    trusted = not any(_contradicts(hints[name], tier) for name, tier in tier_of.items())
    for name in graph.near:
        joined = {pod_of[other] for other in graph.near[name] if other in middle}
        if joined and name not in tier_of:
            is_core = len(joined) > 1 or (trusted and hints[name] is Hint.CORE)
            tier_of[name] = _HIGHEST if is_core else 0
    cores = {name for name, tier in tier_of.items() if tier == _HIGHEST}
    beside = {name for name in graph.near if name not in tier_of and graph.near[name] & cores}
    for name in beside:
        is_above = hints[name] is Hint.SPINE or graph.near[name] - tier_of.keys() - beside
        tier_of[name] = 1 if is_above else 0
    for name in beside:
        if tier_of[name] == 1:
            for other in graph.near[name]:
                tier_of.setdefault(other, 0)


def _contradicts(hint: Hint | None, tier: int) -> bool:
    """Return whether a hint is wrong about a tier that the structure has shown."""
    return hint is not None and (hint.is_upper if tier == 0 else hint is Hint.LEAF)


def _leave_out(draft: Draft, tier_of: dict[str, int]) -> None:
    """Leave out switches without a tier, their links, links within one tier, and hosts above the leaves."""
    for name, switch in draft.switches.items():
        if name not in tier_of and not switch.bridge:
            draft.leave_out("switch that no path between hosts needs", switch.place)
    kept: list[DraftLink] = []
    for link in draft.links:
        if usable(link, tier_of):
            kept.append(link)
        elif link.a in tier_of and link.b in tier_of:
            draft.leave_out("link within one tier", link.place)
        else:
            draft.leave_out("link to a switch that is left out", link.place)
    draft.links = kept
    for plug in draft.plugs:
        if tier_of.get(plug.switch) != 0:
            draft.leave_out("NIC on a switch above the leaves", plug.place)

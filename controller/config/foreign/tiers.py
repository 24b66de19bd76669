"""Assign a tier to each switch of a draft: switches with hosts are leaves; each link away from a leaf is a tier up."""

from collections import deque
from collections.abc import Mapping

from heddle.controller.config.foreign.draft import Draft, DraftLink
from heddle.controller.config.text.complaint import shown
from heddle.controller.model.fabric import Role

_HIGHEST = 2


def roles_of(draft: Draft) -> dict[str, Role]:
    """Return the role of every switch with a path down to a host; remove links that a fabric file cannot hold.

    Two tiers are leaves and spines, three are leaves, aggs and cores. Raises InputError for a switch further up.
    """
    above = _neighbours(draft.links)
    tier_of = _distances(draft, above)
    for name, switch in draft.switches.items():
        if name not in tier_of:
            draft.leave_out("switch that no host is joined to", switch.place)
    draft.links = [link for link in draft.links if _goes_up(draft, tier_of, link)]
    upper = [Role.AGG, Role.CORE] if _HIGHEST in tier_of.values() else [Role.SPINE]
    roles = [Role.LEAF, *upper]
    return {name: roles[tier] for name, tier in tier_of.items()}


def _neighbours(links: list[DraftLink]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for link in links:
        found.setdefault(link.a, []).append(link.b)
        found.setdefault(link.b, []).append(link.a)
    return found


def _distances(draft: Draft, neighbours: Mapping[str, list[str]]) -> dict[str, int]:
    """Return the tier of each switch: that of the source, else the number of links to the nearest leaf."""
    tier_of = {name: switch.tier for name, switch in draft.switches.items() if switch.tier is not None}
    tier_of |= dict.fromkeys((plug.switch for plug in draft.plugs), 0)
    queue = deque(name for name, tier in tier_of.items() if tier == 0)
    while queue:
        name = queue.popleft()
        for other in neighbours.get(name, ()):
            if other in tier_of:
                continue
            tier_of[other] = tier_of[name] + 1
            if tier_of[other] > _HIGHEST:
                where = draft.switches[other].place
                draft.refuse(where, f"switch {shown(other)} is more than two links above a leaf: at most three tiers")
            queue.append(other)
    return tier_of


def _goes_up(draft: Draft, tier_of: Mapping[str, int], link: DraftLink) -> bool:
    if link.a not in tier_of or link.b not in tier_of:
        return False
    if tier_of[link.a] == tier_of[link.b]:
        draft.leave_out("link within one tier", link.place)
        return False
    return True

"""Check that what is left out of a draft is not what hosts need: the rest is refused, with the remedy."""

from collections.abc import Mapping

from heddle.controller.config.foreign.draft import Draft, DraftLink, located
from heddle.controller.config.foreign.graph import groups_of
from heddle.controller.config.text.complaint import shown

_SMALL_PART = 10
"""At most one in so many links between tiers may be left out."""
_TIERS = ("a leaf", "above leaves", "a core")
_REMEDY = "give the right roles, such as --role {name}=spine (host, leaf, spine or core)"


def usable(link: DraftLink, tier_of: Mapping[str, int]) -> bool:
    """Return whether a link joins two tiers."""
    return link.a in tier_of and link.b in tier_of and tier_of[link.a] != tier_of[link.b]


def check_fit(draft: Draft, tier_of: Mapping[str, int], links: list[DraftLink]) -> None:
    """Raise InputError if links or NICs that hosts need are left out; `links` are those of the source."""
    hosts = {plug.switch for plug in draft.plugs if tier_of.get(plug.switch) == 0}
    part_of = _parts(_rising(draft.links, tier_of, hosts), hosts)
    if len(hosts) > 1 and len(set(part_of.values())) == len(hosts):
        draft.refuse("", "no spine: hosts are on several leaves and no switch joins any two of them")
    _check_links(draft, tier_of, links)
    _check_joined(draft, part_of, links)
    above = [plug for plug in draft.plugs if tier_of.get(plug.switch) != 0]
    kept = {plug.host for plug in draft.plugs if tier_of.get(plug.switch) == 0}
    lost = {plug.host for plug in above} - kept
    if len(lost) > len(kept):
        what = f"{len(lost)} of {len(lost) + len(kept)} hosts are on switches that are above others with hosts"
        first = f"the first on {shown(above[0].switch)} at {located(draft.source, above[0].place)}"
        draft.refuse("", f"{what}, {first}; {_REMEDY.format(name=above[0].switch)}")
    draft.plugs = [plug for plug in draft.plugs if tier_of.get(plug.switch) == 0]


def _check_links(draft: Draft, tier_of: Mapping[str, int], links: list[DraftLink]) -> None:
    """Refuse if links within one tier are left out, other than between peers, which share a switch of another tier."""
    near: dict[str, set[str]] = {}
    for link in draft.links:
        near.setdefault(link.a, set()).add(link.b)
        near.setdefault(link.b, set()).add(link.a)
    none: set[str] = set()
    lost = [
        link
        for link in links
        if tier_of.get(link.a) == tier_of.get(link.b)
        and link.a in tier_of
        and link.a != link.b
        and near.get(link.a, none).isdisjoint(near.get(link.b, none))
    ]
    if lost and _SMALL_PART * len(lost) > len(lost) + len(draft.links):
        first = lost[0]
        what = f"{len(lost)} of {len(lost) + len(draft.links)} links between switches join no two tiers"
        both = f"{shown(first.a)} and {shown(first.b)} would both be {_TIERS[tier_of[first.a]]}"
        draft.refuse(first.place, f"{what}, the first here: {both}; {_REMEDY.format(name=first.a)}")


def _check_joined(draft: Draft, part_of: Mapping[str, int], links: list[DraftLink]) -> None:
    """Refuse if hosts are joined in the source and only links that are left out join them."""
    first_of: dict[int, str] = {}
    for leaf, part in _parts(links, set(part_of)).items():
        first = first_of.setdefault(part, leaf)
        if part_of[leaf] != part_of[first]:
            why = f"the links that join {shown(first)} and {shown(leaf)} fit no three tiers"
            draft.refuse(draft.switches[leaf].place, f"{why}; {_REMEDY.format(name=leaf)}")


def _rising(links: list[DraftLink], tier_of: Mapping[str, int], hosts: set[str]) -> list[DraftLink]:
    """Return the links on the ways up from leaves with hosts: a path between two hosts uses no other."""
    above, found = set(hosts), []
    for tier in (0, 1):
        for link in links:
            low, up = (link.a, link.b) if tier_of[link.a] < tier_of[link.b] else (link.b, link.a)
            if tier_of[low] == tier and low in above:
                found.append(link)
                above.add(up)
    return found


def _parts(links: list[DraftLink], hosts: set[str]) -> dict[str, int]:
    """Return the number of the connected part that each leaf with hosts is in."""
    near: dict[str, set[str]] = {name: set() for name in sorted(hosts)}
    for link in links:
        near.setdefault(link.a, set()).add(link.b)
        near.setdefault(link.b, set()).add(link.a)
    return {name: number for number, group in enumerate(groups_of(near)) for name in group if name in hosts}

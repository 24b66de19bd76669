"""The switches of a draft as a graph: which are linked, which have hosts; and groups of linked switches."""

from collections import Counter
from collections.abc import Iterable, Mapping

from heddle.controller.config.foreign.draft import Draft

Near = Mapping[str, set[str]]
"""By switch, those that it is linked to."""


class Graph:
    """The links between switches, however many run beside each other, and the NICs of each switch."""

    def __init__(self, draft: Draft, without: Iterable[str] = ()) -> None:
        """Take the switches of a draft, except those of `without`."""
        gone = set(without)
        self.near: dict[str, set[str]] = {name: set() for name in draft.switches if name not in gone}
        for link in draft.links:
            if link.a != link.b and link.a not in gone and link.b not in gone:
                self.near[link.a].add(link.b)
                self.near[link.b].add(link.a)
        self.nics = Counter(plug.switch for plug in draft.plugs)

    def among(self, names: Iterable[str]) -> int:
        """Return how many NICs the switches have."""
        return sum(self.nics[name] for name in names)


def groups_of(near: Near) -> list[list[str]]:
    """Return the connected groups of a graph, each in the order in which it is reached."""
    seen: set[str] = set()
    groups = []
    for start in near:
        if start in seen:
            continue
        seen.add(start)
        group = [start]
        for name in group:
            for other in sorted(near[name] - seen):
                seen.add(other)
                group.append(other)
        groups.append(group)
    return groups


def halves_of(group: list[str], near: Near) -> tuple[list[str], list[str]] | None:
    """Return the two halves of a group between which all its links run; None if there are none.

    The first switch is in the first half.
    """
    half = {group[0]: 0}
    for name in group:
        for other in near[name]:
            if half.setdefault(other, 1 - half[name]) == half[name]:
                return None
    return [name for name in group if half[name] == 0], [name for name in group if half[name] == 1]

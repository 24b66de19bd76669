"""Choose the wrong cables that are left out of use: all, or as many causes as the fabric can do without.

What would cut NICs off, or take too large a share of all cables, stays in use and is named: a wrong fabric file must
not stop the fabric. Causes of few cables come first: one of many is more likely a wrong file than a wrong plug.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property

from heddle.controller.model.cabling import Miscabling
from heddle.controller.model.connectivity import cut_off
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health

MAX_NAMED = 3
Cables = frozenset[str]


class Spare:
    """What a fabric can do without, beside what is out of use for other reasons."""

    def __init__(self, fabric: Fabric, health: Health, max_percent: int) -> None:
        self._fabric, self._health, self._percent = fabric, health, max_percent
        self._limit = len(fabric.cables) * max_percent // 100

    @cached_property
    def _cut_off_already(self) -> frozenset[str]:
        return frozenset(each.nic for each in cut_off(self._fabric, self._health))

    def is_harmless(self, cables: Cables) -> bool:
        """Return whether cables are few enough, and no NIC is cut off without them that was not before."""
        if not cables:
            return True
        if len(cables) > self._limit:
            return False
        without = cut_off(self._fabric, self._health.union(Health(down_cables=cables)))
        return all(each.nic in self._cut_off_already for each in without)

    def why_kept(self, cables: Cables, left_out: Cables) -> str:
        """Say why cables stay in use beside those that are left out."""
        names = sorted(cables)
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        share = f"more than {self._percent} % of all cables would be out of use"
        why = share if len(left_out | cables) > self._limit else "NICs would be cut off"
        return f"wrong cables stay in use, as {why} without them: {', '.join(names[:MAX_NAMED])}{more}"


def chosen(
    causes: Sequence[Miscabling], candidates: Cables, before: Cables, spare: Spare
) -> tuple[Cables, tuple[str, ...]]:
    """Return the cables to leave out, and a sentence for each cause whose cables stay in use.

    `before` are left out already, and come first among equals, so that no verdict undoes another.
    """
    left_out, kept = Cables(), list[str]()
    rest = list(_groups(causes, candidates, before))
    while rest:
        count = _harmless(left_out, rest, spare)
        left_out = left_out.union(*rest[:count])
        if count < len(rest):
            kept.append(spare.why_kept(rest[count], left_out))
        rest = rest[count + 1 :]
    return left_out, tuple(kept)


def _harmless(left_out: Cables, groups: Sequence[Cables], spare: Spare) -> int:
    """Return how many of the groups, from the first on, the fabric can do without: more cables never harm less."""
    if spare.is_harmless(left_out.union(*groups)):
        return len(groups)

    def harms(count: int) -> bool:
        return not spare.is_harmless(left_out.union(*groups[:count]))

    return bisect_left(range(1, len(groups) + 1), True, key=harms)


def _groups(causes: Sequence[Miscabling], candidates: Cables, before: Cables) -> Iterator[Cables]:
    """Yield the candidates by cause, fewest cables first; those of no cause come last, one by one."""
    rest = set(candidates)
    for cause in sorted(causes, key=lambda cause: (len(cause.cables), not before.issuperset(cause.cables))):
        if group := rest.intersection(cause.cables):
            rest -= group
            yield frozenset(group)
    for cable in sorted(rest):
        yield frozenset((cable,))

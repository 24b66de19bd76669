"""Build fast-failover groups: one for each choice, with the other choices as backups in rotating order."""

from collections.abc import Iterable

from heddle.controller.model.fabric import DownGroup
from heddle.controller.model.rule import GroupRule

DOWN_GROUP_BASE = 0x10000
"""Groups of parallel cables downwards are numbered from here; choice i upwards is group i + 1."""


def up_group_id(choice: int) -> int:
    """Return the group id of a choice upwards."""
    return choice + 1


def down_group_ids(groups: Iterable[DownGroup]) -> dict[tuple[int, int], int]:
    """Return the group id of each (down group, cable in it) where there are parallel cables.

    Ids depend on the fabric as built, not on its health, so that no failure renumbers them.
    """
    places = [(g, c) for g, group in enumerate(groups) if len(group.cables) > 1 for c in range(len(group.cables))]
    return {place: DOWN_GROUP_BASE + i for i, place in enumerate(places)}


def up_groups(ports: tuple[int, ...]) -> tuple[GroupRule, ...]:
    """Return a group for every choice, with all others as backups; none where there is no choice."""
    if len(ports) < 2:
        return ()
    return tuple(GroupRule(group_id=up_group_id(i), ports=_in_turn(ports, i)) for i in range(len(ports)))


def down_groups(groups: tuple[DownGroup, ...]) -> tuple[GroupRule, ...]:
    """Return a group for every cable that has parallels: itself first, then the next ones in rotating order."""
    return tuple(
        GroupRule(group_id=group_id, ports=_in_turn(tuple(cable.upper.number for cable in groups[g].cables), c))
        for (g, c), group_id in down_group_ids(groups).items()
    )


def _in_turn(ports: tuple[int, ...], first: int) -> tuple[int, ...]:
    return ports[first:] + ports[:first]

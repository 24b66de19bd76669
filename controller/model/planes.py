"""Find the planes of a fabric: the connected components of its switches. docs/contract.md, "Planes", has the rules."""

from collections.abc import Iterable


def components(switches: Iterable[str], joined: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the connected component of each switch, with the pairs that cables join.

    Components count from 0 in the order of their first switches.
    """
    near: dict[str, list[str]] = {switch: [] for switch in switches}
    for one, other in joined:
        near[one].append(other)
        near[other].append(one)
    found: dict[str, int] = {}
    count = 0
    for first in near:
        if first in found:
            continue
        found[first], waiting = count, [first]
        while waiting:
            for other in near[waiting.pop()]:
                if other not in found:
                    found[other] = count
                    waiting.append(other)
        count += 1
    return found

"""The optimal plan by exhaustive search over the paths of a few flows."""

from collections import defaultdict
from fractions import Fraction
from itertools import product


def admissible_paths(network, source, target):
    """Return every path from one leaf to another, up then down over live links, with no switch twice."""
    if source == target:
        return [()]
    leaving = defaultdict(list)
    for link in network.alive:
        leaving[network.ends[link][0]].append(link)
    found: list = []
    todo: list = [((), (source,), True)]
    while todo:
        links, places, climbing = todo.pop()
        for link in leaving[places[-1]]:
            rises, end = network.rises(link), network.ends[link][1]
            if end in places or (rises and not climbing):
                continue
            step = ((*links, link), (*places, end), rises)
            if end == target:
                found.append(step[0])
            else:
                todo.append(step)
    return found


def least_utilisation(network, flows, limit=200_000):
    """Return the minimum over all choices of the largest utilisation; None where there are more than `limit`.

    `flows` are (source leaf, target leaf, demand) that are all active at once.
    """
    choices = [admissible_paths(network, source, target) for source, target, _ in flows]
    count = 1
    for paths in choices:
        count *= len(paths)
    if not 0 < count <= limit:
        return None
    best = None
    for chosen in product(*choices):
        loads = defaultdict(int)
        for path, (_, _, demand) in zip(chosen, flows, strict=True):
            for link in path:
                loads[link] += demand
        worst = max((Fraction(load, network.capacity[link]) for link, load in loads.items()), default=Fraction(0))
        best = worst if best is None else min(best, worst)
    return best

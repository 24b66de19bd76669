"""The least utilisation of a few flows of several jobs and phases, by branch and bound over their paths."""

import math
from collections import defaultdict
from fractions import Fraction

from tests.oracles.best_plan import admissible_paths


class TooLarge(Exception):
    """The search took more steps than it may."""


def least_utilisation_in_phases(network, flows, most_steps=300_000):
    """Return the minimum over all choices of the largest utilisation; None where some flow has no path.

    `flows` are (job, phase, source leaf, target leaf, demand). The load of a link is the sum over jobs of the job's
    heaviest phase there. Raises TooLarge after `most_steps`.
    """
    routed = [(flow, admissible_paths(network, flow[2], flow[3])) for flow in flows if flow[2] != flow[3]]
    if not all(paths for _, paths in routed):
        return None
    routed.sort(key=lambda pair: (-pair[0][4], len(pair[1])))
    common = math.lcm(*(network.capacity[link] for _, paths in routed for path in paths for link in path))
    search = _Search(network, routed, common, most_steps)
    search.descend(0, 0)
    return Fraction(int(search.best), common)


class _Search:
    def __init__(self, network, routed, common, steps):
        self.routed, self.steps, self.best = routed, steps, math.inf
        self.scale = {link: common // network.capacity[link] for _, paths in routed for path in paths for link in path}
        self.phase = defaultdict(int)
        self.heaviest = defaultdict(int)
        self.load = defaultdict(int)

    def descend(self, depth, fullest):
        """Place the flows from `depth` on; `fullest` is the largest utilisation so far, times `common`."""
        if depth == len(self.routed):
            self.best = fullest
            return
        (job, phase, _, _, demand), paths = self.routed[depth]
        self.steps -= 1
        if self.steps < 0:
            raise TooLarge
        choices = []
        for path in paths:
            undo = [self._put(job, phase, link, demand) for link in path]
            choices.append((max(self.load[link] * self.scale[link] for link in path), path))
            self._take(job, phase, path, demand, undo)
        for level, path in sorted(choices):
            if max(level, fullest) >= self.best:
                return
            undo = [self._put(job, phase, link, demand) for link in path]
            self.descend(depth + 1, max(level, fullest))
            self._take(job, phase, path, demand, undo)

    def _put(self, job, phase, link, demand):
        self.phase[link, job, phase] += demand
        gain = max(0, self.phase[link, job, phase] - self.heaviest[link, job])
        self.heaviest[link, job] += gain
        self.load[link] += gain
        return gain

    def _take(self, job, phase, path, demand, undo):
        for link, gain in zip(path, undo, strict=True):
            self.phase[link, job, phase] -= demand
            self.heaviest[link, job] -= gain
            self.load[link] -= gain

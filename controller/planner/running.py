"""The running jobs as one set of columns, which follow jobs that come and go at the cost of a copy."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.jit import Flags
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.placed import Placed, is_same, placed_paths


class Running:
    """The paths of the running jobs, joined in their order."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._placed: list[Placed] = []
        self.paths = placed_paths(topology, ())

    def follow(self, kept: Sequence[Placed]) -> Paths:
        """Return the paths of the jobs in `kept`; jobs that have left are taken out, anything else is read again."""
        left = iter(enumerate(self._placed))
        stays: Flags = np.zeros(len(self._placed), dtype=np.bool_)
        for placed in kept:
            number = next((n for n, known in left if is_same(known, placed)), None)
            if number is None:
                self._read(kept)
                return self.paths
            stays[number] = True
        if not stays.all():
            paths = self.paths.rows(stays[self.paths.flows.job])
            numbers = np.cumsum(stays) - 1
            self.paths = replace(paths, flows=replace(paths.flows, job=numbers[paths.flows.job]))
        self._placed = list(kept)
        return self.paths

    def become(self, placed: Sequence[Placed], paths: Paths) -> None:
        """Take over the jobs of a plan, whose joined paths are known."""
        self._placed, self.paths = list(placed), paths

    def _read(self, kept: Sequence[Placed]) -> None:
        self._placed = list(kept)
        self.paths = placed_paths(self._topology, kept)

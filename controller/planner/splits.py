"""Split the flows of running jobs among planes again, as what these have left changes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.path_sets import job_loads
from heddle.controller.planner.ground.placed import Placed


class Splits:
    """Which tables of running jobs are split by the live links."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._live: Live | None = None
        self._split: dict[str, FlowTable] = {}

    def follow(self, kept: Sequence[Placed], live: Live) -> Sequence[Placed]:
        """Return the running jobs with demands by what planes have left; the same where nothing has changed."""
        if self._topology.ports_of_rank is None:
            return kept
        if live is not self._live:
            self._live, self._split = live, {}
        found = [self._one(placed, live) for placed in kept]
        self._split = {request.job_id: job.flows for request, job in found if isinstance(job.flows, FlowTable)}
        return found

    def _one(self, placed: Placed, live: Live) -> Placed:
        request, job = placed
        table = job.flows
        if not isinstance(table, FlowTable) or self._split.get(request.job_id) is table:
            return placed
        now = expand(self._topology, (request,), live=live)
        if np.array_equal(now.demand_bps, table.flows.demand_bps):
            return placed
        flows = replace(table.flows, demand_bps=now.demand_bps, size_bytes=now.size_bytes)
        split = table.with_paths(replace(table.paths, flows=flows))
        loads = job_loads(table.topology, flows, table.hops, table.sets)
        return request, replace(job, flows=split, link_loads_bps=loads)

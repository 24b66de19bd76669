"""Predict the utilisation of a plan for a job beside the running jobs, without ports, rates and certificate.

The paths are those of `solve`, so the prediction is what a submission of the same job would get.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import Infeasible
from heddle.controller.planner.beside import base_loads, paths_beside, priorities
from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import expand, joined_flows
from heddle.controller.planner.ground.jit import Floats
from heddle.controller.planner.ground.loads import link_loads, utilisation
from heddle.controller.planner.ground.placed import Placed, placed_paths
from heddle.controller.planner.ports.pins import refuse_taken_tuples
from heddle.controller.planner.proof.certificate import own_utilisation
from heddle.controller.planner.refusal import dead_nic, no_path, too_full
from heddle.controller.planner.route import Router


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """The largest utilisation with a job: of all links between switches, and of those that the job uses."""

    max_link_utilisation: float
    own_max_link_utilisation: float


class Forecast:
    """The running jobs, prepared for any number of predictions; `loads_bps` is their load per directed link."""

    def __init__(self, topology: Topology, *, health: Health, kept: Sequence[Placed] = ()) -> None:
        """Read the paths of the running jobs and add up their loads; `topology` may have degraded cables."""
        self._topology = topology
        self.live = Live.of(topology, health)
        self._router = Router(topology=topology, live=self.live)
        self._jobs = [request for request, _ in kept]
        self._old = placed_paths(topology, kept)
        self._running = self._old.streams(topology)
        self._base = base_loads(topology, priorities(self._jobs), self._old)
        self.loads_bps: Floats = sum((load for _, load in self._base), np.zeros(len(topology.capacity)))

    def of(self, request: JobRequest) -> Predicted | Infeasible:
        """Return the prediction for a job; raises as `solve` does."""
        topology, live, jobs = self._topology, self.live, [*self._jobs, request]
        job_ids = [job.job_id for job in jobs]
        new = expand(topology, (request,), first_job=len(self._jobs), live=live)
        refuse_taken_tuples(topology, job_ids, joined_flows((self._old.flows, new)))
        if (why := dead_nic(topology, live, job_ids, new)) is not None:
            return Infeasible(why=why)
        _, hops = paths_beside(self._router, jobs, self._old, self._running, new, base=self._base)
        if (why := no_path(topology, live, job_ids, new, hops)) is not None:
            return Infeasible(why=why)
        used = utilisation(topology, self.loads_bps + link_loads(topology, new, hops))
        if (why := self._pushed_over(used)) is not None:
            return Infeasible(why=why)
        return Predicted(
            max_link_utilisation=float(used[: topology.first_nic_link].max(initial=0.0)),
            own_max_link_utilisation=own_utilisation(topology, hops, used)[0],
        )

    def _pushed_over(self, used: Floats) -> str | None:
        """Return why a running job would newly exceed its `require_utilisation`; None where none would."""
        before = utilisation(self._topology, self.loads_bps)
        for number, job in enumerate(self._jobs):
            if job.require_utilisation > 0:
                hops = self._old.hops[self._old.flows.job == number]
                full, link = own_utilisation(self._topology, hops, used)
                if own_utilisation(self._topology, hops, before)[0] <= job.require_utilisation < full:
                    return too_full(job.job_id, job.require_utilisation, full, link, 0.0)
        return None

"""The jobs that run on a fabric with the paths that a method has chosen for them, and how fast they are."""

import numpy as np

from heddle.benchmarks.planning.events.service import Service
from heddle.controller.model.health import Health
from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import Flows, joined_flows
from heddle.controller.planner.ground.jit import Floats, Ints
from heddle.controller.planner.ground.loads import link_loads, utilisation
from heddle.controller.planner.proof.fluid import completion_ns, planned_rates
from heddle.controller.planner.route import Router


class Running:
    """The flows and hops of each running job, by its id."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.live = Live.of(topology, Health())
        self.jobs: dict[str, tuple[Flows, Ints]] = {}

    def follow(self, service: Service) -> None:
        """Take over the jobs and paths of the service."""
        self.jobs = {job_id: (table.flows, table.hops) for job_id, table in service.tables().items()}

    def route(self, flows: Flows, base: Floats | None = None) -> Ints:
        """Return paths of the full planner for these flows beside a load in bit/s per link."""
        priority, bundle = np.zeros(len(flows), dtype=np.int64), np.full(len(flows), -1, dtype=np.int64)
        others = [] if base is None else [(0, base)]
        return Router(topology=self.topology, live=self.live).route(flows, priority, others, bundle, {})

    def flows(self) -> Flows:
        return joined_flows([flows.as_job(number) for number, (flows, _) in enumerate(self.jobs.values())])

    def hops(self) -> Ints:
        return np.concatenate([hops for _, hops in self.jobs.values()])

    def loads(self) -> Floats:
        return link_loads(self.topology, self.flows(), self.hops())

    def plan_again(self) -> int:
        """Plan every flow again; return how many that had a path got another one."""
        hops, begin, moved = self.route(self.flows()), 0, 0
        for name, (flows, old) in list(self.jobs.items()):
            mine = hops[begin : begin + len(flows)]
            self.jobs[name], begin = (flows, mine), begin + len(flows)
            moved += int(((mine != old).any(axis=1) & (old[:, 0] >= 0)).sum())
        return moved

    def figures(self) -> tuple[float, float]:
        """Return the fullest link and the mean speed of the jobs.

        The speed of a job is its predicted time at full demand over that at its max-min fair rates.
        """
        flows, loads = self.flows(), self.loads()
        rates = planned_rates(self.topology, flows, self.hops(), loads)
        ends = np.cumsum([len(own) for own, _ in self.jobs.values()])
        shares = np.split(rates, ends[:-1])
        speeds = [_speed(own, mine) for (own, _), mine in zip(self.jobs.values(), shares, strict=True)]
        full = utilisation(self.topology, loads)[: self.topology.first_nic_link]
        return float(full.max(initial=0.0)), float(np.mean(speeds))


def _speed(flows: Flows, rates: Ints) -> float:
    slow = completion_ns(flows, rates)
    return completion_ns(flows, flows.demand_bps) / slow if slow else 1.0

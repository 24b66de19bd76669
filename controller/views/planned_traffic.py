"""Compare what telemetry measures with what jobs may send: the planned flows of a link, and the traffic beside them.

A full link carries no more than its capacity, so traffic of no job shows there in what the planned senders do not get
through. What their NICs send less than planned therefore counts as such traffic, as far as NICs send more than planned.
What a NIC sends beyond its plan is of its flows that may do so (`work_conserving`), in the proportion of their rates.
"""

from collections.abc import Mapping

import numpy as np

from heddle.controller.brain.state import Job, State
from heddle.controller.model.event import FlowsOfJob, HotLink
from heddle.controller.model.plan import JobFlows
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.loads import heaviest_phases
from heddle.controller.planner.ground.placed import placed_paths

MIN_OVER = 0.02
"""A NIC sends more than planned from this share of its rate on: less is ACKs and headers."""
MAX_NAMED = 3
"""The number of flows of a job that are named."""


class PlannedTraffic:
    """The planned flows of all jobs beside the measured utilisation of links by id."""

    def __init__(self, state: State, measured: Mapping[str, float]) -> None:
        self._measured, self._jobs = measured, list(state.jobs.values())
        self._topology = topology = topology_of(state.fabric)
        self._paths = placed_paths(topology, [(job.request, job.flows) for job in self._jobs])
        flows = self._paths.flows
        self._rates = np.concatenate([np.empty(0), *(_mean_rates(job.flows) for job in self._jobs)])
        self._planned_bps = heaviest_phases(flows, flows.src_nic[:, None], topology.nics, self._rates)
        used = [measured.get(nic.up_link, np.nan) for nic in state.fabric.nics]
        self._sent_bps: Floats = np.array(used) * topology.nic_capacity  # nan: not measured
        more_bps = np.nan_to_num(self._sent_bps) - self._planned_bps
        more_bps[more_bps <= MIN_OVER * topology.nic_capacity] = 0.0
        may_exceed = np.concatenate([np.empty(0, np.bool_), *(_conserving(job.flows) for job in self._jobs)])
        self._exceeding_bps = _parts(flows.src_nic, np.where(may_exceed, self._rates, 0.0), more_bps)
        self._over_bps = np.where(_has_any(flows.src_nic, may_exceed, topology.nics), 0.0, more_bps)

    def over(self) -> tuple[tuple[str, int], ...]:
        """Return the NICs that send more than planned, and by how much in bit/s; those that send most first."""
        loud = np.flatnonzero(self._over_bps)
        order = loud[np.argsort(-self._over_bps[loud], kind="stable")].tolist()
        return tuple((self._topology.nic_ids[nic], round(self._over_bps[nic])) for nic in order)

    def link(self, link: str, priority: int | None = None) -> HotLink:
        """Return a measured link with its planned flows, and the traffic of no job."""
        number, topology = self._topology.link_index[link], self._topology
        rows = self._rows(number)
        here, rates = self._paths.flows.rows(rows), self._rates[rows]
        planned_bps = heaviest_phases(here, np.zeros((len(rows), 1), dtype=np.int64), 1, rates)[0]
        of_nics = heaviest_phases(here, here.src_nic[:, None], topology.nics, rates)
        missing_bps = np.minimum(of_nics, np.nan_to_num(np.maximum(self._planned_bps - self._sent_bps, 0.0))).sum()
        measured_bps = self._measured[link] * float(topology.capacity[number])
        beyond_bps = measured_bps - planned_bps - self._exceeding_bps[rows].sum()
        hidden_bps = min(beyond_bps + missing_bps, self._over_bps.sum())
        return HotLink(
            port=link.partition(">")[0],
            link=link,
            priority=priority,
            measured_bps=round(measured_bps),
            planned_bps=round(planned_bps),
            excess_bps=round(max(0.0, beyond_bps, hidden_bps)),
            senders=len(np.unique(here.src_nic)),
            jobs=self._named(rows),
        )

    def _rows(self, number: int) -> Ints:
        """Return the flows over a link between switches, or into a NIC."""
        into = number - self._topology.first_nic_link - self._topology.nics
        return np.flatnonzero(self._paths.flows.dst_nic == into if into >= 0 else (self._paths.hops == number).any(1))

    def _named(self, rows: Ints) -> tuple[FlowsOfJob, ...]:
        of_job = self._paths.flows.job
        jobs, first = np.unique(of_job[rows], return_index=True)
        parts = zip(jobs.tolist(), np.split(rows, first[1:]) if len(rows) else (), strict=True)
        return tuple(_flows_of(self._jobs[job], mine - int(np.searchsorted(of_job, job))) for job, mine in parts)


def _flows_of(job: Job, rows: Ints) -> FlowsOfJob:
    """Return some of a job's flows with the names of the first."""
    names = tuple(job.flows.flows[row].flow_id for row in rows[:MAX_NAMED].tolist())
    return FlowsOfJob(job.request.job_id, len(rows), names)


def _mean_rates(flows: JobFlows) -> Floats:
    """Return the planned rate of each flow in bit/s, on average over its turns."""
    table = flows.flows
    if isinstance(table, FlowTable):
        slots = table.turns.slots if table.turns is not None else 1
        return (table.rates / np.maximum(slots, 1)).astype(np.float64)
    return np.array([flow.rate_bps / max(1, flow.window.slots) for flow in table], dtype=np.float64)


def _has_any(nic: Ints, chosen: Flags, nics: int) -> Flags:
    """Return for each NIC whether it sends one of the chosen flows."""
    found: Flags = np.bincount(nic[chosen], minlength=nics) > 0
    return found


def _parts(nic: Ints, weights: Floats, of_nics: Floats) -> Floats:
    """Return the part of each flow in a quantity of its NIC, in the proportion of the weights."""
    sums = np.bincount(nic, weights, minlength=len(of_nics))[nic]
    return np.divide(weights * of_nics[nic], sums, out=np.zeros(len(nic)), where=sums > 0)


def _conserving(flows: JobFlows) -> Flags:
    """Return for each flow whether it may send as fast as its NIC."""
    table = flows.flows
    if isinstance(table, FlowTable):
        return table.conserving if table.conserving is not None else np.zeros(len(table), dtype=np.bool_)
    return np.array([flow.work_conserving for flow in table], dtype=np.bool_)

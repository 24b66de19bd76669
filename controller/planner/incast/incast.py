"""Confine incasts: route the senders that together overload one NIC over as few top switches as possible.

All their packets queue at the receiver's port anyway, so spreading them gains nothing and fills queues on every spine.
After routing, the flows of each incast move onto the fewest tops, preferring those that bystanders use least, as long
as no figure of the plan gets worse: the largest utilisation of each priority, each job's `require_utilisation`, and
links within their rate stay within it. Work is limited in steps. Flows that must follow a pin's path do not move.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from heddle.controller.model.job import JobRequest
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows, joined_flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.loads import heaviest_phases, layers_of
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.segments import Net
from heddle.controller.planner.incast.confinement import confine, grouped, top_of_paths, with_senders
from heddle.controller.planner.proof.fluid import INCAST_HEADROOM
from heddle.controller.planner.route import Router

MAX_TRIES = 4_000_000
"""The limit of trials of a flow on a top switch, some tenths of a second in all."""
MAX_FAILURES = 16
"""The number of consecutive incasts without a move after which the rest of their set is skipped as similar."""
MAX_SETS = 64
"""The limit of sets of concurrent flows that are handled: the one-phase jobs of a priority, or a phase of a job."""


def crowded_nics(topology: Topology, flows: Flows) -> Flags:
    """Return the NICs to which two or more senders together send more than 0.95 of the NIC's rate."""
    several = with_senders(flows.src_nic, flows.dst_nic, topology.nics)
    if not several.any():
        return several
    entering = heaviest_phases(flows, flows.dst_nic[:, None], topology.nics)
    return several & (entering > INCAST_HEADROOM * topology.nic_capacity.astype(np.float64))


class _Set(NamedTuple):
    """Rows of flows that run at the same time, their priority, and their job if it has other phases (else -1)."""

    rows: Ints
    level: int
    job: int


def confined(
    router: Router, jobs: Sequence[JobRequest], old: Paths, new: Flows, hops: Ints, bundle: Ints
) -> Ints:  # fmt: skip
    """Return the hops of the new flows with incasts on as few tops as the figures of the plan allow.

    Returns the same `hops` where no flow moves. `bundle` is -1 for a flow that shares no path.
    """
    topology = router.topology
    crowded_now = crowded_nics(topology, joined_flows((old.flows, new)))
    if not crowded_now.any() or not (crowded_now[new.dst_nic] & (hops[:, 0] >= 0)).any():
        return hops
    if crowded_now.sum() > MAX_FAILURES and crowded_now[new.dst_nic].all() and crowded_now[old.flows.dst_nic].all():
        return hops  # every NIC receives from many, as in an all-to-all: there are no bystanders
    whole = _Whole(topology, jobs, old, new, hops)
    segments, tries = router.segments, MAX_TRIES
    net = Net(
        segments.start, segments.first, segments.second, segments.top, segments.middle, segments.below,
        segments.below_row, topology.cables,
    )  # fmt: skip
    for part in islice(_sets(whole, len(old.flows)), MAX_SETS):
        # Jobs of lower priority take capacity, but they do not make an incast of what is none without them.
        higher = np.flatnonzero(whole.priority >= part.level)
        alone = len(higher) < len(whole.flows)
        full = crowded_nics(topology, whole.flows.rows(higher)) if alone else crowded_now
        members = part.rows[full[whole.flows.dst_nic[part.rows]] & (whole.hops[part.rows, 0] >= 0)]
        mine = members[members >= len(old.flows)] - len(old.flows)
        if not len(mine) or tries <= 0:
            continue
        fixed = np.ones(len(whole.flows), dtype=np.bool_)
        fixed[mine + len(old.flows)] = bundle[mine] >= 0
        rows, begin = _by_receiver(whole.flows, members, fixed)
        shy = _bystanders(whole, higher[~full[whole.flows.dst_nic[higher]]])
        tries = confine(
            net, whole.room(part), topology.nic_leaf[whole.flows.src_nic], topology.nic_leaf[whole.flows.dst_nic],
            whole.flows.demand_bps.astype(np.float64), whole.hops, topology.upper, rows, begin, shy, tries,
            MAX_FAILURES,
        )  # fmt: skip
    moved = whole.hops[len(old.flows) :]
    return hops if np.array_equal(moved, hops) else moved


class _Whole:
    """The flows of running and new jobs with their paths, of which those of new jobs may still change."""

    def __init__(self, topology: Topology, jobs: Sequence[JobRequest], old: Paths, new: Flows, hops: Ints) -> None:
        self.topology, self.jobs, self.flows = topology, jobs, joined_flows((old.flows, new))
        self.hops = np.concatenate((old.hops, hops))
        self.priority = np.array([job.priority for job in jobs], dtype=np.int64)[self.flows.job]
        self.layers = layers_of(self.flows)
        self.levels = sorted({job.priority for job in jobs}, reverse=True)

    def load_of(self, rows: Ints | Flags) -> Floats:
        """Return the load of some of the flows on the links between switches."""
        if len(rows) == len(self.flows) and (rows.dtype != np.bool_ or rows.all()):
            return heaviest_phases(self.flows, self.hops, self.topology.first_nic_link)
        return heaviest_phases(self.flows.rows(rows), self.hops[rows], self.topology.first_nic_link)

    def room(self, part: _Set) -> Floats:
        """Return the traffic that the flows of a set may add to each link without making a figure of the plan worse."""
        links = self.topology.first_nic_link
        capacity = self.topology.capacity[:links].astype(np.float64)
        present, load, idle = self.load_of(part.rows), np.zeros(links), np.zeros(links)
        if part.job >= 0:
            mine = np.flatnonzero(self.flows.job == part.job)
            idle = self.load_of(mine)  # the heaviest phase of the job takes its capacity in any case
        taken, room = np.maximum(present, idle), np.full(links, np.inf)
        for level in self.levels:
            whole = level == part.level and len(part.rows) == len(self.flows)
            own = present.copy() if whole else self.load_of(self.priority == level)
            load += own
            if level <= part.level:
                figure = float((load[own > 0] / capacity[own > 0]).max(initial=0.0))
                limit = np.minimum(figure * capacity, np.maximum(min(figure, 1.0) * capacity, load))
                bound = (own > 0) | (level == part.level)
                room = np.where(bound, np.minimum(room, limit - load + taken), room)
        found: Floats = np.floor(np.minimum(room, self._required(part, load) - load + taken) + 2.0**-8) - present
        return found

    def _required(self, part: _Set, load: Floats) -> Floats:
        """Return the load limit of each link from the `require_utilisation` of jobs that use or may use it."""
        limits, capacity = np.full(len(load), np.inf), self.topology.capacity[: len(load)]
        for number, job in enumerate(self.jobs):
            if job.require_utilisation > 0:
                comes = bool((self.flows.job[part.rows] == number).any())
                used = self.load_of(self.flows.job == number) > 0
                limit = job.require_utilisation * capacity
                kept = np.where(used, np.maximum(limit, load), limit)
                limits = np.where(used | comes, np.minimum(limits, kept), limits)
        return limits


def _sets(whole: _Whole, first_new: int) -> Iterator[_Set]:
    """Yield sets of concurrent flows, some of them new: the one-phase jobs of a priority, or one phase of a job."""
    phases = np.bincount(whole.layers.job, minlength=len(whole.jobs))
    simple = phases[whole.flows.job] == 1
    for level in whole.levels:
        here = whole.priority == level
        if (here & simple)[first_new:].any():
            yield _Set(np.flatnonzero(here & simple), level, -1)
        for layer in np.unique(whole.layers.of_flow[first_new:][(here & ~simple)[first_new:]]).tolist():
            yield _Set(np.flatnonzero(whole.layers.of_flow == layer), level, int(whole.layers.job[layer]))


def _by_receiver(flows: Flows, members: Ints, fixed: Flags) -> tuple[Ints, Ints]:
    """Sort flows by receiver, the one with the largest demand first, each one's `fixed` flows last, then by demand.

    Returns them and where each of these groups, two per receiver, begins.
    """
    wanted = np.bincount(flows.dst_nic[members], weights=flows.demand_bps[members])
    receivers = np.argsort(-wanted, kind="stable")[: int((wanted > 0).sum())]
    group = np.full(len(wanted), -2, dtype=np.int64)
    group[receivers] = 2 * np.arange(len(receivers), dtype=np.int64)
    falling = members[np.argsort(-flows.demand_bps[members], kind="stable")]
    return grouped(falling, group[flows.dst_nic[falling]] + fixed[falling], 2 * len(receivers))


def _bystanders(whole: _Whole, rows: Ints) -> Floats:
    """Return the demand of these flows over each top switch."""
    top = top_of_paths(whole.hops[rows], whole.topology.upper)
    weights = whole.flows.demand_bps[rows][top >= 0].astype(np.float64)
    return np.bincount(top[top >= 0], weights=weights, minlength=len(whole.topology.switch_ids)).astype(np.float64)

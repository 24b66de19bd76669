"""Incast: senders that together ask one NIC for more than it takes are led over as few top switches as possible.

Whatever they send meets at the receiver's port in the end, so spreading them wins nothing and fills queues on every
spine. After routing, each incast's flows are moved onto the fewest tops, those first that bystanders use least, while
no figure of the plan gets worse: no priority's largest utilisation, no job's `require_utilisation`, and no link that
was within its rate goes over it. Work is limited in steps. Flows that are bound to a pin's path stay where they are.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from controller.model.job import JobRequest
from controller.planner.clos import Topology
from controller.planner.expand import Flows, joined
from controller.planner.incast.confinement import confine, crowded, grouped, top_of_paths
from controller.planner.jit import Flags, Floats, Ints
from controller.planner.placed import Paths
from controller.planner.proof.fluid import INCAST_HEADROOM
from controller.planner.proof.loads import heaviest_phases, layers_of
from controller.planner.route import Router
from controller.planner.search.segments import Net

MAX_TRIES = 4_000_000
"""So often in all a flow is tried on a top: some tenths of a second."""
MAX_FAILURES = 16
"""After so many incasts in a row that stay as they are the rest of their set does too: one is like the next."""
MAX_SETS = 64
"""So many sets of flows that meet (the jobs of one phase of a priority; each phase of another job) are looked at."""


def crowded_nics(topology: Topology, flows: Flows) -> Flags:
    """Return which NICs are asked for more than 0.95 of their rate by two senders or more."""
    asked = heaviest_phases(flows, flows.dst_nic[:, None], topology.nics)
    return crowded(flows.src_nic, flows.dst_nic, asked, INCAST_HEADROOM * topology.nic_capacity.astype(np.float64))


class _Set(NamedTuple):
    """Rows of flows that meet one another, their priority, and the job where it has further phases (else -1)."""

    rows: Ints
    level: int
    job: int


def confined(
    router: Router, jobs: Sequence[JobRequest], old: Paths, new: Flows, hops: Ints, bundle: Ints
) -> Ints:  # fmt: skip
    """Return the new flows' hops with incasts on as few tops as no figure of the plan suffers from.

    These are the same `hops` where nothing moves. `bundle` is -1 for a flow that goes its own way.
    """
    topology = router.topology
    everyone = crowded_nics(topology, joined((old.flows, new)))
    if not everyone.any() or not (everyone[new.dst_nic] & (hops[:, 0] >= 0)).any():
        return hops
    if everyone.sum() > MAX_FAILURES and everyone[new.dst_nic].all() and everyone[old.flows.dst_nic].all():
        return hops  # everyone receives from many, as in an all-to-all: there is no bystander to spare
    whole = _Whole(topology, jobs, old, new, hops)
    segments, tries = router.segments, MAX_TRIES
    net = Net(
        segments.start, segments.first, segments.second, segments.top, segments.middle, segments.below,
        segments.below_row, topology.cables,
    )  # fmt: skip
    for part in islice(_sets(whole, len(old.flows)), MAX_SETS):
        # Lower jobs may take room, but they do not make an incast of what would be none without them.
        betters = np.flatnonzero(whole.priority >= part.level)
        alone = len(betters) < len(whole.flows)
        full = crowded_nics(topology, whole.flows.rows(betters)) if alone else everyone
        members = part.rows[full[whole.flows.dst_nic[part.rows]] & (whole.hops[part.rows, 0] >= 0)]
        mine = members[members >= len(old.flows)] - len(old.flows)
        if not len(mine) or tries <= 0:
            continue
        rows, begin = _by_receiver(whole.flows, members)
        shy = _bystanders(whole, betters[~full[whole.flows.dst_nic[betters]]])
        free = np.zeros(len(whole.flows), dtype=np.bool_)
        free[mine + len(old.flows)] = bundle[mine] < 0
        tries = confine(
            net, whole.room(part), topology.nic_leaf[whole.flows.src_nic], topology.nic_leaf[whole.flows.dst_nic],
            whole.flows.demand_bps.astype(np.float64), whole.hops, topology.upper, free, rows, begin, shy, tries,
            MAX_FAILURES,
        )  # fmt: skip
    moved = whole.hops[len(old.flows) :]
    return hops if np.array_equal(moved, hops) else moved


class _Whole:
    """Running jobs' flows and new ones together, with paths of which the new ones' may still change."""

    def __init__(self, topology: Topology, jobs: Sequence[JobRequest], old: Paths, new: Flows, hops: Ints) -> None:
        self.topology, self.jobs, self.flows = topology, jobs, joined((old.flows, new))
        self.hops = np.concatenate((old.hops, hops))
        self.priority = np.array([job.priority for job in jobs], dtype=np.int64)[self.flows.job]
        self.layers = layers_of(self.flows)
        self.levels = sorted({job.priority for job in jobs}, reverse=True)

    def load_of(self, rows: Ints | Flags) -> Floats:
        """Return what some of the flows put on switch-to-switch links."""
        if len(rows) == len(self.flows) and (rows.dtype != np.bool_ or rows.all()):
            return heaviest_phases(self.flows, self.hops, self.topology.first_nic_link)
        return heaviest_phases(self.flows.rows(rows), self.hops[rows], self.topology.first_nic_link)

    def room(self, part: _Set) -> Floats:
        """Return how much more the flows of a set may put on each link, for all that the plan's figures say."""
        links = self.topology.first_nic_link
        capacity = self.topology.capacity[:links].astype(np.float64)
        now, load, idle = self.load_of(part.rows), np.zeros(links), np.zeros(links)
        if part.job >= 0:
            mine = np.flatnonzero(self.flows.job == part.job)
            idle = self.load_of(mine)  # while a job's heaviest phase is another, its place is taken all the same
        taken, room = np.maximum(now, idle), np.full(links, np.inf)
        for level in self.levels:
            own = now.copy() if len(part.rows) == len(self.flows) else self.load_of(self.priority == level)
            load += own
            if level <= part.level:
                figure = float((load[own > 0] / capacity[own > 0]).max(initial=0.0))
                most = np.minimum(figure * capacity, np.maximum(min(figure, 1.0) * capacity, load))
                bound = (own > 0) | (level == part.level)
                room = np.where(bound, np.minimum(room, most - load + taken), room)
        return np.floor(np.minimum(room, self._required(part, load) - load + taken) + 2.0**-8) - now

    def _required(self, part: _Set, load: Floats) -> Floats:
        """Return what each link may carry for the `require_utilisation` of jobs that are on it or may come."""
        most, capacity = np.full(len(load), np.inf), self.topology.capacity[: len(load)]
        for number, job in enumerate(self.jobs):
            if job.require_utilisation > 0:
                comes = bool((self.flows.job[part.rows] == number).any())
                used = self.load_of(self.flows.job == number) > 0
                limit = job.require_utilisation * capacity
                kept = np.where(used, np.maximum(limit, load), limit)
                most = np.where(used | comes, np.minimum(most, kept), most)
        return most


def _sets(whole: _Whole, first_new: int) -> Iterator[_Set]:
    """Yield sets of flows that meet, some of them new: the jobs of one phase of a priority, or another job's phase."""
    phases = np.bincount(whole.layers.job, minlength=len(whole.jobs))
    simple = phases[whole.flows.job] == 1
    for level in whole.levels:
        here = whole.priority == level
        if (here & simple)[first_new:].any():
            yield _Set(np.flatnonzero(here & simple), level, -1)
        for layer in np.unique(whole.layers.of_flow[first_new:][(here & ~simple)[first_new:]]).tolist():
            yield _Set(np.flatnonzero(whole.layers.of_flow == layer), level, int(whole.layers.job[layer]))


def _by_receiver(flows: Flows, members: Ints) -> tuple[Ints, Ints]:
    """Sort flows by receiver, the one that is asked for most first; return them and where each receiver's begin."""
    asked = np.bincount(flows.dst_nic[members], weights=flows.demand_bps[members])
    receivers = np.argsort(-asked, kind="stable")[: int((asked > 0).sum())]
    place = np.full(len(asked), -1, dtype=np.int64)
    place[receivers] = np.arange(len(receivers), dtype=np.int64)
    return grouped(members, place[flows.dst_nic[members]], len(receivers))


def _bystanders(whole: _Whole, rows: Ints) -> Floats:
    """Return what these flows ask of each top switch."""
    top = top_of_paths(whole.hops[rows], whole.topology.upper)
    weights = whole.flows.demand_bps[rows][top >= 0].astype(np.float64)
    return np.bincount(top[top >= 0], weights=weights, minlength=len(whole.topology.switch_ids)).astype(np.float64)

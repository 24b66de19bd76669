"""Keep the loads of links under ECMP and E-ECMP as jobs come and go and links fail and return.

The path of a queue pair depends on the pair and on the live segments of its two leaves alone, and loads are whole
numbers of bit/s. So the loads after any changes are exactly those of all jobs computed again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heddle.controller.model.job import JobRequest
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, Rows
from heddle.controller.planner.ground.segments import Segments
from heddle.controller.planner.proof.ecmp import HASHED, SEEDS, Hashing, Signed, capacities, name_of, queue_pairs

KINDS = range(2)
"""ECMP, E-ECMP."""


class _Job(NamedTuple):
    """A job whose loads are entered: its queue pairs by kind, its leaves, and whether it has several phases."""

    request: JobRequest
    pairs: tuple[Rows, Rows]
    leaves: Ints
    phased: bool
    demand_bps: Ints


class HashedLoads:
    """The loads of all links, a row per kind and seed, and the jobs that they are of."""

    def __init__(self, topology: Topology) -> None:
        self._topology, capacity = topology, capacities(topology)
        self._loads: Floats = np.zeros((len(KINDS) * SEEDS, len(capacity)))
        values = np.unique(capacity).tolist()
        # Links of one capacity are divided once; of a whole table, a slice makes no copy.
        self._alike = [
            (value, slice(None) if len(values) == 1 else np.flatnonzero(capacity == value)) for value in values
        ]
        self._jobs: dict[str, _Job] = {}
        self._entered = 0
        self._segments: Segments | None = None
        self._hashing: Hashing | None = None

    def figures(self, segments: Segments, jobs: Sequence[JobRequest], flows: Flows) -> tuple[float, float]:
        """Return what `ecmp_figures` does for the flows of `jobs` over these segments."""
        self._follow(segments, jobs, flows)
        by_capacity = (self._loads[:, links].max(axis=1) / capacity for capacity, links in self._alike)
        worst = np.maximum.reduce([np.zeros(len(self._loads)), *by_capacity])
        ecmp, e_ecmp = np.median(worst.reshape(len(KINDS), SEEDS), axis=1).tolist()
        return ecmp, e_ecmp

    def _follow(self, segments: Segments, jobs: Sequence[JobRequest], flows: Flows) -> None:
        """Remove what has left or takes other paths now, and add what is new."""
        places = {request.job_id: number for number, request in enumerate(jobs)}
        begins = np.searchsorted(flows.job, np.arange(len(jobs) + 1)).tolist()
        stays = {name: job for name, job in self._jobs.items() if name in places and jobs[places[name]] is job.request}
        if self._topology.ports_of_rank is not None:  # demands follow what planes have left
            demands = {name: flows.demand_bps[slice(*begins[places[name] : places[name] + 2])] for name in stays}
            stays = {name: job for name, job in stays.items() if np.array_equal(job.demand_bps, demands[name])}
        gone = [job.pairs for name, job in self._jobs.items() if name not in stays]
        again = self._disturbed(segments, list(stays.values()))
        self._enter([*gone, *again], -1)
        if segments is not self._segments:
            self._segments, self._hashing = segments, Hashing.of(self._topology, segments)
        new = {
            name: self._job(jobs[number], flows.rows(slice(begins[number], begins[number + 1])))
            for name, number in places.items()
            if name not in stays
        }
        self._enter([*again, *(job.pairs for job in new.values())], 1)
        self._jobs = stays | new

    def _job(self, request: JobRequest, flows: Flows) -> _Job:
        pairs = queue_pairs(self._topology, flows.as_job(0), (name_of(request.job_id),))
        self._entered += 1
        for rows in pairs:
            rows["job"] = self._entered
        leaves = np.unique((pairs[0]["source"], pairs[0]["target"]))
        return _Job(request, pairs, leaves, bool((flows.phase != flows.phase[:1]).any()), flows.demand_bps)

    def _disturbed(self, segments: Segments, jobs: Sequence[_Job]) -> list[tuple[Rows, Rows]]:
        """Return the queue pairs whose paths other segments may change; whole jobs where these have several phases."""
        if self._segments is None or segments is self._segments:
            return []
        changed = _changed(self._segments, segments)
        found = []
        for job in jobs if changed.any() else ():
            if changed[job.leaves].any():
                one, many = (changed[rows["source"]] | changed[rows["target"]] for rows in job.pairs)
                found.append(job.pairs if job.phased else (job.pairs[0][one], job.pairs[1][many]))
        return found

    def _enter(self, parts: Sequence[tuple[Rows, Rows]], sign: int) -> None:
        """Add queue pairs to the loads, or with `sign` -1 remove them."""
        for kind in KINDS if parts else ():
            rows = Signed.of(np.concatenate([np.empty(0, dtype=HASHED), *(pairs[kind] for pairs in parts)]), sign)
            assert self._hashing is not None
            for seed in range(SEEDS * kind, SEEDS * kind + SEEDS):
                self._hashing.add(rows, seed, self._loads[seed])


def _changed(before: Segments, after: Segments) -> Flags:
    """Return whether the segments of each switch differ."""
    earlier, later = np.diff(before.start), np.diff(after.start)
    changed: Flags = earlier != later
    leaf = np.repeat(np.arange(len(later)), later)
    rows = np.flatnonzero(~changed[leaf])
    old = rows - after.start[leaf[rows]] + before.start[leaf[rows]]
    for name in ("first", "second", "top", "middle"):
        differs = getattr(before, name)[old] != getattr(after, name)[rows]
        changed[leaf[rows[differs]]] = True
    return changed

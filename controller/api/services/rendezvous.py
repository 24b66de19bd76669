"""Serve the rendezvous of a job's nodes: each registers its NICs, and gets those of all once the last has registered.

Nothing of it survives a restart of the controller: nodes that wait call again, and a job whose nodes have met is
released by its lease where the last to leave is no longer known.
"""

import asyncio
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from heddle.controller.model.admission import is_job_id, quoted
from heddle.controller.model.error import AlreadyExistsError, BudgetExceededError, InputError
from heddle.controller.model.limit import MAX_REQUEST_RANKS

MAX_NODES = 65_536
MAX_RANKS = 1_048_576
"""Of all jobs whose nodes are registered; beyond, jobs whose nodes have met are forgotten, the oldest first."""

Nics = tuple[str, ...]


class Met(NamedTuple):
    """What a node learns: the NICs of all ranks, its own first rank, and whether it was the last to arrive."""

    nics: Nics
    first_rank: int
    last_arrival: bool


@dataclass(slots=True)
class _Gathering:
    node_count: int
    nodes: dict[int, Nics] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)
    calls: Counter[int] = field(default_factory=Counter)
    """Calls that wait, by node: a node that lost its connection calls again before its first call is seen to end."""
    complete: asyncio.Event = field(default_factory=asyncio.Event)


class Rendezvous:
    """The registered nodes of jobs, used from one event loop."""

    def __init__(self, max_ranks: int = MAX_RANKS) -> None:
        self._max_ranks = max_ranks
        self._jobs: OrderedDict[str, _Gathering] = OrderedDict()
        self._ranks = 0

    async def join(self, job_id: str, node_rank: int, node_count: int, nics: Nics) -> Met:
        """Register a node and wait for all others; a wait that is cancelled withdraws it. Raises HeddleErrors."""
        _check(job_id, node_rank, node_count, nics)
        job = self._gathering(job_id, node_rank, node_count, nics)
        known = node_rank in job.nodes
        job.left.discard(node_rank)
        if not known:
            self._make_room(len(nics), job)
            job.nodes[node_rank] = nics
            self._ranks += len(nics)
        last_arrival = not known and len(job.nodes) == node_count
        if last_arrival:
            job.complete.set()
        job.calls[node_rank] += 1
        try:
            await job.complete.wait()
        finally:
            job.calls[node_rank] -= 1
            self._withdraw(job_id, job, node_rank)
        all_nics = tuple(nic for rank in range(node_count) for nic in job.nodes[rank])
        return Met(all_nics, sum(len(job.nodes[rank]) for rank in range(node_rank)), last_arrival)

    def leave(self, job_id: str, node_rank: int) -> bool:
        """Note that a node has ended; return whether it is the last of a job whose nodes have met."""
        job = self._jobs.get(job_id)
        if job is None or not job.complete.is_set() or node_rank not in job.nodes:
            return False
        job.left.add(node_rank)
        if len(job.left) < job.node_count:
            return False
        self._forget(job_id)
        return True

    def _gathering(self, job_id: str, node_rank: int, node_count: int, nics: Nics) -> _Gathering:
        job = self._jobs.get(job_id)
        if (
            job is not None
            and job.complete.is_set()
            and (job.node_count, job.nodes.get(node_rank)) != (node_count, nics)
        ):
            # A new run under an old id, whose nodes were killed before they left.
            self._forget(job_id)
            job = None
        if job is None:
            job = self._jobs[job_id] = _Gathering(node_count)
        if job.node_count != node_count:
            raise InputError(f"node_count: {node_count}, but other nodes of {job_id} say {job.node_count}")
        if job.nodes.get(node_rank, nics) != nics:
            raise AlreadyExistsError(f"{job_id}: another node has rank {node_rank}")
        return job

    def _make_room(self, ranks: int, joined: _Gathering) -> None:
        done = [job_id for job_id, job in self._jobs.items() if job.complete.is_set()]
        while self._ranks + ranks > self._max_ranks and done:
            self._forget(done.pop(0))
        if self._ranks + ranks > self._max_ranks:
            if not joined.nodes:
                self._jobs = OrderedDict((name, job) for name, job in self._jobs.items() if job is not joined)
            raise BudgetExceededError("too many nodes of jobs wait for others of their job; call again later")

    def _withdraw(self, job_id: str, job: _Gathering, node_rank: int) -> None:
        """Remove a node of which no call waits, unless all nodes have met."""
        if job.complete.is_set() or job.calls[node_rank] or self._jobs.get(job_id) is not job:
            return
        self._ranks -= len(job.nodes.pop(node_rank, ()))
        if not job.nodes:
            del self._jobs[job_id]

    def _forget(self, job_id: str) -> None:
        self._ranks -= sum(map(len, self._jobs.pop(job_id).nodes.values()))


def _check(job_id: str, node_rank: int, node_count: int, nics: Nics) -> None:
    if not is_job_id(job_id):
        raise InputError(f"job_id: {quoted(job_id)} is no job id")
    if not 1 <= node_count <= MAX_NODES:
        raise InputError(f"node_count: {node_count} must be from 1 to {MAX_NODES:,}")
    if node_rank >= node_count:
        raise InputError(f"node_rank: {node_rank} must be below node_count, {node_count}")
    if not 1 <= len(nics) <= MAX_REQUEST_RANKS:
        raise InputError(f"nics: {len(nics)} NICs; each node has from 1 to {MAX_REQUEST_RANKS:,} ranks")

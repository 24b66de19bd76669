"""Compare the jobs that Slurm runs with those that the controller has: what is to be submitted, renewed and released.

The id of a planned job is `slurm-JOB-DIGEST`, with a digest of all that is planned. A job that is requeued to other
nodes has another id, and what ran before is released; one that runs as before is left alone, also one that a user
submitted. Jobs of `heddle exec` have ids of another form, `slurm-JOB` or `slurm-JOB.STEP`: they say what they send, so
that nothing is assumed of a job while it has one. All components of a heterogeneous job are planned together.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.schedulers.host_list import hosts_of
from heddle.controller.schedulers.slurm_descriptions import ASSUMED_BYTES
from heddle.foundation.network import Network

SQUEUE = ("squeue", "--noheader", "--all", "--states=R,CF,S,ST,SI,RS", "--format=%A|%i|%N")
"""Jobs that hold nodes: from CONFIGURING, in which PrologSlurmctld runs, to the end; those that COMPLETE are over."""
MAX_LISTED = 20_000
MAX_JOBS = 4_096
"""The maximum of jobs that are planned; those with the lowest ids, which have run longest."""
FIRST_RETRY_S, MAX_RETRY_S = 10.0, 600.0
_LINE = re.compile(r"([0-9]{1,10})\|([0-9]{1,10})(?:\+([0-9]{1,5})|_[0-9]{1,10})?\|(\S*)")
_JOB_ID = re.compile(r"(slurm-[0-9]{1,10})-[0-9a-f]{12}")
_EXACT_ID = re.compile(r"(slurm-[0-9]{1,10})(?:\.[0-9]{1,10})?")


class NicOfHost(NamedTuple):
    """A NIC of the compute network."""

    id: str
    rail: int


class Steps(NamedTuple):
    """What is to be done, in this order: what ended makes room first."""

    release: tuple[str, ...]
    renew: tuple[str, ...]
    submit: tuple[JobRequest, ...]


def running_jobs(text: str) -> dict[int, tuple[str, ...]]:
    """Return the nodes of each job that SQUEUE printed, under the id of its first component.

    Raises InputError for a line of another form: half a list would end the jobs of the other half.
    """
    lines = text.splitlines()
    if len(lines) > MAX_LISTED:
        raise InputError(f"squeue: {len(lines):,} jobs; at most {MAX_LISTED:,} are read")
    components: dict[int, list[tuple[int, list[str]]]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise InputError(f"squeue: {line[:60]!r} is no line of {SQUEUE[-1]}")
        own, listed, offset, nodes = match.groups()
        leader = int(own if offset is None else listed)
        if nodes:
            components.setdefault(leader, []).append((int(offset or 0), hosts_of(nodes, "squeue")))
    return {
        job: tuple(dict.fromkeys(node for _, nodes in sorted(parts) for node in nodes))
        for job, parts in components.items()
    }


def nics_of_hosts(fabric: Fabric) -> dict[str, list[NicOfHost]]:
    """Return the NICs of the compute network of each host."""
    found: dict[str, list[NicOfHost]] = {}
    for name, (nic, *_) in fabric.ports_of.items():
        if nic.network is Network.COMPUTE:
            found.setdefault(nic.host, []).append(NicOfHost(name, nic.rail))
    return found


def wanted_jobs(
    running: Mapping[int, Sequence[str]], nics: Mapping[str, Sequence[NicOfHost]], lease_ms: int
) -> dict[str, JobRequest]:
    """Return the requests under their ids of the jobs with at least two hosts of the fabric."""
    found = (request_of(job, running[job], nics, lease_ms) for job in sorted(running))
    requests = [request for request in found if request is not None]
    return {request.job_id: request for request in requests[:MAX_JOBS]}


def is_planned_id(job_id: str) -> bool:
    """Return whether an id is one of ours, `slurm-JOB-DIGEST`."""
    return _JOB_ID.fullmatch(job_id) is not None


def number_of(job_id: str) -> str:
    """Return Slurm's id of a planned job."""
    return job_id.split("-")[1]


def request_of(
    job: int, nodes: Iterable[str], nics: Mapping[str, Sequence[NicOfHost]], lease_ms: int
) -> JobRequest | None:
    """Return the request of a job that says nothing of itself: a ring on each rail, in the order of its nodes.

    None where fewer than two of the nodes are hosts of the fabric: nothing would leave a host.
    """
    hosts = [host for host in nodes if nics.get(host)]
    if len(hosts) < 2:
        return None
    ranks = [nic for host in hosts for nic in nics[host]]
    rails: dict[int, list[int]] = {}
    for rank, nic in enumerate(ranks):
        rails.setdefault(nic.rail, []).append(rank)
    collectives = tuple(
        Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=ASSUMED_BYTES, members=tuple(members))
        for _, members in sorted(rails.items())
        if len(members) > 1
    )
    names = tuple(nic.id for nic in ranks)
    digest = sha256(repr((names, collectives)).encode()).hexdigest()[:12]
    job_id = f"slurm-{job}-{digest}"
    return JobRequest(job_id=job_id, ranks=names, collectives=collectives, lease_ms=lease_ms, assumed=True)


@dataclass(slots=True)
class Reconciler:
    """What is known of leases and refusals; times are those of any clock that never goes back.

    A lease is renewed after a third of it, at once where it is not known since when it runs. A refused request is tried
    again after FIRST_RETRY_S, then after twice the time, up to MAX_RETRY_S; another request is tried at once.
    """

    lease_s: float
    _renewed_s: dict[str, float] = field(default_factory=dict)
    _refused: dict[str, tuple[float, float]] = field(default_factory=dict)

    def steps(self, wanted: Mapping[str, JobRequest], known: Collection[str], now_s: float) -> Steps:
        """Return what is to be done, by the jobs that the controller has now."""
        exact = {match[1] for job in known if (match := _EXACT_ID.fullmatch(job))}
        wanted = {job: request for job, request in wanted.items() if job.rpartition("-")[0] not in exact}
        self._renewed_s = {job: at for job, at in self._renewed_s.items() if job in known}
        self._refused = {job: until for job, until in self._refused.items() if job in wanted}
        return Steps(
            release=tuple(job for job in known if is_planned_id(job) and job not in wanted),
            renew=tuple(job for job in wanted if job in known and self._is_due(job, now_s)),
            submit=tuple(
                request
                for job, request in wanted.items()
                if job not in known and self._refused.get(job, (now_s, 0.0))[0] <= now_s
            ),
        )

    def renewals(self, known: Iterable[str], now_s: float) -> tuple[str, ...]:
        """Return the planned jobs whose renewal is due, whether they run or not: for as long as Slurm is silent."""
        return tuple(job for job in known if is_planned_id(job) and self._is_due(job, now_s))

    def held(self, job: str, now_s: float) -> None:
        """Note that a job was submitted or renewed."""
        self._renewed_s[job] = now_s
        self._refused.pop(job, None)

    def refused(self, job: str, now_s: float) -> None:
        """Note that a request was refused."""
        _, waited_s = self._refused.get(job, (0.0, FIRST_RETRY_S / 2))
        wait_s = min(2 * waited_s, MAX_RETRY_S)
        self._refused[job] = (now_s + wait_s, wait_s)

    @property
    def waiting(self) -> int:
        """Return how many requests were refused and wait for their next try."""
        return len(self._refused)

    def _is_due(self, job: str, now_s: float) -> bool:
        renewed_s = self._renewed_s.get(job)
        return renewed_s is None or now_s - renewed_s >= self.lease_s / 3

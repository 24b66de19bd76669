"""Plan a job again by what its environment says that it sends, else an assumed one by the pairs that it has connected.

Both ends of a connection are reported: one that the assumption explains sends data one way, and ACKs the other. Where
all are explained, the assumption stays. Else the job is planned with the pairs that connect. Those of its plan keep
their ports, which queue pairs have; of all others both directions are planned, as nothing says which has the data.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256

from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.limit import MAX_QPS_PER_FLOW, MAX_REQUEST_PINS
from heddle.controller.schedulers.slurm_descriptions import ASSUMED_BYTES

Pair = tuple[str, str]
"""NICs: the one that sends, and its peer."""
MAX_FLOWS = 65_536
"""Of a job; with more, the assumption stays."""


def ring_pairs(assumed: JobRequest) -> set[Pair]:
    """Return the pairs of an assumed job, which are those of its rings."""
    found: set[Pair] = set()
    for one in assumed.collectives:
        nics = [assumed.ranks[rank] for rank in one.members]
        found.update(zip(nics, [*nics[1:], *nics[:1]], strict=True))
    return found


def observed_id(assumed: JobRequest, connected: Mapping[Pair, int]) -> str:
    """Return the id of the job by what it has connected: the assumed one where that explains it all."""
    sent = _sent(assumed, connected)
    rings = ring_pairs(assumed)
    if all(pair in rings for pair in sent) or sum(sent.values()) > MAX_FLOWS:
        return assumed.job_id
    digest = sha256(repr((assumed.job_id, sorted(sent.items()))).encode()).hexdigest()[:12]
    return f"{assumed.job_id.rpartition('-')[0]}-{digest}"


def said_request(assumed: JobRequest, collective: Collective) -> JobRequest:
    """Return the request by what a job says of itself while it runs."""
    digest = sha256(repr((assumed.job_id, collective)).encode()).hexdigest()[:12]
    job_id = f"{assumed.job_id.rpartition('-')[0]}-{digest}"
    return replace(assumed, job_id=job_id, collectives=(collective,), assumed=False)


def observed_request(
    assumed: JobRequest, connected: Mapping[Pair, int], ports: Mapping[Pair, Iterable[int]]
) -> JobRequest:
    """Return the request by what a job has connected, a flow for each queue pair; `ports` are those of its plan.

    The first queue pairs of a pair have these ports, as many as one request may fix.
    """
    rank_of = {nic: rank for rank, nic in enumerate(assumed.ranks)}
    flows: list[FlowDemand] = []
    may_fix = MAX_REQUEST_PINS
    for (src, dst), count in sorted(_sent(assumed, connected).items()):
        fixed = [*ports.get((src, dst), ())][: min(count, may_fix)]
        may_fix -= len(fixed)
        flows.extend(FlowDemand(rank_of[src], rank_of[dst], 0, port) for port in (*fixed, *[0] * (count - len(fixed))))
    custom = Collective(kind=CollectiveKind.CUSTOM, size_bytes=ASSUMED_BYTES, flows=tuple(flows))
    return replace(assumed, job_id=observed_id(assumed, connected), collectives=(custom,), assumed=False)


def _sent(assumed: JobRequest, connected: Mapping[Pair, int]) -> dict[Pair, int]:
    """Return the pairs that send data, with their queue pairs; those of other NICs than the job's are left out.

    An end that only sends ACKs, by the assumption, stands for its pair.
    """
    rings, nics = ring_pairs(assumed), set(assumed.ranks)
    sent: dict[Pair, int] = {}
    for (src, dst), count in connected.items():
        if src != dst and {src, dst} <= nics:
            pair = (dst, src) if (src, dst) not in rings and (dst, src) in rings else (src, dst)
            sent[pair] = max(sent.get(pair, 1), min(count, MAX_QPS_PER_FLOW))
    return sent

"""Read a job request from an object with the fields of `SubmitJobRequest`, and write its collectives as such fields.

Such an object is a gRPC message or a jobs file's model. Kinds, enums and NIC lists are arguments, because the two
formats write them differently. Values are checked at admission (`controller.model.admission`), not here.
"""

from collections.abc import Iterable
from typing import Any

from heddle.controller.model.job import (
    Algorithm,
    Collective,
    CollectiveKind,
    FlowDemand,
    Incast,
    JobRequest,
    RankPair,
    Steering,
)
from heddle.controller.model.moves import Cause, MoveLimit


def read_request(
    fields: Any, *, ranks: Iterable[str], collectives: Iterable[Collective], steering: Steering, incast: Incast,
    move_limits: Iterable[tuple[Cause, MoveLimit]],
) -> JobRequest:  # fmt: skip
    """Return the request whose remaining attributes are those of `fields`."""
    return JobRequest(
        job_id=fields.job_id,
        tenant=fields.tenant,
        ranks=tuple(ranks),
        collectives=tuple(collectives),
        priority=fields.priority,
        lease_ms=fields.lease_ms,
        steering=steering,
        require_utilisation=fields.require_utilisation,
        gpu_milli=fields.gpu_milli,
        incast=incast,
        move_limits=tuple(move_limits),
        assumed=fields.assumed,
        drains_before_moves=fields.drains_before_moves,
    )


def read_collective(fields: Any, *, kind: CollectiveKind, size_bytes: int, algorithm: Algorithm) -> Collective:
    """Return the collective whose remaining attributes are those of `fields`; `qps_per_flow` 0 means 1."""
    return Collective(
        kind=kind,
        size_bytes=size_bytes,
        root=fields.root,
        pairs=tuple(RankPair(pair.src_rank, pair.dst_rank) for pair in fields.pairs),
        flows=tuple(
            FlowDemand(flow.src_rank, flow.dst_rank, flow.rate_bps, flow.udp_source_port) for flow in fields.flows
        ),
        qps_per_flow=fields.qps_per_flow or 1,
        members=tuple(fields.members),
        phase=fields.phase,
        algorithm=algorithm,
        paths_per_flow=fields.paths_per_flow,
    )


def collective_fields(one: Collective) -> dict[str, Any]:
    """Return the fields of a collective by their names, for a message or a file."""
    return {
        "kind": one.kind.name,
        "bytes": one.size_bytes,
        "root": one.root,
        "pairs": [pair._asdict() for pair in one.pairs],
        "flows": [flow._asdict() for flow in one.flows],
        "qps_per_flow": one.qps_per_flow,
        "members": one.members,
        "phase": one.phase,
        "algorithm": one.algorithm.name,
        "paths_per_flow": one.paths_per_flow,
    }

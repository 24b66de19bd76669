"""The schema of the jobs file as pydantic models, with the keys of `SubmitJobRequest`, and its `JobRequest`s.

`controller.model.admission` checks values beyond their types, with the same rules for files and gRPC.
"""

from typing import Annotated, Literal

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from heddle.controller.config.text.complaint import shown
from heddle.controller.config.text.field import Shape, Uint32, Uint64, Version, refuse
from heddle.controller.model.job import Algorithm, CollectiveKind, Incast, JobRequest, Steering
from heddle.controller.model.job_fields import read_collective, read_request
from heddle.controller.model.moves import MAX_MOVES, Cause, MoveLimit, Whose


def nics_or_all(value: object, as_list: ValidatorFunctionWrapHandler) -> list[str] | None:
    """Read a list of NIC ids, or the mapping `{all: true}` as None."""
    if isinstance(value, dict):
        if value.keys() == {"all"} and value["all"] is True:
            return None
        refuse("must be a list of NIC ids or {all: true}")
    if not isinstance(value, list):
        refuse(f"must be a list of NIC ids or {{all: true}}, is {shown(value)}")
    ids: list[str] | None = as_list(value)
    return ids


class PairShape(Shape):
    """An entry of a SEND_RECV collective's `pairs`."""

    src_rank: Uint32
    dst_rank: Uint32


class FlowShape(Shape):
    """An entry of a CUSTOM collective's `flows`."""

    src_rank: Uint32
    dst_rank: Uint32
    rate_bps: Uint64 = 0
    udp_source_port: Uint32 = 0


class CollectiveShape(Shape):
    """An entry of a job's `collectives`."""

    kind: Literal[tuple(kind.name for kind in CollectiveKind)]  # type: ignore[valid-type]
    size_bytes: Uint64 = Field(default=0, alias="bytes")
    root: Uint32 = 0
    pairs: list[PairShape] = Field(default_factory=list)
    flows: list[FlowShape] = Field(default_factory=list)
    qps_per_flow: Uint32 = 1
    members: list[Uint32] = Field(default_factory=list)
    phase: Uint32 = 0
    algorithm: Literal[tuple(each.name for each in Algorithm)] = Algorithm.CONTRACT.name  # type: ignore[valid-type]
    paths_per_flow: Uint32 = 0


class MoveLimitShape(Shape):
    """An entry of a job's `move_limits`."""

    whose: Literal[tuple(whose.name for whose in Whose)]  # type: ignore[valid-type]
    max_flows: Uint32 = MAX_MOVES


class JobShape(Shape):
    """An entry of `jobs`."""

    job_id: str
    tenant: str = ""
    ranks: Annotated[list[str] | None, WrapValidator(nics_or_all)]
    collectives: list[CollectiveShape] = Field(default_factory=list)
    priority: Uint32 = 0
    lease_ms: Uint64 = 0
    steering: Literal["SOURCE_PORT", "PIN", "STEERING_UNSPECIFIED"] = "SOURCE_PORT"
    require_utilisation: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    gpu_milli: Uint32 = 0
    incast: Literal["RATES", "WINDOWS", "INCAST_RATES", "INCAST_WINDOWS", "INCAST_UNSPECIFIED"] = "INCAST_UNSPECIFIED"
    move_limits: dict[Literal[tuple(cause.name for cause in Cause)], MoveLimitShape] = Field(  # type: ignore[valid-type]
        default_factory=dict
    )
    assumed: bool = False
    drains_before_moves: bool = False


class JobsShape(Shape):
    """A whole jobs file."""

    version: Version = 1
    jobs: list[JobShape]


def request_of(job: JobShape, ranks: tuple[str, ...]) -> JobRequest:
    """Return the request of a job; `ranks` are its NIC ids, with `{all: true}` expanded."""
    return read_request(
        job,
        ranks=ranks,
        collectives=(
            read_collective(
                one,
                kind=CollectiveKind[one.kind],
                size_bytes=one.size_bytes,
                algorithm=Algorithm[one.algorithm],
            )
            for one in job.collectives
        ),
        steering=Steering.PIN if job.steering == "PIN" else Steering.SOURCE_PORT,
        incast=Incast[job.incast.removeprefix("INCAST_")],
        move_limits=(
            (Cause[cause], MoveLimit(whose=Whose[limit.whose], max_flows=limit.max_flows))
            for cause, limit in job.move_limits.items()
        ),
    )

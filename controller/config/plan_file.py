"""Read a plan that `heddle plan --json` wrote, so that other jobs can be planned beside its jobs."""

import json
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field, PlainValidator, ValidationError

from heddle.controller.config.jobs_file import JobShape
from heddle.controller.config.load import requests_of
from heddle.controller.config.text.complaint import refusal, shown
from heddle.controller.config.text.document import read_text
from heddle.controller.config.text.field import Shape, Uint32, refuse
from heddle.controller.config.text.shape_error import shape_problems
from heddle.controller.model.admission import Problem
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import FlowPlan, JobFlows

REWRITE = "write the plan again with `heddle plan FABRIC JOBS --json`"


class KeptJob(NamedTuple):
    """A job of a kept plan: its request, its flows with their paths and ports, and the generation of its plan."""

    request: JobRequest
    flows: JobFlows
    generation: int


def _uint64(value: object) -> int:
    """Read a 64-bit number as protobuf's JSON mapping writes it: as text."""
    if not isinstance(value, str) or not (value.isascii() and value.isdecimal()) or len(value) > 20:
        refuse(f'must be a number in quotes, such as "100", is {shown(value)}')
    if (number := int(value)) >= 2**63:
        refuse(f"must be below 2^63, is {shown(value)}")
    return number


Uint64Text = Annotated[int, PlainValidator(_uint64)]
SourcePort = Annotated[int, Field(ge=49152, le=65535)]


class _MessageShape(Shape):
    """A protobuf message as JSON; keys that a later version adds are allowed."""

    model_config = ConfigDict(extra="ignore")


class FlowPlanShape(_MessageShape):
    """A `FlowPlan`; its window is planned again."""

    flow_id: str
    src_nic: str
    dst_nic: str
    links: tuple[str, ...] = Field(strict=False)
    udp_source_port: SourcePort
    rate_bps: Uint64Text
    demand_bps: Uint64Text
    reverse_links: tuple[str, ...] = Field(strict=False)
    reverse_udp_source_port: SourcePort
    phase: Uint32
    src_rank: Uint32
    dst_rank: Uint32
    collective: Uint32
    queue_pair: Uint32
    pinned: bool


class JobPlanShape(_MessageShape):
    """A `JobPlan`."""

    job_id: str
    generation: Uint64Text
    flows: list[FlowPlanShape]


class PlanFabricShape(Shape):
    """The fabric that a plan was made for."""

    name: str
    digest: str


class PlanShape(_MessageShape):
    """A plan: `requests` are its jobs as in a jobs file, in the order of `jobs`."""

    fabric: PlanFabricShape
    requests: list[JobShape]
    jobs: list[JobPlanShape]


MAX_BYTES = 256 << 20


def load_plan(path: Path, fabric: Fabric) -> list[KeptJob]:
    """Read a plan for this fabric, whichever of its links have failed; raises InputError with the first problem.

    Whether the flows are those of the requests, on paths of the fabric, is not checked here.
    """
    name = str(path)
    shape = _shaped(name, read_text(path, MAX_BYTES))
    if shape.fabric.digest != fabric.digest:
        why = f"the plan is for another fabric (named {shown(shape.fabric.name)}); {REWRITE} for this one"
        raise refusal(name, [Problem("fabric", why)])
    requests = requests_of(name, "requests", shape.requests, fabric)
    if [request.job_id for request in requests] != [job.job_id for job in shape.jobs]:
        raise refusal(name, [Problem("requests", f"are not the jobs of `jobs`, in the same order; {REWRITE}")])
    return [_kept(request, job) for request, job in zip(requests, shape.jobs, strict=True)]


def _kept(request: JobRequest, job: JobPlanShape) -> KeptJob:
    plans = [FlowPlan(**dict(flow)) for flow in job.flows]
    pinned = any(plan.pinned for plan in plans)
    flows = JobFlows(job_id=request.job_id, flows=plans, link_loads_bps={}, pinned=pinned)
    return KeptJob(request, flows, job.generation)


def _shaped(name: str, text: str) -> PlanShape:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        why = f"line {error.lineno}, column {error.colno}: not JSON ({error.msg}); {REWRITE}"
        raise refusal(name, [Problem("", why)]) from None
    except (ValueError, RecursionError):
        raise refusal(name, [Problem("", f"no plan: a number or its nesting is too long; {REWRITE}")]) from None
    if not isinstance(value, dict) or "jobs" not in value:
        raise refusal(name, [Problem("jobs", f"missing: this is no plan; {REWRITE}")])
    for key in ("fabric", "requests"):
        if key not in value:
            raise refusal(name, [Problem(key, f"missing: an older version wrote this plan; {REWRITE}")])
    try:
        return PlanShape.model_validate(value)
    except ValidationError as error:
        found = shape_problems(error, PlanShape)[0]
        raise refusal(name, [Problem(found.path, f"{found.text}; {REWRITE}")]) from None

"""Shapes of jobs and plans."""

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from heddle.controller.dashboard.documents.shapes.state import JobFigures


class JobLine(JobFigures):
    """A job in the list, with the reason of its newest generation."""

    generation: int
    priority: int
    reason: str
    probed: bool
    paths_confirmed: int


class Jobs(TypedDict):
    """All jobs, the oldest first."""

    jobs: list[JobLine]


class Certificate(TypedDict):
    """How good the whole plan is; `own` is the fullest link of this job. `proof` names the kind of the bound.

    `flows_work_conserving` flows of this job may exceed their planned rates; shares assume that none does.
    `assumed`: nothing says what this job sends. `below_goal` is by how much the mean speed of all jobs is below that
    of the goal of a convergence.
    On a fabric that hashes it is `probed`: probes have seen the paths of `paths_confirmed` flows of this job, the
    oldest of them last at `oldest_confirmation_ms`; `probes` were sent for this generation. Where packets name their
    paths, these are `by_construction`.
    """

    achieved: float
    own: float
    bound: float
    ecmp: float
    e_ecmp: float
    proof: str
    flows_slowed: int
    mean_share: float
    worst_share: float
    flows_work_conserving: int
    assumed: bool
    below_goal: float
    probed: bool
    paths_confirmed: int
    oldest_confirmation_ms: int | None
    probes: int
    by_construction: bool


class FlowLine(TypedDict):
    """A flow: the rate that it may send at on average, and the rate that its host measured."""

    id: str
    src: str
    dst: str
    planned_bps: int
    measured_bps: float | None
    links: list[str]
    udp_source_port: int


class Generation(TypedDict):
    """A generation of a job's plan, and why there is one."""

    generation: int
    at_ms: int | None
    state: str
    reason: str


class Sharing(TypedDict):
    """A job with flows on the same links."""

    job: str
    links: list[str]


class JobDocument(TypedDict):
    """A job with its first flows."""

    id: str
    tenant: str
    state: str
    reason: str
    generation: int
    priority: int
    lease_expires_ms: int
    certificate: Certificate
    flows: list[FlowLine]
    flows_total: int
    generations: list[Generation]
    shares_links_with: list[Sharing]


class Preview(JobDocument):
    """The plan of a job that is not submitted, and the planned utilisation of every link with it."""

    links_planned: list[float]

"""What a placement is: the shape of a job that looks for a place, and the place that is suggested for it."""

from collections.abc import Iterator
from dataclasses import dataclass

from controller.model.admission import Problem, shape_problems
from controller.model.job import Collective, JobRequest
from controller.model.limit import MAX_GPU_MILLI

WHOLE_GPU_MILLI = 1000
MAX_RANKS = 1_000_000
SUGGESTIONS_UNLESS_TOLD = 3
MAX_SUGGESTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A job without a place; names and meanings are those of `SuggestPlacementRequest`.

    `gpu_milli` is each rank's share of a GPU in thousandths, 0 meaning a whole one; more than 1000 are several GPUs of
    one NIC. `max_suggestions` 0 leaves the number to us.
    """

    ranks: int
    collectives: tuple[Collective, ...]
    gpu_milli: int = 0
    max_suggestions: int = 0

    @property
    def share_milli(self) -> int:
        """Return what a rank takes, in thousandths of a GPU."""
        return self.gpu_milli or WHOLE_GPU_MILLI

    @property
    def most(self) -> int:
        """Return how many suggestions to give at most."""
        return min(self.max_suggestions or SUGGESTIONS_UNLESS_TOLD, MAX_SUGGESTIONS)

    def on(self, nics: tuple[str, ...]) -> JobRequest:
        """Return the job on these NICs, in rank order, as it may be submitted under a name of its own."""
        return JobRequest(job_id="suggestion", ranks=nics, collectives=self.collectives, gpu_milli=self.gpu_milli)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a job may run and what that costs.

    `nics` are in rank order. `max_link_utilisation` is that of the whole fabric with the job in it,
    `own_max_link_utilisation` that of the links the job itself would use, all jobs' load counted.
    """

    nics: tuple[str, ...]
    max_link_utilisation: float
    own_max_link_utilisation: float
    leaves_used: int
    reason: str


def placement_problems(shape: Shape) -> tuple[Problem, ...]:
    """Return what is wrong with a shape whatever the fabric; empty where it is sound."""
    return tuple(_problems(shape))


def _problems(shape: Shape) -> Iterator[Problem]:
    if shape.ranks < 1:
        yield Problem("ranks", f"must be at least 1, is {shape.ranks}: how many ranks look for a place")
    if shape.ranks > MAX_RANKS:
        yield Problem("ranks", f"must be at most {MAX_RANKS:,}, is {shape.ranks}")
    if not 0 <= shape.gpu_milli <= MAX_GPU_MILLI:
        yield Problem("gpu_milli", f"must be from 0 to {MAX_GPU_MILLI}, is {shape.gpu_milli}")
    if not 0 <= shape.max_suggestions < 2**32:
        yield Problem("max_suggestions", f"must be from 0 to {2**32 - 1}, is {shape.max_suggestions}")
    whoever = JobRequest(job_id="suggestion", ranks=(), collectives=shape.collectives)
    yield from shape_problems(whoever, shape.ranks if shape.ranks > 0 else None)

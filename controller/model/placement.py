"""Define placement requests (the shape of a job without NICs) and the suggested placements."""

from collections.abc import Iterator
from dataclasses import dataclass

from heddle.controller.model.admission import Problem, shape_problems
from heddle.controller.model.job import Collective, JobRequest
from heddle.controller.model.limit import MAX_GPU_MILLI

WHOLE_GPU_MILLI = 1000
MAX_RANKS = 1_000_000
DEFAULT_SUGGESTIONS = 3
MAX_SUGGESTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A job without NICs; names and meanings are those of `SuggestPlacementRequest`.

    `gpu_milli` is each rank's share of a GPU in thousandths, 0 meaning a whole one; more than 1000 are several GPUs of
    one NIC. `max_suggestions` 0 means DEFAULT_SUGGESTIONS.
    """

    ranks: int
    collectives: tuple[Collective, ...]
    gpu_milli: int = 0
    max_suggestions: int = 0

    @property
    def share_milli(self) -> int:
        """Return the share of a GPU that a rank takes, in thousandths."""
        return self.gpu_milli or WHOLE_GPU_MILLI

    @property
    def limit(self) -> int:
        """Return the maximum number of suggestions."""
        return min(self.max_suggestions or DEFAULT_SUGGESTIONS, MAX_SUGGESTIONS)

    def on(self, nics: tuple[str, ...]) -> JobRequest:
        """Return the job on these NICs, in rank order; its id is a placeholder."""
        return JobRequest(job_id="suggestion", ranks=nics, collectives=self.collectives, gpu_milli=self.gpu_milli)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """NICs for a job, and the utilisation that the job causes there.

    `nics` are in rank order. `max_link_utilisation` is that of the whole fabric with the job in it,
    `own_max_link_utilisation` that of the links the job itself would use, all jobs' load counted.
    """

    nics: tuple[str, ...]
    max_link_utilisation: float
    own_max_link_utilisation: float
    leaves_used: int
    reason: str


def placement_problems(shape: Shape) -> tuple[Problem, ...]:
    """Return the problems of a shape that do not depend on a fabric; empty where it is valid."""
    return tuple(_problems(shape))


def _problems(shape: Shape) -> Iterator[Problem]:
    if shape.ranks < 1:
        yield Problem("ranks", f"must be at least 1, is {shape.ranks}: the number of ranks to place")
    if shape.ranks > MAX_RANKS:
        yield Problem("ranks", f"must be at most {MAX_RANKS:,}, is {shape.ranks}")
    if not 0 <= shape.gpu_milli <= MAX_GPU_MILLI:
        yield Problem("gpu_milli", f"must be from 0 to {MAX_GPU_MILLI}, is {shape.gpu_milli}")
    if not 0 <= shape.max_suggestions < 2**32:
        yield Problem("max_suggestions", f"must be from 0 to {2**32 - 1}, is {shape.max_suggestions}")
    request = JobRequest(job_id="suggestion", ranks=(), collectives=shape.collectives)
    yield from shape_problems(request, shape.ranks if shape.ranks > 0 else None)

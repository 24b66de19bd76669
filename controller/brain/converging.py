"""What the brain knows of the goal that the running jobs converge to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from heddle.controller.model.health import Health
from heddle.controller.model.plan import JobFlows

FIRST_GAP_MS = 60_000
"""The time between two changes of the running jobs that is assumed before some are known."""
Places = frozenset[frozenset[str]]
"""The NICs of each job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """The goal that is being sought, and what was decided last.

    `token` is that of the request under way; it is for the jobs `asked`, by id, and for what was out of use in
    `health`. The set of jobs last changed at `changed_unix_ms`; `gap_ms` is the mean time between changes lately. The
    goal is sought at `due_unix_ms`; None: not before something changes. `has_converged` says whether the jobs have
    converged since the last change, `recent` are the places of the sets of jobs before it that had, newest last, and
    `count` is how often jobs converged. `verdict` is the last decision in words.
    """

    token: int | None = None
    asked: Mapping[str, JobFlows] = field(default_factory=dict)
    health: Health = field(default_factory=Health)
    changed_unix_ms: int = 0
    gap_ms: int = FIRST_GAP_MS
    due_unix_ms: int | None = None
    recent: tuple[Places, ...] = ()
    has_converged: bool = False
    verdict: str = ""
    count: int = 0

"""The life of a job and of a transaction: events, kinds of work, and the one table of job state transitions.

`docs/jobs-states.md` is generated from this table (`controller/brain/lifecycle_page.py`).
"""

from collections.abc import Mapping
from enum import StrEnum

from heddle.controller.model.job_state import JobState


class JobEvent(StrEnum):
    """An event that may change a job's state; the value is its text in the documentation."""

    ADMITTED = "the planner has found a plan"
    INSTALLED = "every switch has acknowledged its last barrier"
    INSTALL_FAILED = "a switch refused, left or did not reply"
    HARMED = "a failure leaves a flow without a path, or raises its fullest link"
    RECOVERED = "every flow has a path, and its fullest link is as before the failure"
    REPLANNED = "its rates or paths are planned again"
    RENEWED = "the lease is extended"
    LEASE_ENDED = "the lease has ended"
    RELEASED = "the job is released on request"


class WorkKind(StrEnum):
    """The kinds of transaction; one is active at a time, the others wait in `State.queue`."""

    PLAN = "plan"
    """Plan submitted jobs together and install them."""
    RELEASE = "release"
    """End a job and remove its rules."""
    REPLAN = "replan"
    """Plan running jobs again, because others left, or links failed or returned."""
    DRAIN = "drain"
    """Plan running jobs without a cable or a switch, or with it again."""


def _row(event: JobEvent, **after: JobState) -> dict[tuple[JobState | None, JobEvent], JobState]:
    return {(JobState(before), event): state for before, state in after.items()}


_PLANNED, _RUNNING, _DEGRADED, _RELEASED = JobState

TRANSITIONS: Mapping[tuple[JobState | None, JobEvent], JobState] = {
    (None, JobEvent.ADMITTED): _PLANNED,
    **_row(JobEvent.INSTALLED, planned=_RUNNING),
    **_row(JobEvent.INSTALL_FAILED, planned=_RELEASED),
    **_row(JobEvent.HARMED, running=_DEGRADED, degraded=_DEGRADED),
    **_row(JobEvent.RECOVERED, running=_RUNNING, degraded=_RUNNING),
    **_row(JobEvent.REPLANNED, running=_RUNNING, degraded=_DEGRADED),
    **_row(JobEvent.RENEWED, planned=_PLANNED, running=_RUNNING, degraded=_DEGRADED),
    **_row(JobEvent.LEASE_ENDED, running=_RELEASED, degraded=_RELEASED),
    **_row(JobEvent.RELEASED, running=_RELEASED, degraded=_RELEASED),
}
"""The state that follows a state and an event; None stands for a job that does not exist yet."""


def after(state: JobState | None, event: JobEvent) -> JobState:
    """Return the state that follows an event; raises KeyError where the event cannot occur in this state."""
    return TRANSITIONS[state, event]


def allows(state: JobState, event: JobEvent) -> bool:
    """Return whether the event can occur in this state."""
    return (state, event) in TRANSITIONS

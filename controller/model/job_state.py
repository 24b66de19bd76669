"""The states of a job, under the names of the contract (`JobPlan.state`)."""

from enum import StrEnum


class JobState(StrEnum):
    """The state of a job; `controller/brain/lifecycle.py` holds the transitions."""

    PLANNED = "planned"
    """Admitted; its rules are not acknowledged by all switches yet. A preview stays in this state."""
    RUNNING = "running"
    """Every switch on its paths has acknowledged."""
    DEGRADED = "degraded"
    """Running, and a link of its paths is down."""
    RELEASED = "released"
    """Ended; its rules are removed. The controller keeps no released job."""

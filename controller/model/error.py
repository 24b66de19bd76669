"""Define the errors that reach users, as one tree:

    HeddleError
    ├── InputError               malformed, unknown or past a limit: exit 2, INVALID_ARGUMENT
    ├── DeniedError              the caller may not do this: exit 1, PERMISSION_DENIED
    ├── NotFoundError            no such job or flow: exit 2, NOT_FOUND
    ├── AlreadyExistsError       the id or the pinned tuple is in use: exit 1, ALREADY_EXISTS
    ├── BudgetExceededError      a switch's rule budget or a quota: exit 3, RESOURCE_EXHAUSTED
    ├── PlanError                valid input, no plan: exit 3
    │   ├── NoAdmissiblePlanError    no admissible plan exists: FAILED_PRECONDITION
    │   └── PlannerError             a planner of another distribution failed; no gRPC call runs one
    ├── InUseError               something else still needs it: exit 1, FAILED_PRECONDITION
    ├── DeadlineError            the caller's deadline has passed: exit 1, DEADLINE_EXCEEDED
    ├── UnavailableError         a switch or the controller does not reply: exit 1, UNAVAILABLE
    ├── SteppedDownError         another controller leads: it waits again, as one that does not lead
    └── PrerequisiteError        this machine lacks a prerequisite: exit 1; the message names the remedy

Inside the core "no admissible plan" is a value (`Infeasible`); edges turn it into an error.
"""


class HeddleError(Exception):
    """An error that is reported to the user in one line."""

    exit_status = 1


class InputError(HeddleError):
    """Input is malformed, unknown or past a limit. `problems` holds one line for each problem."""

    exit_status = 2

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class DeniedError(HeddleError):
    """The caller's role, or its tenant's policy, does not allow this."""


class NotFoundError(HeddleError):
    """The requested object does not exist."""

    exit_status = 2


class AlreadyExistsError(HeddleError):
    """The id or the pinned tuple is in use for something else."""


class BudgetExceededError(HeddleError):
    """A switch's rule budget or a tenant's quota would be exceeded."""

    exit_status = 3


class PlanError(HeddleError):
    """The input is valid, but there is no plan; the class says why."""

    exit_status = 3


class NoAdmissiblePlanError(PlanError):
    """The input is valid, but no admissible plan exists."""


class PlannerError(PlanError):
    """A planner of another distribution failed: it raised, took too long, or returned no admissible paths."""


class InUseError(HeddleError):
    """The object to delete is still needed by another."""


class DeadlineError(HeddleError):
    """The caller's deadline has passed, so the request is not begun."""


class UnavailableError(HeddleError):
    """A switch or the controller did not reply in time."""


class SteppedDownError(HeddleError):
    """This controller has led, and does no longer; the text says why."""


class PrerequisiteError(HeddleError):
    """This machine lacks a prerequisite; the message names the remedy."""

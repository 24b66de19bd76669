"""The errors that cross a border of the program, one tree:

    HeddleError
    ├── InputError          malformed, unknown or past a limit: exit 2, INVALID_ARGUMENT
    ├── NotFoundError            no such job or flow: exit 2, NOT_FOUND
    ├── AlreadyExistsError       the id or the pinned tuple is taken: exit 1, ALREADY_EXISTS
    ├── BudgetExceededError      a switch's rule budget or a quota: exit 3, RESOURCE_EXHAUSTED
    ├── NoAdmissiblePlanError    sound input, no plan: exit 3, FAILED_PRECONDITION
    ├── InUseError               something else still needs it: exit 1, FAILED_PRECONDITION
    ├── Unavailable         a switch or the controller does not answer: exit 1, UNAVAILABLE
    └── PrerequisiteError    this machine lacks something: exit 1; the message says what to run

"No admissible plan" is a value (`Infeasible`) inside the core; it becomes an error only where it is told.
"""


class HeddleError(Exception):
    """Any error that a user is told in one line."""

    exit_status = 1


class InputError(HeddleError):
    """Input that is malformed, unknown or past a limit. `problems` holds one line each."""

    exit_status = 2

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class NotFoundError(HeddleError):
    """What was asked for does not exist."""

    exit_status = 2


class AlreadyExistsError(HeddleError):
    """The id or the pinned tuple is in use with something else."""


class BudgetExceededError(HeddleError):
    """A switch's rule budget or a tenant's quota would be passed."""

    exit_status = 3


class NoAdmissiblePlanError(HeddleError):
    """Sound input for which no admissible plan exists."""

    exit_status = 3


class InUseError(HeddleError):
    """What should go is still needed by something else."""


class UnavailableError(HeddleError):
    """A switch or the controller did not answer in time."""


class PrerequisiteError(HeddleError):
    """This machine lacks something the program needs; the message names the remedy."""

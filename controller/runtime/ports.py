"""What the loop needs of the outside, as small interfaces that `app` fills in."""

from collections.abc import Sequence
from typing import Protocol

from controller.model.effect import Place, Solve
from controller.model.error import HeddleError
from controller.model.placement import Placement
from controller.model.plan import Infeasible, Plan
from controller.model.rule import Step, SwitchRules


class InstallError(Exception):
    """A switch refused a change, went away or did not answer its barrier in time."""

    def __init__(self, switch: str, reason: str) -> None:
        super().__init__(f"{switch}: {reason}")
        self.switch = switch
        self.reason = reason


class Switches(Protocol):
    """The southbound, as the loop sees it."""

    async def install(self, steps: Sequence[Step]) -> None:
        """Send the steps, each behind barriers; raises InstallError."""

    async def read_rules(self, switch_id: str) -> SwitchRules:
        """Return what a switch holds; raises InstallError where it does not say."""


class Planner(Protocol):
    """The planner, as the loop sees it: called in a worker thread."""

    def __call__(self, problem: Solve) -> tuple[Plan | Infeasible | HeddleError, int]:
        """Solve one problem; never raises a HeddleError but returns it; beside it the ns that finding paths took."""


class Placer(Protocol):
    """What finds places for jobs, as the loop sees it: called in a worker thread of its own."""

    def __call__(self, question: Place) -> tuple[Placement, ...] | Infeasible | HeddleError:
        """Answer one question; never raises a HeddleError but returns it."""


class Clock(Protocol):
    """Where time comes from."""

    def unix_ms(self) -> int:
        """Return Unix time in milliseconds."""

    def monotonic_ns(self) -> int:
        """Return a time that only grows, in nanoseconds."""

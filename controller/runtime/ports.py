"""Define the interfaces that the loop needs; `controller/app.py` provides them."""

from collections.abc import Sequence
from typing import Protocol

from controller.model.effect import Place, Solve
from controller.model.error import HeddleError
from controller.model.placement import Placement
from controller.model.plan import Infeasible, Plan
from controller.model.rule import Step, SwitchRules


class InstallError(Exception):
    """A switch refused a change, disconnected or did not reply to its barrier in time."""

    def __init__(self, switch: str, reason: str) -> None:
        super().__init__(f"{switch}: {reason}")
        self.switch = switch
        self.reason = reason


class Switches(Protocol):
    """The southbound."""

    async def install(self, steps: Sequence[Step]) -> None:
        """Send the steps, each followed by barriers; raises InstallError."""

    async def read_rules(self, switch_id: str) -> SwitchRules:
        """Read a switch's installed rules; raises InstallError where it does not reply."""


class Planner(Protocol):
    """The planner, called in a worker thread."""

    def __call__(self, problem: Solve) -> tuple[Plan | Infeasible | HeddleError, int]:
        """Return the plan (or an error as a value) and the nanoseconds that planning took."""


class Placer(Protocol):
    """The placement planner, called in a worker thread of its own."""

    def __call__(self, problem: Place) -> tuple[Placement, ...] | Infeasible | HeddleError:
        """Return places, best first, or an error as a value."""


class Clock(Protocol):
    """The source of time."""

    def unix_ms(self) -> int:
        """Return Unix time in milliseconds."""

    def monotonic_ns(self) -> int:
        """Return a monotonic time in nanoseconds."""

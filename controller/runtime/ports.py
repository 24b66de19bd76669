"""Define the interfaces that the loop needs; `controller/app.py` provides them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from heddle.controller.model.effect import Compile, Place, Solve
from heddle.controller.model.error import HeddleError
from heddle.controller.model.event import Compiled
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.placement import Placement
from heddle.controller.model.plan import Infeasible, Replan
from heddle.controller.model.rule import Step, SwitchRules
from heddle.probing.flow import Found, Wanted


class InstallError(Exception):
    """A switch refused a change, disconnected or did not reply to its barrier in time.

    `lagging` switches still process what was sent to them; `Switches.caught_up` waits for each.
    """

    def __init__(self, switch: str, reason: str, lagging: frozenset[str] = frozenset()) -> None:
        super().__init__(f"{switch}: {reason}")
        self.switch = switch
        self.reason = reason
        self.lagging = lagging


def _ignored(switches: frozenset[str]) -> None:
    """Report to no one."""


class InstallWatch:
    """What the loop and an installation under way exchange: which switches lag, and that it is to give up."""

    def __init__(self, lags: Callable[[frozenset[str]], None] = _ignored) -> None:
        """`lags` is called with the switches that have not replied to the barrier of a step for long."""
        self.lags = lags
        self.given_up = asyncio.Event()
        """Set where the installation is to end at the first step with switches that lag."""


class StoreError(Exception):
    """The journal cannot be written; the text names the place and the reason."""


class FencedError(StoreError):
    """Another controller leads, or none: nothing that this one writes is applied."""


EPOCH_SHIFT = 44
"""A generation is epoch << 44 | revision: above the Unix times in milliseconds of controllers without a store."""


class StateStore(Protocol):
    """What survives a restart: bytes by kind and id. A SQLite file, or several machines behind the same calls."""

    place: str
    """Where it is, for messages."""

    def read(self) -> Mapping[tuple[str, str], bytes]:
        """Return all values; raises InputError where they are damaged."""

    def write(self, values: Mapping[tuple[str, str], bytes | None]) -> None:
        """Write values (None: delete) as one transaction, and return when they are durable; raises StoreError."""

    def check(self) -> None:
        """Check that what was written can still be found; raises StoreError."""

    def next_generation(self) -> int:
        """Return a number above all that this store has returned before; raises StoreError."""

    def close(self) -> None:
        """Close it."""


class Switches(Protocol):
    """The southbound."""

    async def install(self, steps: Sequence[Step], watch: InstallWatch) -> None:
        """Send the steps, each followed by barriers; raises InstallError."""

    async def caught_up(self, switch_id: str) -> bool:
        """Wait until a switch has processed all that was sent to it; False where its session ends first."""

    async def read_rules(self, switch_id: str) -> SwitchRules:
        """Read a switch's installed rules; raises InstallError where it does not reply."""


class Planner(Protocol):
    """The planner, outside of the control loop's process."""

    def start(self) -> None:
        """Get ready for the first request."""

    def use(self, fabric: Fabric) -> None:
        """Begin anew with a fabric whose ports mean something else; no request has been made."""

    async def solve(self, problem: Solve) -> tuple[Replan | Infeasible | HeddleError, int]:
        """Return the plan (or an error as a value) and the nanoseconds that planning took."""

    async def place(self, problem: Place) -> tuple[Placement, ...] | Infeasible | HeddleError:
        """Return places, best first, or an error as a value."""

    def close(self) -> None:
        """End at once, without waiting for requests under way."""


class Compiler(Protocol):
    """The compiler of rules, outside of the control loop's process."""

    def start(self) -> None:
        """Get ready for the first request."""

    def use(self, fabric: Fabric) -> None:
        """Begin anew with a fabric whose ports mean something else; no request has been made."""

    async def compile(self, work: Compile) -> Compiled:
        """Return the underlay and the pins for a state of the fabric; rules that do not differ keep their objects."""

    def close(self) -> None:
        """End at once, without waiting for a request under way."""


class PortFinder(Protocol):
    """The probe agents of a fabric that hashes: which source port leads over a planned path."""

    async def find(self, flows: Sequence[Wanted], ways: int) -> Found:
        """Return a port, or the reason why there is none, for every flow; `ways` is how many paths a flow has at most.

        It never raises: a flow whose host has no agent is missing, with that reason.
        """


class Clock(Protocol):
    """The source of time."""

    def unix_ms(self) -> int:
        """Return Unix time in milliseconds."""

    def steady_unix_ms(self) -> int:
        """Return Unix time in milliseconds that only grows, at the pace of time: leases and pauses count by it."""

    def monotonic_ns(self) -> int:
        """Return a monotonic time in nanoseconds."""

"""What a document is derived from: the newest frozen values of the controller at one time."""

from typing import NamedTuple

from controller.brain.state import State
from controller.runtime.loop import Loop
from controller.runtime.telemetry import TelemetryTick


class Moment(NamedTuple):
    """The controller's state and the newest tick of telemetry, None where there is none."""

    now_unix_ms: int
    state: State
    tick: TelemetryTick | None
    telemetry_configured: bool

    @classmethod
    def of(cls, loop: Loop) -> "Moment":
        """Return the moment that is now."""
        return cls(loop.now_unix_ms(), loop.state, loop.telemetry.ticks.value, loop.telemetry.configured)

    @property
    def age_ms(self) -> int | None:
        """Return the age of the newest tick."""
        return None if self.tick is None else max(0, self.now_unix_ms - self.tick.snapshot.now_ns // 1_000_000)

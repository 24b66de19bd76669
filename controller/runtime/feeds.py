"""What the loop publishes for those who follow it: plans, the topology, telemetry and events, and lines of the log."""

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from heddle.controller.model.effect import Condition, Note
from heddle.controller.model.job_state import JobState
from heddle.controller.model.log_event import LogEvent
from heddle.controller.model.plan import JobPlan
from heddle.controller.runtime.owners import Owners
from heddle.controller.runtime.ports import Clock
from heddle.controller.runtime.telemetry import Telemetry
from heddle.controller.runtime.watch import Watchers

TOPOLOGY = "topology"
MAX_ANNOUNCED = 10_000
_LOG = logging.getLogger("heddle.controller")
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Announced(NamedTuple):
    """A published generation of a job's plan, and why there is one."""

    unix_ms: int
    job_id: str
    generation: int
    state: JobState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeds:
    """Where values are published; a reader gets the one that it follows."""

    clock: Clock
    telemetry: Telemetry = field(default_factory=Telemetry)
    plans: Watchers[JobPlan] = field(default_factory=Watchers)
    topology: Watchers[int] = field(default_factory=Watchers)
    owners: Owners = field(default_factory=Owners)
    announced: deque[Announced] = field(default_factory=lambda: deque(maxlen=MAX_ANNOUNCED))
    """The newest generations of jobs that were published, oldest first."""

    def announce(self, plan: JobPlan) -> None:
        """Publish a generation of a job's plan."""
        self.announced.append(Announced(self.clock.unix_ms(), plan.job_id, plan.generation, plan.state, plan.reason))
        self.owners.announced(plan)
        self.plans.publish(plan.job_id, plan)

    def topology_changed(self, generation: int) -> None:
        """Publish a generation of the topology."""
        self.topology.publish(TOPOLOGY, generation)

    def note(self, note: Note) -> None:
        """Write a line to the log and publish it as an event."""
        _LOG.log(_LEVELS[note.severity], "%s: %s", note.subject, note.text)
        self.telemetry.note(note, self.clock.unix_ms())

    def condition(self, condition: Condition) -> None:
        """Write a condition that is raised or cleared to the log, and publish it as an event."""
        severity, verb = ("warning", "raised") if condition.raised else ("info", "cleared")
        _LOG.log(_LEVELS[severity], "%s %s: %s", condition.kind, verb, condition.text)
        event = LogEvent(
            timestamp_unix_ns=self.clock.unix_ms() * 1_000_000,
            severity=severity,
            kind=f"{condition.kind}_{verb}",
            subject=condition.subject,
            text=condition.text,
        )
        self.telemetry.publish_events((event,))

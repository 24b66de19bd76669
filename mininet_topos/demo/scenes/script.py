"""The times that all scenes have in common, and the parts of a scene."""

from typing import TYPE_CHECKING, Protocol

from heddle.mininet_topos.demo.results.judgement import Check
from heddle.mininet_topos.traffic.cast import Cast

if TYPE_CHECKING:
    from heddle.mininet_topos.traffic.stage import Played, Stage

SECONDS = 4.5
ACT_S = 1.2
"""The duration of every run, and when something happens in it."""
PATIENCE_S = 10.0
"""How much longer a run goes on while a decision of the controller is missing: a busy machine delays it, no more."""
RECOVERY_S = 2.0
"""How soon goodput must be that of the plan in force."""
PAYLOAD_PART = 4096 / 4158
"""Payload over frame."""


class Scene(Protocol):
    """One scene. `planned` is played first: it chooses what `hashed` repeats under ECMP.

    `loses_packets`: it loses packets that no queue counts, on a cable that is cut or by the rule of a quarantine.
    """

    kind: str
    title: str
    watched: str
    needs_telemetry: bool
    loses_packets: bool

    def planned(self, stage: "Stage") -> Cast:
        """Submit what runs from the start, and return the cast; raises UnfitFabricError."""

    def hashed(self, stage: "Stage") -> Cast:
        """Return the cast of the same scene under ECMP."""

    def checks(self, played: "Played") -> tuple[Check, ...]:
        """Return the verdict on a planned run."""

    def caused(self, played: "Played") -> bool:
        """Return whether what the controller had to react to has happened, as far as packets show."""

    def end(self, stage: "Stage") -> None:
        """Undo what has happened to the fabric, however far the run came; jobs are released by the caller."""

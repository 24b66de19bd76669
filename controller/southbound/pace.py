"""Measure how fast a switch acknowledges rules, and limit how long it may take; has no clock of its own.

A barrier may take a base time and a multiple of what the outstanding rules take at the measured rate, and twice as long
after each missed one: a slow switch is not cut again and again, and one that never replies is cut ever more rarely.
"""

from heddle.controller.southbound.settings import SouthboundSettings

MARGIN = 3.0
"""Rules may take so many times as long as measured: tables that fill up become slower."""
ASSUMED_RULES_PER_S = 200.0
"""The rate of a switch that has not been measured: slow hardware."""
MIN_MEASURED_RULES = 20
"""The rate is measured on batches of so many rules: round trips dominate smaller ones."""
MIN_MEASURED_S = 0.001
MAX_DOUBLINGS = 16
_RECOVERY = 0.25
"""A lower rate counts at once; of a higher one a quarter, as short batches may fit a buffer."""


class Pace:
    """The pace of one switch, which outlives its sessions."""

    def __init__(self, settings: SouthboundSettings) -> None:
        self.rules_per_s: float | None = None
        self.cuts = 0
        """The sessions in a row that ended because a barrier was missed."""
        self.unacknowledged = 0
        """The rules that were outstanding then, less those acknowledged since."""
        self._settings = settings

    def limit_s(self, rules: int) -> float:
        """Return within how many seconds a barrier behind so many outstanding rules is due."""
        rate = self.rules_per_s or ASSUMED_RULES_PER_S
        return self.doubled(self._settings.barrier_timeout_s + MARGIN * rules / rate)

    def doubled(self, seconds: float) -> float:
        """Return a time after the cuts so far."""
        return min(self._settings.max_barrier_timeout_s, seconds * (1 << min(self.cuts, MAX_DOUBLINGS)))

    def replied(self, rules: int, seconds: float) -> None:
        """Record a barrier reply behind so many rules, the seconds after the first of them was sent.

        The limit is as before the cuts once as many rules are acknowledged as were outstanding.
        """
        if rules >= MIN_MEASURED_RULES:
            now, before = rules / max(seconds, MIN_MEASURED_S), self.rules_per_s
            slower = before is None or now < before
            self.rules_per_s = now if slower or before is None else before + (now - before) * _RECOVERY
        self.unacknowledged -= rules
        if self.unacknowledged <= 0:
            self.cuts, self.unacknowledged = 0, 0

    def missed(self, rules: int) -> None:
        """Record that a barrier behind so many rules got no reply in time."""
        self.cuts += 1
        self.unacknowledged = max(self.unacknowledged, rules)

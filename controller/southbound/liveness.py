"""Detect a dead switch from the bytes and messages received per echo period; has no clock of its own.

Any byte counts as a sign of life, because a large reply takes longer than a period. A peer that sends bytes but does
not complete a message for `silent_periods` is dead as well.
"""

from enum import Enum

from heddle.controller.southbound.settings import SouthboundSettings


class Verdict(Enum):
    """The result of one echo period."""

    UNCHANGED = "unchanged"
    SUSPECT = "suspect"
    RECOVERED = "recovered"
    DEAD = "dead"


class Liveness:
    """Counter of silent periods. The caller sends one echo request per call of `after_period`."""

    def __init__(self, settings: SouthboundSettings) -> None:
        self.reason = ""
        self._settings = settings
        self._missed = 0
        self._without_message = 0
        self._suspect = False
        self._seen_bytes = 0
        self._seen_messages = 0

    def after_period(self, bytes_in: int, messages_in: int) -> Verdict:
        """Return the verdict from the totals received so far."""
        self._missed = 0 if bytes_in != self._seen_bytes else self._missed + 1
        self._without_message = 0 if messages_in != self._seen_messages else self._without_message + 1
        self._seen_bytes, self._seen_messages = bytes_in, messages_in
        if self._missed >= self._settings.close_after:
            self.reason = f"{self._missed} echo requests got no reply"
            return Verdict.DEAD
        if self._without_message >= self._settings.silent_periods:
            self.reason = f"a message was left unfinished for {self._without_message} echo periods"
            return Verdict.DEAD
        return self._change(self._missed >= self._settings.suspect_after)

    def _change(self, suspect: bool) -> Verdict:
        if suspect == self._suspect:
            return Verdict.UNCHANGED
        self._suspect = suspect
        return Verdict.SUSPECT if suspect else Verdict.RECOVERED

"""What every port of a fabric hears, as last reported. Bounded by the ports of the fabric, and by bytes for each."""

from collections.abc import Mapping

from heddle.telemetry.neighbours.heard import MAX_SENDERS, Heard, heard_of

MAX_HEARD_BYTES = 8_192
"""More than MAX_SENDERS neighbours whose names all have 255 bytes."""


class HeardTable:
    """The newest report of each port; a report that repeats the one before costs a comparison of bytes.

    A port keeps what it was last reported to hear: an agent that ends, or a daemon that does not reply, says nothing.
    """

    def __init__(self) -> None:
        self._heard: dict[str, Heard] = {}
        self._reports: dict[str, bytes] = {}
        self._is_changed = False

    def store(self, port: str, report: bytes) -> bool:
        """Keep the report of a port of the fabric; return False for one that is malformed or too large."""
        if self._reports.get(port) == report:
            return True
        heard = heard_of(report) if len(report) <= MAX_HEARD_BYTES else None
        if heard is None or len(heard.senders) > MAX_SENDERS:
            return False
        self._reports[port] = report
        self._is_changed = self._is_changed or self._heard.get(port) != heard
        self._heard[port] = heard
        return True

    def changed(self) -> Mapping[str, Heard] | None:
        """Return what all ports hear, for any thread, if it has changed since the last call; else None."""
        if not self._is_changed:
            return None
        self._is_changed = False
        return dict(self._heard)

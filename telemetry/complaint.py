"""Count invalid and unusual input, and log it at most once per source, kind and minute.

The size of the table is bounded: sources outside the fabric file share one entry per kind.
"""

from collections import Counter
from dataclasses import dataclass

MINUTE_NS = 60 * 1_000_000_000
UNKNOWN = "unknown sources"


@dataclass(frozen=True, slots=True)
class Complaint:
    """A log line: how often a source caused a kind of complaint since the last such line, and the latest case."""

    source: str
    kind: str
    count: int
    text: str

    @property
    def line(self) -> str:
        """Return the line without the source."""
        times = "" if self.count == 1 else f" ({self.count} times)"
        return f"{self.kind.replace('_', ' ')}{times}: {self.text}"

    def __str__(self) -> str:
        return f"{self.source}: {self.line}"


class Complaints:
    """Counts by kind, for metrics, and the pending log lines."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._waiting: dict[tuple[str, str], tuple[int, str]] = {}
        self._logged_ns: dict[tuple[str, str], int] = {}

    def add(self, kind: str, source: str, text: str, count: int = 1) -> None:
        """Count a complaint; `source` is a name of the fabric file, or UNKNOWN."""
        self.counts[kind] += count
        before, _ = self._waiting.get((source, kind), (0, ""))
        self._waiting[source, kind] = (before + count, text)

    def due(self, now_ns: int) -> tuple[Complaint, ...]:
        """Return the lines to log now; those logged less than a minute ago stay pending."""
        for key, logged in list(self._logged_ns.items()):
            if not 0 <= now_ns - logged < MINUTE_NS:
                del self._logged_ns[key]
        found = []
        for key in [key for key in self._waiting if key not in self._logged_ns]:
            count, text = self._waiting.pop(key)
            self._logged_ns[key] = now_ns
            found.append(Complaint(key[0], key[1], count, text))
        return tuple(found)

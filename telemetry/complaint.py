"""Bad and odd input: counted always, told once per source and minute.

The table's size is bounded: a kind and one of the fabric's switches or hosts make an entry, everyone else shares one.
"""

from collections import Counter
from dataclasses import dataclass

MINUTE_NS = 60 * 1_000_000_000
UNKNOWN = "unknown sources"


@dataclass(frozen=True, slots=True)
class Complaint:
    """A line for the log: how often a source did something since the last such line, and the last case of it."""

    source: str
    kind: str
    count: int
    text: str

    @property
    def line(self) -> str:
        """Return what happened, without whose."""
        times = "" if self.count == 1 else f" ({self.count} times)"
        return f"{self.kind.replace('_', ' ')}{times}: {self.text}"

    def __str__(self) -> str:
        return f"{self.source}: {self.line}"


class Complaints:
    """Counts by kind, for metrics, and the lines that are due."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._waiting: dict[tuple[str, str], tuple[int, str]] = {}
        self._told_ns: dict[tuple[str, str], int] = {}

    def add(self, kind: str, source: str, text: str, count: int = 1) -> None:
        """Count something; `source` is a name of the fabric, or UNKNOWN."""
        self.counts[kind] += count
        before, _ = self._waiting.get((source, kind), (0, ""))
        self._waiting[source, kind] = (before + count, text)

    def due(self, now_ns: int) -> tuple[Complaint, ...]:
        """Return what is to be logged now; what was told less than a minute ago waits."""
        for key, told in list(self._told_ns.items()):
            if not 0 <= now_ns - told < MINUTE_NS:
                del self._told_ns[key]
        found = []
        for key in [key for key in self._waiting if key not in self._told_ns]:
            count, text = self._waiting.pop(key)
            self._told_ns[key] = now_ns
            found.append(Complaint(key[0], key[1], count, text))
        return tuple(found)

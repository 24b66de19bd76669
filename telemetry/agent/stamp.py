"""Assign sequence numbers per port, and leave out samples without new counters.

A port's first number is the Unix time in periods; each further sample has the next number. A collector thus sees every
missing sample as a gap. A restarted agent continues above its earlier numbers, with its down time as the gap.
"""

from collections.abc import Iterable
from dataclasses import replace

from heddle.telemetry.samples.sample import PortSample


class Stamps:
    """The last sequence number and timestamp of each port; `unchanged` counts samples left out."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._last: dict[str, tuple[int, int]] = {}
        self.unchanged = 0

    def stamp(self, samples: Iterable[PortSample], now_unix_ns: int) -> list[PortSample]:
        """Return the samples with sequence numbers, without those whose timestamp equals the previous one.

        Those come from a device that no longer updates its counters; published again, it would appear alive.
        """
        stamped = []
        for sample in samples:
            last = self._last.get(sample.port)
            if last is not None and last[1] == sample.timestamp_unix_ns:
                self.unchanged += 1
                continue
            sequence = now_unix_ns // self._period_ns if last is None else last[0] + 1
            self._last[sample.port] = sequence, sample.timestamp_unix_ns
            stamped.append(replace(sample, sequence=sequence))
        return stamped

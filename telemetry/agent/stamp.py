"""Sequence numbers, counted per port, and samples that say nothing new.

A port's first number is the time in periods, and from there on each sample has the next one. So a collector sees every
sample that is missing as a gap, and an agent that begins again goes on above what it has sent before, with the time
it was away as the gap.
"""

from collections.abc import Iterable
from dataclasses import replace

from telemetry.samples.sample import PortSample


class Stamps:
    """The last number and timestamp of each port; `unchanged` counts samples left out."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._last: dict[str, tuple[int, int]] = {}
        self.unchanged = 0

    def stamp(self, samples: Iterable[PortSample], now_unix_ns: int) -> list[PortSample]:
        """Return the samples with their sequence, without those whose counters were taken at the same time as before.

        Those come from a device that has stopped telling: sent again, they would look alive.
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

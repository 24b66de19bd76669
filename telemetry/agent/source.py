"""What an agent reads: a source tells the counters of one or more devices, as often as it is asked.

A source knows its origin and nothing of the bus. It leaves `sequence` at 0, which the agent counts; it gives the time
at which the counters were taken, and a `boot_id` that stays the same for as long as they only grow, also over a
restart of the agent.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from telemetry.samples.sample import PortSample
from telemetry.samples.topic import Source

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}(:[0-9]{1,5})?\Z")
_TOP = 1 << 63


class SourceError(Exception):
    """The origin cannot be read now: why, in one line. The agent says so and asks again at the next period."""


@dataclass(frozen=True, slots=True)
class DeviceSamples:
    """Samples of one switch's ports or one host's NICs, which travel under one topic."""

    kind: Source
    device: str
    samples: Sequence[PortSample]


class CounterSource(Protocol):
    """Reads one origin. `name` stands in the log.

    reads_per_period: 1 where a read tells the counters of now. Where the origin tells them at times of its own, more:
    else what it told just after a read waits for the next. Such a source still gives a port once a period or so.
    """

    name: str
    reads_per_period: int

    async def read(self, now_unix_ns: int) -> Sequence[DeviceSamples]:
        """Return the counters of now; raises SourceError. Ends within a second or so, or stays cancellable."""
        ...

    async def close(self) -> None:
        """Let go of what is held open."""
        ...


def is_sound(sample: PortSample) -> bool:
    """Say whether a collector could take a sample: one that it cannot would spoil the message for all others."""
    return bool(_NAME.match(sample.port)) and 0 < sample.timestamp_unix_ns < _TOP and 0 <= sample.boot_id < 2 * _TOP

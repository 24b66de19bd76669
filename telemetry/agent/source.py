"""The interface of a counter source: `read` returns the current counters of one or more devices.

A source leaves `sequence` at 0; the agent assigns it. It sets the time at which the counters were taken, and a
`boot_id` that is constant while the counters only grow, also across restarts of the agent. A device without a boot id
gets one from `telemetry.agent.restart.Restarts`.

`PortSample.port` is the fabric's id of the port (`leaf1:3`) or NIC; mapping the device's names to it is the source's
work. A source that receives pushed updates keeps the newest values and returns them from `read`, with the device's own
times: the agent drops a sample with the time of the previous one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from heddle.telemetry.samples.sample import PortSample
from heddle.telemetry.samples.topic import Source

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}(:[0-9]{1,5})?\Z")
_TOP = 1 << 63


class SourceError(Exception):
    """The source cannot be read now; the text is one line. The agent logs it and reads again at the next period."""


@dataclass(frozen=True, slots=True)
class DeviceSamples:
    """Samples of one switch's ports or one host's NICs, published under one topic."""

    kind: Source
    device: str
    samples: Sequence[PortSample]


class CounterSource(Protocol):
    """A source of counters; `name` identifies it in the log.

    reads_per_period: 1 if a read returns the current counters. More if the device updates them at its own times, so
    that an update just after a read does not wait a whole period; such a source returns each port once per period.
    """

    name: str
    reads_per_period: int

    async def read(self, now_unix_ns: int) -> Sequence[DeviceSamples]:
        """Return the current counters; raises SourceError. Returns within about a second, or can be cancelled."""
        ...

    async def close(self) -> None:
        """Release open files and connections."""
        ...


def is_sound(sample: PortSample) -> bool:
    """Return whether a collector accepts a sample; one invalid sample would make it refuse the whole message."""
    return bool(_NAME.match(sample.port)) and 0 < sample.timestamp_unix_ns < _TOP and 0 <= sample.boot_id < 2 * _TOP

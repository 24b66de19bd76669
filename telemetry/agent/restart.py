"""Derive boot ids for devices that have none: a counter that decreases has restarted.

The id is a hash of the identity of the device's run (an ifindex, an object id) and of the number of restarts seen by
this agent. It is therefore stable across restarts of the agent, and changes when the counters restart.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from heddle.telemetry.samples.counters import LINK_COUNTERS, PORT_COUNTERS, QUEUE_COUNTERS
from heddle.telemetry.samples.sample import PortSample

_HALF_32, _TOP_32 = 1 << 31, 1 << 32
_HALF_64 = 1 << 63


class Restarts:
    """The last counters of each port."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, int, dict[str, int]]] = {}

    def identified(self, sample: PortSample, identity: str) -> PortSample:
        """Return the sample with a boot id."""
        return replace(sample, boot_id=self.boot_id(sample.port, identity, growing(sample)))

    def boot_id(self, port: str, identity: str, counters: Mapping[str, int]) -> int:
        """Return the boot id of these counters; a wrap at 32 or 64 bits is not a restart.

        A counter that is missing keeps its last value for the comparison with the next one.
        """
        before = self._seen.get(port)
        restarts, seen = 0, {}
        if before is not None and before[0] == identity:
            restarts, seen = before[1], before[2]
            if any(_restarted(seen[name], value) for name, value in counters.items() if name in seen):
                restarts, seen = restarts + 1, {}
        self._seen[port] = identity, restarts, {**seen, **counters}
        digest = blake2b(f"{port}\0{identity}\0{restarts}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1


def growing(sample: PortSample) -> dict[str, int]:
    """Return the cumulative counters of a sample by name."""
    found = {name: getattr(sample, name) for name in PORT_COUNTERS}
    for queue in sample.queues:
        found |= {f"{queue.priority} {name}": getattr(queue, name) for name in QUEUE_COUNTERS}
    known = {name: value for name in LINK_COUNTERS if (value := getattr(sample, name)) is not None}
    return {**found, **known, **sample.nic_counters}


def _restarted(old: int, new: int) -> bool:
    if new >= old:
        return False
    wrapped = (_HALF_32 <= old < _TOP_32 and new < _HALF_32) or (old >= _HALF_64 > new)
    return not wrapped

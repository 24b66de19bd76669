"""The clock of kernels, read once per burst."""

from numba import types

from heddle.dataplane.jit import Bytes, inline
from heddle.dataplane.packet.intrinsics import address_of
from heddle.dataplane.packet.memory import native64

_MONOTONIC = 1  # CLOCK_MONOTONIC of time.h
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))

AHEAD = 16
CLOCK_BYTES = 24
"""Bytes of a clock: scratch memory for clock_gettime (struct timespec), and from AHEAD on what it adds, in ns."""


@inline
def now_ns(clock: Bytes) -> int:
    """Return CLOCK_MONOTONIC in nanoseconds, which all processes of a machine share, plus what the clock is ahead."""
    _clock_gettime(_MONOTONIC, address_of(clock, 0))
    return native64(clock, 0) * 1_000_000_000 + native64(clock, 8) + native64(clock, AHEAD)

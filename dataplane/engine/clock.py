"""The clock of kernels, read once per burst."""

from numba import types

from heddle.dataplane.jit import Bytes, inline
from heddle.dataplane.packet.intrinsics import address_of
from heddle.dataplane.packet.memory import native64

_MONOTONIC = 1  # CLOCK_MONOTONIC of time.h
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))

CLOCK_BYTES = 16
"""Bytes of scratch memory for clock_gettime (struct timespec)."""


@inline
def now_ns(scratch: Bytes) -> int:
    """Return CLOCK_MONOTONIC in nanoseconds, which all processes of a machine share."""
    _clock_gettime(_MONOTONIC, address_of(scratch, 0))
    return native64(scratch, 0) * 1_000_000_000 + native64(scratch, 8)

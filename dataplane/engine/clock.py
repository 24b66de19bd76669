"""The time, as kernels read it: once a burst."""

from numba import types

from dataplane.jit import Bytes, inline
from dataplane.packet.intrinsics import address_of
from dataplane.packet.memory import native64

_MONOTONIC = 1  # CLOCK_MONOTONIC of time.h
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))

CLOCK_BYTES = 16
"""Of the array that `now_ns` needs for the kernel's answer (struct timespec)."""


@inline
def now_ns(scratch: Bytes) -> int:
    """Return the nanoseconds of a clock that only goes forward, the same in all processes of a machine."""
    _clock_gettime(_MONOTONIC, address_of(scratch, 0))
    return native64(scratch, 0) * 1_000_000_000 + native64(scratch, 8)

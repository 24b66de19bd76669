"""System calls from compiled code. Symbols are resolved when a kernel is loaded, so kernels can be cached on disk."""

from numba import types

from heddle.dataplane.jit import Bytes, inline
from heddle.dataplane.packet.intrinsics import address_of, make_load

_int, _long = types.int32, types.int64
sendto = types.ExternalFunction("sendto", _long(_int, _long, _long, _int, _long, _int))
recvfrom = types.ExternalFunction("recvfrom", _long(_int, _long, _long, _int, _long, _long))
sendmmsg = types.ExternalFunction("sendmmsg", _int(_int, _long, _int, _int))
poll = types.ExternalFunction("poll", _int(_long, _long, _int))
_errno_location = types.ExternalFunction("__errno_location", _long())
_load32 = make_load(32, False)

MSG_DONTWAIT = 0x40
POLLIN = 1


@inline
def errno(memory: Bytes) -> int:
    """Return the error number of the last failed call; `memory` is any array."""
    return _load32(memory, _errno_location() - address_of(memory, 0))

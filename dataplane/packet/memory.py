"""Read and write network-order fields at any byte of a frame, from compiled code.

NumPy views cannot do this: the inner IP header of a VXLAN packet is not aligned, and assembling bytes by shifts is 4.5
times slower than an unaligned load and a byte swap. All values are int64; a 64-bit field keeps its bit pattern, so a
field with the top bit set reads as a negative number.

Ring words that the kernel or another process writes are read by `acquire` and written by `release`; otherwise the
compiler could move other accesses across them, or hoist the read out of its loop.
"""

from heddle.dataplane.jit import CHECKED, Bytes, inline
from heddle.dataplane.packet.intrinsics import make_load, make_store, move

WORD = 0xFFFF_FFFF
"""The low 32 bits of an int64."""

_load8, _store8 = make_load(8, False), make_store(8, False)
_load16, _load32, _load64 = make_load(16, True), make_load(32, True), make_load(64, True)
_store16, _store32, _store64 = make_store(16, True), make_store(32, True), make_store(64, True)
_native32, _native64 = make_load(32, False), make_load(64, False)
_set_native32, _set_native64 = make_store(32, False), make_store(64, False)
_acquire32, _acquire64 = make_load(32, False, "acquire"), make_load(64, False, "acquire")
_release32, _release64 = make_store(32, False, "release"), make_store(64, False, "release")


@inline
def _check(memory: Bytes, at: int, count: int) -> None:
    if CHECKED and (at < 0 or count < 0 or at + count > memory.size):
        raise IndexError("access outside of the packets' memory")


@inline
def load8(memory: Bytes, at: int) -> int:
    """Return a byte."""
    _check(memory, at, 1)
    return _load8(memory, at)


@inline
def store8(memory: Bytes, at: int, value: int) -> None:
    """Write a byte."""
    _check(memory, at, 1)
    _store8(memory, at, value)


@inline
def load16(memory: Bytes, at: int) -> int:
    """Return 2 bytes in network order."""
    _check(memory, at, 2)
    return _load16(memory, at)


@inline
def load32(memory: Bytes, at: int) -> int:
    """Return 4 bytes in network order."""
    _check(memory, at, 4)
    return _load32(memory, at)


@inline
def load64(memory: Bytes, at: int) -> int:
    """Return 8 bytes in network order, as a bit pattern."""
    _check(memory, at, 8)
    return _load64(memory, at)


@inline
def store16(memory: Bytes, at: int, value: int) -> None:
    """Write 2 bytes in network order."""
    _check(memory, at, 2)
    _store16(memory, at, value)


@inline
def store32(memory: Bytes, at: int, value: int) -> None:
    """Write 4 bytes in network order."""
    _check(memory, at, 4)
    _store32(memory, at, value)


@inline
def store64(memory: Bytes, at: int, value: int) -> None:
    """Write 8 bytes in network order."""
    _check(memory, at, 8)
    _store64(memory, at, value)


@inline
def native32(memory: Bytes, at: int) -> int:
    """Return 4 bytes in the machine's order: a field of a ring."""
    _check(memory, at, 4)
    return _native32(memory, at)


@inline
def native64(memory: Bytes, at: int) -> int:
    """Return 8 bytes in the machine's order."""
    _check(memory, at, 8)
    return _native64(memory, at)


@inline
def set_native32(memory: Bytes, at: int, value: int) -> None:
    """Write 4 bytes in the machine's order."""
    _check(memory, at, 4)
    _set_native32(memory, at, value)


@inline
def set_native64(memory: Bytes, at: int, value: int) -> None:
    """Write 8 bytes in the machine's order."""
    _check(memory, at, 8)
    _set_native64(memory, at, value)


@inline
def acquire32(memory: Bytes, at: int) -> int:
    """Return 4 aligned bytes that another thread or process writes; its earlier writes are visible after this."""
    _check(memory, at, 4)
    return _acquire32(memory, at)


@inline
def acquire64(memory: Bytes, at: int) -> int:
    """Return 8 aligned bytes that another thread or process writes; its earlier writes are visible after this."""
    _check(memory, at, 8)
    return _acquire64(memory, at)


@inline
def release32(memory: Bytes, at: int, value: int) -> None:
    """Write 4 aligned bytes that another thread or process reads, after all earlier writes."""
    _check(memory, at, 4)
    _release32(memory, at, value)


@inline
def release64(memory: Bytes, at: int, value: int) -> None:
    """Write 8 aligned bytes that another thread or process reads, after all earlier writes."""
    _check(memory, at, 8)
    _release64(memory, at, value)


@inline
def copy(memory: Bytes, to: int, source: Bytes, at: int, count: int) -> None:
    """Copy `count` bytes of `source` from `at` to byte `to` of `memory`; the two may overlap."""
    _check(memory, to, count)
    _check(source, at, count)
    move(memory, to, source, at, count)

"""One address range for all memory that kernels use, so that offsets in one array of bytes reach all of it.

The range is reserved without memory; parts of it are then backed by memory of the process, or by rings of the
operating system, mapped at fixed addresses (MAP_FIXED, mmap(2)).
"""

import ctypes
import mmap
import os

import numpy as np

from heddle.dataplane.io.fault import PortError
from heddle.dataplane.jit import Bytes

PROT_NONE, MAP_FIXED, MAP_NORESERVE = 0, 0x10, 0x4000
HUGE_PAGE_BYTES = 2 << 20
MADV_DONTFORK, MADV_HUGEPAGE = 10, 14

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_FAILED = ctypes.c_void_p(-1).value


class Arena:
    """A reserved address range; `memory` is all of it, of which only the allocated parts may be accessed."""

    def __init__(self, size_bytes: int) -> None:
        """Reserve addresses; raises PortError if the process may not have so many."""
        self.size_bytes = _rounded(size_bytes, HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        self.address = _map(None, self.size_bytes, PROT_NONE, flags, -1, 0)
        self.memory: Bytes = np.ctypeslib.as_array((ctypes.c_uint8 * self.size_bytes).from_address(self.address))
        self._used = 0

    def own_memory(self, size_bytes: int) -> int:
        """Allocate zeroed memory, in huge pages if available; return its offset."""
        offset = self._next(size_bytes, HUGE_PAGE_BYTES if size_bytes >= HUGE_PAGE_BYTES else mmap.PAGESIZE)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED
        _map(self.address + offset, size_bytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        # The kernel writes to these pages while a socket is open: a child process must not share them.
        _libc.madvise(self.address + offset, size_bytes, MADV_DONTFORK)
        _libc.madvise(self.address + offset, size_bytes, MADV_HUGEPAGE)
        return offset

    def ring_of(self, fd: int, size_bytes: int, page_offset: int = 0) -> int:
        """Map a ring of a socket; return its offset."""
        offset = self._next(size_bytes, mmap.PAGESIZE)
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE | MAP_FIXED
        _map(self.address + offset, size_bytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, page_offset)
        return offset

    def close(self) -> None:
        """Unmap the range; `memory` must not be accessed any more."""
        self.memory = np.zeros(1, np.uint8)
        _libc.munmap(self.address, self.size_bytes)

    def _next(self, size_bytes: int, alignment: int) -> int:
        offset = _rounded(self.address + self._used, alignment) - self.address
        if offset + size_bytes > self.size_bytes:
            raise PortError(f"{size_bytes} bytes do not fit into the {self.size_bytes} reserved for frames and rings")
        self._used = offset + _rounded(size_bytes, mmap.PAGESIZE)
        return offset


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _map(address: int | None, size_bytes: int, protection: int, flags: int, fd: int, offset: int) -> int:
    mapped = _libc.mmap(address, size_bytes, protection, flags, fd, offset)
    if mapped == _FAILED or mapped is None:
        reason = os.strerror(ctypes.get_errno())
        raise PortError(f"{size_bytes} bytes for frames and rings cannot be mapped: {reason}; see `ulimit -v -l`")
    return int(mapped)

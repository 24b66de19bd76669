"""Keep memory that large arrays have freed, for a process that plans: Linux fills each page that it gives with zeros.

By default glibc returns large arrays to the system when they are freed, and gets pages anew for the next ones: a
quarter of the time of a plan of 131,000 flows.
"""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
LARGEST_BYTES = 32 << 20
"""Up to this size a block is of the heap; glibc takes no more (mallopt(3))."""
KEPT_BYTES = 256 << 20
"""The heap's end is returned to the system once more than this is free there."""
MAX_TOUCHED_BYTES = 64 << 20
PLAN_BYTES_OF_A_NIC = 2_048
"""What a plan of 8 flows a NIC writes to, divided by the NICs: 131,000 flows write to 30 MB."""


def keep_memory(touched_bytes: int = 0) -> bool:
    """Keep what is freed from now on; write to so many bytes once, up to MAX_TOUCHED_BYTES, so that they are there.

    Returns False, and does nothing, where the C library is not glibc. Only arrays of the main thread are of its heap.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or not (mallopt(_MMAP_THRESHOLD, LARGEST_BYTES) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES)):
        return False
    touched_bytes = min(touched_bytes, MAX_TOUCHED_BYTES)
    size = min(LARGEST_BYTES // 2, touched_bytes)
    blocks = [bytearray(size) for _ in range(touched_bytes // size)] if size else []
    for block in blocks:
        block[::4096] = b"\1" * len(block[::4096])  # zeros may be of pages that are not there yet
    return True

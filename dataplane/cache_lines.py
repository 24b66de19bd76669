"""Arrays aligned to cache lines, so that a row of whole cache lines does not straddle one more."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

CACHE_LINE = 64


def zeros_at_a_line(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return zeros that begin at a cache line."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(kind).reshape(shape)


def at_a_line(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of an array that begins at a cache line."""
    found = zeros_at_a_line(array.shape, array.dtype)
    found[...] = array
    return found

"""Arrays that begin where a line of the processor's cache does: a row of as many bytes then lies in no more lines."""

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

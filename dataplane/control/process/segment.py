"""Shared memory as named numpy arrays: created by one process, mapped by another, freed when the last one ends.

A segment is a memfd (memfd_create(2)): it has no name in a file system, so a killed process leaves nothing behind. Its
layout: 8 bytes with the length of a JSON list of (name, dtype, shape, offset), that list, then the arrays, each aligned
to ALIGNMENT bytes.
"""

import json
import mmap
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
MAX_DESCRIPTION_BYTES = 1 << 20
_LENGTH_BYTES = 8

Array = NDArray[Any]


class Shape(NamedTuple):
    """Shape and type of an array to create."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class SegmentError(ValueError):
    """The file is not a segment, or is damaged."""


class Segment:
    """Named arrays in shared memory."""

    def __init__(self, fd: int, arrays: dict[str, Array]) -> None:
        self.fd = fd
        self.arrays = arrays

    def close(self) -> None:
        """Close the file; the memory stays mapped while any of the arrays is in use."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        self.arrays = {}


def make(name: str, shapes: Mapping[str, Shape]) -> Segment:
    """Make a segment of zeros; `name` is what /proc/PID/maps shows. Raises OSError where memory is refused."""
    rows: list[tuple[str, Any, list[int], int]] = []
    at = 0
    for key, wanted in shapes.items():
        at = _aligned(at)
        rows.append((key, _dtype_text(wanted.dtype), list(wanted.shape), at))
        at += int(np.prod(wanted.shape, dtype=np.int64)) * wanted.dtype.itemsize
    description = json.dumps(rows).encode()
    start = _aligned(_LENGTH_BYTES + len(description))
    fd = os.memfd_create(f"heddle-{name}", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, max(start + at, 1))
        os.pwrite(fd, len(description).to_bytes(_LENGTH_BYTES, "little") + description, 0)
        return attach(fd)
    except BaseException:
        os.close(fd)
        raise


def filled(name: str, arrays: Mapping[str, Array]) -> Segment:
    """Make a segment that holds copies of these arrays."""
    made = make(name, {key: Shape(array.shape, array.dtype) for key, array in arrays.items()})
    for key, array in arrays.items():
        made.arrays[key][...] = array
    return made


def attach(fd: int) -> Segment:
    """Map a segment and take its file over; raises SegmentError where it is none."""
    size = os.fstat(fd).st_size
    if size < _LENGTH_BYTES:
        raise SegmentError("too short for a segment")
    memory = mmap.mmap(fd, size)
    length = int.from_bytes(memory[:_LENGTH_BYTES], "little")
    if length > min(size - _LENGTH_BYTES, MAX_DESCRIPTION_BYTES):
        raise SegmentError("a damaged segment: its description is longer than the file")
    start = _aligned(_LENGTH_BYTES + length)
    try:
        rows = json.loads(memory[_LENGTH_BYTES : _LENGTH_BYTES + length])
        arrays = {key: _view(memory, start + at, shape, _dtype(dtype)) for key, dtype, shape, at in rows}
    except (ValueError, TypeError) as fault:
        raise SegmentError(f"a damaged segment: {fault}") from None
    return Segment(fd, arrays)


def _view(memory: mmap.mmap, at: int, shape: list[int], dtype: np.dtype[Any]) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(memory, dtype, count, at).reshape(shape)


def _aligned(at: int) -> int:
    return -(-at // ALIGNMENT) * ALIGNMENT


def _dtype_text(dtype: np.dtype[Any]) -> Any:
    """Return what JSON can hold: a plain type's name, or a row's (field, type) pairs."""
    if dtype.names is None:
        return dtype.str
    if dtype != np.dtype([(name, dtype[name]) for name in dtype.names]):
        raise ValueError("rows with gaps between their fields are not kept")
    return [(name, dtype[name].str) for name in dtype.names]


def _dtype(text: Any) -> np.dtype[Any]:
    return np.dtype(text if isinstance(text, str) else [(name, kind) for name, kind in text])

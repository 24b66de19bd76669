"""Shared memory as named arrays: one process writes, another reads the arrays by name."""

import os
from typing import Any

import numpy as np
import pytest

from heddle.dataplane.control.process import segment
from heddle.dataplane.control.process.segment import Segment, SegmentError, Shape
from heddle.dataplane.engine.counters import PORT_COUNTERS

SHAPES = {
    "words": Shape((8,), np.dtype(np.int64)),
    "frames": Shape((3, 5), np.dtype(np.uint8)),
    "ports": Shape((2,), PORT_COUNTERS),
    "none": Shape((0, 4), np.dtype(np.int64)),
}


def attached_again(made: Segment) -> Segment:
    return segment.attach(os.dup(made.fd))


def test_a_segment_describes_its_arrays() -> None:
    made = segment.make("test", SHAPES)
    found = attached_again(made)
    try:
        assert {key: (array.shape, array.dtype) for key, array in found.arrays.items()} == SHAPES
    finally:
        made.close()
        found.close()


def test_one_process_reads_what_another_writes() -> None:
    made = segment.make("test", SHAPES)
    found = attached_again(made)
    made.arrays["words"][3] = -7
    found.arrays["ports"][1]["tx_bytes"] = 99
    try:
        assert found.arrays["words"].tolist() == [0, 0, 0, -7, 0, 0, 0, 0]
        assert made.arrays["ports"]["tx_bytes"].tolist() == [0, 99]
    finally:
        made.close()
        found.close()


def test_a_filled_segment_holds_copies() -> None:
    own: dict[str, Any] = {"one": np.arange(6).reshape(2, 3), "two": np.array([], np.uint8)}
    made = segment.filled("test", own)
    own["one"][0, 0] = 77
    try:
        assert made.arrays["one"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert made.arrays["two"].size == 0
    finally:
        made.close()


def test_the_memory_outlives_its_file_while_an_array_is_in_use() -> None:
    made = segment.make("test", SHAPES)
    kept = made.arrays["words"]
    made.close()
    kept[0] = 5
    assert kept[0] == 5


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 64, (20).to_bytes(8, "little") + b"{not json" * 9])
def test_a_malformed_segment_is_refused(content: bytes) -> None:
    fd = os.memfd_create("test")
    os.write(fd, content)
    try:
        with pytest.raises(SegmentError):
            segment.attach(fd)
    finally:
        os.close(fd)


def test_an_array_that_a_damaged_description_puts_outside_of_the_file_is_refused() -> None:
    made = segment.make("test", {"words": Shape((8,), np.dtype(np.int64))})
    fd = os.dup(made.fd)
    os.ftruncate(fd, 100)
    try:
        with pytest.raises(SegmentError):
            segment.attach(fd)
    finally:
        made.close()
        os.close(fd)

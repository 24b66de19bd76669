"""A sleep ends when a file is readable, and whether that is the event that wakes the process is known."""

import os

import pytest

from heddle.dataplane.engine.sleep import is_called, sleep, sleepers
from heddle.dataplane.jit import Bytes, kernel

NOTHING, PACKETS, CALLED = range(3)


@kernel
def slept(files: Bytes) -> int:
    """Sleep for a moment; return what ended it."""
    if not sleep(files, 1):
        return 0
    return 2 if is_called(files) else 1


@pytest.mark.parametrize(
    ("ready", "wanted"),
    [((), NOTHING), ((1,), PACKETS), ((0,), CALLED), ((0, 2), CALLED), ((1, 2), PACKETS)],
)
def test_the_first_file_is_the_one_that_calls(ready, wanted):
    events = [os.eventfd(int(number in ready)) for number in range(3)]
    try:
        assert slept(sleepers(events)) == wanted
    finally:
        for event in events:
            os.close(event)

"""A process that plans gets the pages of large arrays once, in a process of its own: the settings stay with it."""

import subprocess
import sys

import pytest

PAGES = 8_192
"""Those of four arrays of 8 MB, which are in use at once."""
PROGRAM = """
import resource, sys
import numpy as np
from heddle.foundation.kept_memory import keep_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [np.ones(1 << 20) for _ in range(4)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()  # what numpy loads first
if sys.argv[1] != "as it is":
    assert keep_memory(int(sys.argv[1]))
print(faults(), faults(), faults())
"""


@pytest.mark.parametrize(
    ("argument", "gets"),
    [("as it is", [True, True, True]), ("0", [True, False, False]), (str(48 << 20), [False, False, False])],
    ids=["by default", "kept", "kept, and touched before"],
)
def test_pages_are_got_anew_for_each_array_only_by_default(argument, gets):
    if not sys.platform.startswith("linux"):
        pytest.skip("mallopt is glibc's")
    huge = {"NUMPY_MADVISE_HUGEPAGE": "0"}  # a huge page would be one fault
    command = [sys.executable, "-c", PROGRAM, argument]
    done = subprocess.run(command, env={"PYTHONPATH": ":".join(sys.path), **huge}, capture_output=True, text=True)
    assert [int(count) > PAGES // 4 for count in done.stdout.split()] == gets, done.stderr

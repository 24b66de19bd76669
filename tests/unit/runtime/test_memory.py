"""What a controller holds is bounded: a day of events, with its clock skipped, in a process of its own."""

import json
import subprocess
import sys

import numpy as np
import pytest

WARM_HOURS = 2
MAX_GROWTH = {"python_bytes": 2_000_000, "resident_bytes": 100_000_000}
"""From the least of the first third after the warm hours to that of the last: buffers of a recording come and go."""


@pytest.mark.parametrize(
    ("hours", "steps_per_hour"), [(7, 3), pytest.param(24, 12, marks=[pytest.mark.soak, pytest.mark.slow])]
)
def test_memory_is_flat_while_jobs_streams_and_networks_come_and_go(hours, steps_per_hour, tmp_path):
    command = [
        sys.executable,
        "-m",
        "tests.support.controllers.compressed_day",
        str(hours),
        str(steps_per_hour),
        str(tmp_path),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=1_200)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["hour"] for row in rows] == list(range(1, hours + 1))
    warm = rows[WARM_HOURS - 1 :]
    third = len(warm) // 3
    for name, most in MAX_GROWTH.items():
        held = [row[name] for row in warm]
        slope = np.polyfit([row["hour"] for row in warm], held, 1)[0]
        print(f"{name}: {held[0]:,} after {WARM_HOURS} h, {held[-1]:,} after {hours} h, {slope:+,.0f} per hour")
        assert min(held[-third:]) - min(held[:third]) < most

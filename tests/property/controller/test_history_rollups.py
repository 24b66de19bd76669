"""Roll-ups equal sums over the raw samples."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.store.database import Database, Retention
from heddle.controller.store.reading import read_rollups
from heddle.controller.store.schema import LEVELS_S
from heddle.controller.store.seconds import Seconds
from heddle.telemetry.samples.counters import COLUMNS, PORT_COUNTERS, QUEUE_COUNTERS, queue_columns
from tests.support.examples import examples
from tests.unit.store.snapshots import snapshot

START_S = 1_790_000_000
NAMES = ("leaf1:1", "leaf1:2", "h1-n0")
NO_EVENTS: Any = [None]  # a transaction ends with them
steps = st.lists(
    st.tuples(
        st.sampled_from((0.1, 0.4, 1.0, 7.0, 61.0, 1_800.0)),  # time that passes
        st.lists(
            st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, COLUMNS - 1), st.integers(1, 10**9)), max_size=6
        ),
        st.lists(st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, 7), st.integers(1, 10**6)), max_size=2),
    ),
    min_size=1,
    max_size=15,
)


def brute_force(samples):
    """Sum the growth of every counter, and take the largest depth, per level, bucket, port and priority."""
    sums, depths, last = Counter(), Counter(), None
    for now_s, total, depth in samples:
        for level in LEVELS_S:
            start = int(now_s) // level * level
            for port in range(len(NAMES)):
                for column in range(COLUMNS):
                    if last is not None:
                        sums[level, start, port, column] += int(total[port, column]) - int(last[port, column])
                for priority in range(8):
                    key = level, start, port, priority
                    depths[key] = max(depths[key], int(depth[port, priority]))
        last = total
    return sums, depths


def written(samples, path, faults):
    """Write the seconds one by one; after some the process dies, or a batch fails and its seconds come again."""
    gathered, seconds = Seconds(), []
    for now_s, total, depth in samples:
        seconds.append(gathered.add(snapshot(now_s, total, depth=depth, names=NAMES)))
    database = Database(path, Retention())
    for number, second in enumerate(second for second in (*seconds, gathered.close()) if second is not None):
        fault = faults.get(number)
        if fault == "fails":
            with pytest.raises(AttributeError):
                database.write(NAMES, [second], NO_EVENTS)
        database.write(NAMES, [second], ())
        if fault == "dies":
            database._connection.close()
            database = Database(path, Retention())
    database.close()


@settings(max_examples=examples(40), deadline=None)
@given(steps, st.dictionaries(st.integers(0, 14), st.sampled_from(("dies", "fails"))))
def test_roll_ups_equal_sums_over_the_raw_samples_whatever_fails(taken, faults):
    samples, now_s, total = [], float(START_S), np.zeros((len(NAMES), COLUMNS), dtype=np.uint64)
    for passed, growths, held in taken:
        now_s += passed
        total = total.copy()
        for port, column, growth in growths:
            total[port, column] += np.uint64(growth)
        depth = np.zeros((len(NAMES), 8), dtype=np.uint64)
        for port, priority, size in held:
            depth[port, priority] = size
        samples.append((now_s, total, depth))
    sums, depths = brute_force(samples)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        written(samples, path, faults)
        found_sums, found_depths = Counter(), Counter()
        for level in LEVELS_S:
            for port, name in enumerate(NAMES):
                ports, queues = read_rollups(path, name, level)
                for start, *values in ports:
                    found_sums.update({(level, start, port, column): value for column, value in enumerate(values)})
                for start, priority, *values, largest in queues:
                    for counter, value in zip(QUEUE_COUNTERS, values, strict=True):
                        found_sums[level, start, port, range(COLUMNS)[queue_columns(counter)][priority]] += value
                    found_depths[level, start, port, priority] = largest
    kept = len(PORT_COUNTERS) + 8 * len(QUEUE_COUNTERS)
    assert +found_sums == Counter({key: value for key, value in sums.items() if value and key[3] < kept})
    assert +found_depths == +depths

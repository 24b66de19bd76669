"""Boot ids of devices that have none."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.telemetry.agent.restart import Restarts, growing
from tests.unit.telemetry.builders import queue, sample


def test_a_boot_id_depends_on_the_run_of_the_device_and_not_on_the_agent():
    first, second = Restarts(), Restarts()
    assert first.boot_id("p", "run 1", {"a": 5}) == second.boot_id("p", "run 1", {"a": 9})
    assert first.boot_id("p", "run 2", {"a": 10}) != second.boot_id("p", "run 1", {"a": 10})


@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=20))
def test_a_boot_id_stays_while_counters_grow(growth):
    restarts, total, seen = Restarts(), 0, set()
    for more in growth:
        total += more
        seen.add(restarts.boot_id("p", "run", {"a": total % (1 << 64), "b": 0}))
    assert len(seen) == 1


def test_a_counter_that_decreases_changes_the_boot_id_once():
    restarts = Restarts()
    before = restarts.boot_id("p", "run", {"a": 1000, "b": 7})
    after = restarts.boot_id("p", "run", {"a": 3, "b": 7})
    assert after != before
    assert restarts.boot_id("p", "run", {"a": 4, "b": 0}) != after  # b has decreased
    assert restarts.boot_id("p", "run", {"a": 5, "b": 1}) == restarts.boot_id("p", "run", {"a": 6, "b": 1})


def test_a_wrap_at_32_bits_is_not_a_restart():
    restarts = Restarts()
    before = restarts.boot_id("p", "run", {"a": (1 << 32) - 10})
    assert restarts.boot_id("p", "run", {"a": 20}) == before


def test_a_counter_that_is_missing_once_keeps_its_place():
    restarts = Restarts()
    before = restarts.boot_id("p", "run", {"a": 100, "b": 1})
    assert restarts.boot_id("p", "run", {"b": 2}) == before
    assert restarts.boot_id("p", "run", {"a": 50, "b": 3}) != before


def test_depths_are_not_counters():
    one = growing(sample(tx_bytes=3, queues=[queue(3, packets=4, depth_bytes=9)]))
    assert one["tx_bytes"] == 3
    assert one["3 packets"] == 4
    assert 9 not in one.values()

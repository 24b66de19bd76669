"""The window: samples it accepts and refuses, totals and growth."""

import numpy as np
import pytest

from heddle.telemetry.detection.growth import Growth, Recent
from heddle.telemetry.detection.window import Notice, Window
from heddle.telemetry.samples.counters import nic_column, port_column, queue_columns
from heddle.telemetry.samples.sample import Refusal
from tests.unit.telemetry.builders import Fed, S, queue, sample, table

TX = port_column("tx_bytes")


def total(fed, column=TX, row=0):
    return int(fed.window.total[row, column])


def test_a_total_equals_the_devices_counter():
    fed = Fed()
    fed.store(sample(sequence=1, tx_bytes=1_000))
    fed.store(sample(at=1, sequence=2, tx_bytes=1_500))
    assert total(fed) == 1_500


def test_a_period_has_growth_and_its_interval():
    fed = Fed()
    fed.store(sample(sequence=1, tx_bytes=1_000, queues=[queue(paused_ns=5)]))
    fed.store(sample(at=1, sequence=2, tx_bytes=1_500, queues=[queue(paused_ns=25)]))
    period = fed.roll(1)
    assert period.port("tx_bytes").tolist() == [500, 0, 0]
    assert period.queues("paused_ns")[0].tolist() == [0, 0, 0, 20, 0, 0, 0, 0]
    assert period.interval_ns.tolist() == [S, 0, 0]
    assert period.fresh.tolist() == [True, False, False]


def test_the_first_sample_has_no_growth():
    fed = Fed()
    fed.store(sample(tx_bytes=10**15))
    assert not fed.roll(0).delta.any()


def test_two_samples_in_one_period_are_added():
    fed = Fed()
    for n in range(3):
        fed.store(sample(at=n / 2, sequence=n, tx_bytes=100 * n))
    period = fed.roll(1)
    assert (int(period.delta[0, TX]), int(period.interval_ns[0])) == (200, S)


def test_a_gap_is_counted_by_its_size():
    fed = Fed()
    fed.store(sample(sequence=1))
    assert fed.store(sample(at=1, sequence=5)).noticed == {Notice.GAP: 3}


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        ({"at": 1, "sequence": 4}, Refusal.REPLAYED_SEQUENCE),
        ({"at": 1, "sequence": 3}, Refusal.REPLAYED_SEQUENCE),
        ({"at": 0, "sequence": 5}, Refusal.REPLAYED_TIMESTAMP),
        ({"at": -1, "sequence": 5}, Refusal.REPLAYED_TIMESTAMP),
        ({"at": 1, "sequence": 2**63}, Refusal.FUTURE_SEQUENCE),
        ({"at": 100, "sequence": 5}, Refusal.FUTURE_TIMESTAMP),
        ({"at": 2**33, "sequence": 5}, Refusal.FUTURE_TIMESTAMP),
        ({"at": -1, "sequence": 1, "boot": 8}, Refusal.REPLAYED_TIMESTAMP),
    ],
)
def test_samples_out_of_order_are_refused_and_leave_no_trace(second, kind):
    fed = Fed()
    fed.store(sample(sequence=4, tx_bytes=5))
    stored = fed.store(sample(tx_bytes=10, **second), now=1)
    assert stored.taken == 0
    assert stored.refused == {kind: 1}
    assert total(fed) == 5
    assert fed.store(sample(at=2, sequence=5, tx_bytes=6)).noticed == {}


def test_a_sample_counts_once():
    fed = Fed()
    fed.store(sample(sequence=1))
    again = sample(at=1, sequence=2, tx_bytes=7)
    assert fed.store(again).taken == 1
    assert fed.store(again).refused == {Refusal.REPLAYED_TIMESTAMP: 1}
    assert total(fed) == 7


def test_restarted_counters_never_lower_a_total():
    fed = Fed()
    fed.store(sample(sequence=9, tx_bytes=1_000))
    assert fed.store(sample(at=1, sequence=1, boot=8, tx_bytes=30)).noticed == {Notice.RESET: 1}
    assert total(fed) == 1_000
    fed.store(sample(at=2, sequence=2, boot=8, tx_bytes=50))
    assert total(fed) == 1_020


def test_a_period_with_only_a_restart_in_it_is_not_fresh():
    fed = Fed()
    fed.store(sample(sequence=9))
    fed.roll(0)
    fed.store(sample(at=1, sequence=1, boot=8))
    assert not fed.roll(1).fresh.any()


def test_a_counter_that_decreases_under_the_same_boot_id_is_a_reset():
    fed = Fed()
    fed.store(sample(sequence=1, tx_bytes=10**12))
    assert fed.store(sample(at=1, sequence=2, tx_bytes=5)).noticed == {Notice.RESET: 1}
    assert total(fed) == 10**12


@pytest.mark.parametrize("bits", [32, 48, 64])
def test_a_wrapped_counter_continues(bits):
    fed = Fed()
    fed.store(sample(sequence=1, tx_bytes=2**bits - 100))
    fed.roll(0)
    assert fed.store(sample(at=1, sequence=2, tx_bytes=50)).noticed == {Notice.WRAP: 1}
    assert int(fed.roll(1).delta[0, TX]) == 150
    assert total(fed) == (2**bits + 50 if bits < 64 else 2**64 - 100)  # totals stay within 64 bits


def test_an_agent_that_restarts_its_sequence_is_accepted_after_a_few_samples():
    fed = Fed(restart_samples=3)
    fed.store(sample(sequence=500, tx_bytes=10))
    taken = [fed.store(sample(at=n, sequence=n, tx_bytes=10 + n)).taken for n in range(1, 6)]
    assert taken == [0, 0, 0, 1, 1]
    assert total(fed) == 11


def test_no_number_of_replays_is_taken_for_a_restarted_agent():
    fed = Fed(restart_samples=3)
    for n in range(1, 11):
        fed.store(sample(at=n, sequence=n))
    for _ in range(3):
        for n in range(1, 11):
            assert fed.store(sample(at=n, sequence=n), now=10).taken == 0


def test_a_port_is_stale_when_its_last_sample_is_old():
    fed = Fed(stale_after_ns=3 * S)
    fed.store(sample(sequence=1))
    fed.store(sample(at=1, sequence=2))
    assert fed.roll(4).fresh.tolist() == [True, False, False]
    fed.store(sample(at=1.5, sequence=3), now=6)
    late = fed.roll(6)
    assert late.fresh.tolist() == [False, False, False]
    assert late.stale.tolist() == [True, False, False]


def test_a_queue_that_appears_later_has_no_growth_at_first():
    fed = Fed()
    fed.store(sample(sequence=1, queues=[queue(3, packets=5)]))
    fed.store(sample(at=1, sequence=2, queues=[queue(3, packets=6), queue(4, packets=1_000)]))
    assert fed.roll(1).queues("packets")[0].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert fed.window.total[0, queue_columns("packets")].tolist() == [0, 0, 0, 6, 1_000, 0, 0, 0]


def test_a_queue_that_is_left_out_keeps_its_values():
    fed = Fed()
    fed.store(sample(sequence=1, queues=[queue(3, packets=5)]))
    fed.store(sample(at=1, sequence=2))
    fed.store(sample(at=2, sequence=3, queues=[queue(3, packets=9)]))
    assert fed.roll(2).queues("packets")[0, 3] == 4


def test_counters_of_a_nic_are_kept_under_their_names():
    fed = Fed()
    fed.store(sample(sequence=1, nic_counters={"np_cnp_sent": 3}))
    fed.store(sample(at=1, sequence=2, nic_counters={"np_cnp_sent": 8}))
    assert fed.roll(1).delta[0, nic_column("np_cnp_sent")] == 5


def test_a_snapshot_is_a_copy_with_rates():
    fed = Fed(periods=4)
    for n in range(6):
        fed.store(sample(at=n, sequence=n, tx_bytes=100 * n * n))
        fed.roll(n)
    seen = fed.window.snapshot(fed.window.timestamp_ns[0])
    fed.store(sample(at=6, sequence=6, tx_bytes=10**6))
    assert seen.total[0, TX] == 2_500
    assert seen.rate(TX).tolist() == [700.0, 0.0, 0.0]  # three ended periods and the current one


def test_a_switch_cannot_report_ports_of_another():
    ports = table(2)
    found = ports.find(ports.ports[0].source, "leaf2", ("leaf1:1",))
    assert (found.unknown, found.rows.size) == (1, 0)


def test_memory_is_allocated_once():
    fed = Fed(periods=2)
    before = arrays(vars(fed.window).values())
    for n in range(20):
        fed.store(sample(at=n, sequence=n), sample("leaf1:2", at=n, sequence=n))
        fed.roll(n)
    assert arrays(vars(fed.window).values()).keys() == before.keys()
    assert sum(before.values()) < 3 * 10_000


def arrays(values):
    """Return the size of each array by its identity, including nested ones."""
    found = {}
    for value in values:
        if isinstance(value, np.ndarray):
            found[id(value)] = value.nbytes
        elif isinstance(value, Growth):
            found |= arrays((value.delta, value.interval_ns))
        elif isinstance(value, Recent | list):
            found |= arrays(value if isinstance(value, list) else vars(value).values())
    return found


def test_scans_within_a_period_report_each_sample_once_and_keep_the_windows_length():
    fed = Fed(periods=4)
    growths, whole = [], []
    for n in range(12):
        fed.store(sample(at=n / 4, sequence=n, tx_bytes=100 * n))
        for at in (n / 4, n / 4 + 0.05):
            period = fed.roll(at)
            growths.append(int(period.delta[0, TX]))
            whole.append(period.is_whole)
    assert growths == [0, 0] + [100, 0] * 11
    assert [n // 2 / 4 for n, over in enumerate(whole) if over] == [0, 0.75, 1.75, 2.75]
    assert int(fed.window.snapshot(fed.window.timestamp_ns[0]).window_interval_ns[0]) == round(2.75 * S)


def test_a_fabric_without_ports_has_an_empty_window():
    window = Window(table(0))
    assert not window.roll(5).fresh.any()

"""Rates of `heddle top` from two samples of a port."""

import itertools

import pytest

from heddle.programs.console.telemetry.rates import SORT_KEYS, Board, between, natural
from heddle.v1 import heddle_pb2 as pb

S = 1_000_000_000


def sample(at_s, port="leaf1:1", stale=False, queues=(), **counters):
    return pb.PortSample(port=port, timestamp_unix_ns=round(at_s * S), stale=stale, queues=queues, **counters)


def test_rates_are_growth_by_the_samples_own_time():
    before = sample(10, tx_bytes=1_000, rx_bytes=0, drops=1)
    after = sample(12, tx_bytes=251_000, rx_bytes=1_000, drops=5)
    row = between(before, after, capacity_bps=2_000_000)
    assert (row.tx_bps, row.rx_bps, row.utilisation, row.drops_per_s) == (1e6, 4e3, 0.5, 2.0)


def test_a_new_queue_counts_from_zero():
    queue = pb.QueueSample(priority=3, ecn_marked_packets=5, packets=50, pfc_rx_frames=4, pfc_tx_frames=2)
    row = between(sample(1), sample(2, queues=[queue]), 0)
    assert (row.ecn_share, row.ecn_per_s, row.pfc_rx_per_s, row.pfc_tx_per_s) == (0.1, 5.0, 4.0, 2.0)


def test_the_pause_share_is_that_of_the_priority_paused_longest():
    queues = [pb.QueueSample(priority=3, paused_ns=S // 4), pb.QueueSample(priority=4, paused_ns=S // 2)]
    assert between(sample(1), sample(2, queues=queues), 0).paused_share == 0.5


def test_a_total_that_fell_gives_no_negative_rate():
    assert between(sample(1, tx_bytes=10**9), sample(2, tx_bytes=5), 10**9).tx_bps == 0


def test_one_sample_alone_has_no_rates():
    row = between(sample(1, tx_bytes=5), sample(1, tx_bytes=5), 10**9)
    assert (row.interval_s, row.tx_bps) == (0.0, 0.0)


def test_the_last_rates_stay_until_a_newer_sample_comes():
    board = Board({"leaf1:1": 8_000})
    for at in (1, 2):
        board.put(sample(at, tx_bytes=500 * at))
    assert [row.utilisation for row in board.rows("port")] == [0.5]
    assert [row.utilisation for row in board.rows("port")] == [0.5]
    board.put(sample(3, tx_bytes=1_000))
    assert [row.utilisation for row in board.rows("port")] == [0.0]


def test_a_silent_port_keeps_its_row_and_is_marked():
    board = Board({})
    for at in (1, 2):
        board.put(sample(at, tx_bytes=500 * at))
    board.rows("port")
    board.put(sample(2, stale=True, tx_bytes=1_000))
    (row,) = board.rows("port")
    assert (row.stale, row.tx_bps) == (True, 4_000.0)


def test_the_board_is_complete_once_each_live_port_has_two_samples():
    board = Board({})
    assert not board.complete()
    board.put(sample(1))
    board.put(sample(1, port="h1-n0", stale=True))
    assert not board.complete()
    board.put(sample(2))
    assert board.complete()


def test_ports_are_ordered_by_number():
    names = ["leaf10:1", "leaf2:10", "leaf2:9", "h1-n0"]
    assert sorted(names, key=natural) == ["h1-n0", "leaf2:9", "leaf2:10", "leaf10:1"]


@pytest.mark.parametrize("key", SORT_KEYS)
def test_every_order_is_total(key):
    board = Board({"a": 1, "b": 1, "c": 1})
    for at, port in itertools.product((1, 2), "cab"):
        board.put(sample(at, port=port, tx_bytes=at if port == "b" else 0))
    assert len(board.rows(key)) == 3
    assert board.rows("utilisation")[0].port == "b"

"""The JSON of `rdma -j resource show qp`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.telemetry.agent.sources.rdma_queue_pairs import ListedQueuePair, NotQueuePairsError, queue_pairs

LISTED = [
    {"ifindex": 0, "ifname": "mlx5_0", "port": 1, "lqpn": 1, "type": "GSI", "state": "RTS", "comm": "ib_core"},
    {"ifindex": 0, "ifname": "mlx5_0", "port": 1, "lqpn": 1234, "rqpn": 77, "type": "RC", "state": "RTS", "pid": 9},
    {"ifindex": 1, "ifname": "mlx5_1", "port": 1, "lqpn": 5, "rqpn": 0, "type": "RC", "state": "INIT", "pid": 9},
    {"ifindex": 1, "ifname": "mlx5_1", "port": 1, "lqpn": 6, "type": "UD", "state": "RTS", "pid": 9},
]


def test_connected_queue_pairs_are_listed():
    assert queue_pairs(json.dumps(LISTED)) == (ListedQueuePair("mlx5_0", 1234, 77),)


@pytest.mark.parametrize(
    ("state", "count"), [("RESET", 0), ("INIT", 0), ("RTR", 1), ("RTS", 1), ("SQD", 1), ("ERR", 0)]
)
def test_one_that_only_receives_or_is_about_to_move_is_connected(state, count):
    assert len(queue_pairs(json.dumps([LISTED[1] | {"state": state}]))) == count


@pytest.mark.parametrize(
    "change", [{"lqpn": "1234"}, {"rqpn": 1 << 24}, {"rqpn": 0}, {"lqpn": True}, {"ifname": None}, {"rqpn": None}]
)
def test_a_connected_queue_pair_without_numbers_is_an_error(change):
    with pytest.raises(NotQueuePairsError):
        queue_pairs(json.dumps([LISTED[1] | change]))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(LISTED[1])), inner, max_size=4),
)


@given(json_values.map(json.dumps) | st.text(max_size=20))
def test_any_other_text_is_an_error_or_lists_numbers_in_range(text):
    try:
        found = queue_pairs(text)
    except NotQueuePairsError:
        return
    assert all(0 < pair.src_qpn < 1 << 24 and 0 < pair.dst_qpn < 1 << 24 for pair in found)

"""A queue pair that gets more to send while it runs: numbers, completion, pace, and the floor of its rate."""

import pytest

from heddle.mininet_topos.nic.queue_pair import Transfer
from heddle.mininet_topos.nic.sender import SendQueue
from heddle.mininet_topos.wire import roce
from tests.support.packets.queue_pair_ends import DCQCN, LINE_BPS, MS, send, sender

PACKETS, MTU = 3, 4096
FRAME_NS = 4154 * 8 * 10**9 // LINE_BPS


def short(**changes) -> SendQueue:
    return sender(size_bytes=PACKETS * MTU, **changes)


def send_all(queue: SendQueue, now_ns: int) -> list[roce.Packet]:
    """Send what the queue has, each packet as soon as it is due."""
    sent = []
    while queue.requester.can_send:
        now_ns = max(now_ns, int(queue.due_ns(now_ns, 0) or 0))
        sent.append(send(queue, now_ns))
    return sent


def acknowledge(queue: SendQueue, now_ns: int) -> None:
    queue.requester.on_ack(queue.requester.psn(queue.requester.next_index - 1), now_ns)


def test_posted_packets_continue_the_numbers_and_the_last_requests_an_acknowledgement():
    queue = short()
    first = send_all(queue, 0)
    acknowledge(queue, 50 * MS)
    assert queue.requester.completed_ns == 50 * MS
    queue.post(2 * MTU, 60 * MS)
    assert queue.requester.completed_ns is None
    more = send_all(queue, 60 * MS)
    assert [packet.psn for packet in (*first, *more)] == [100 + n for n in range(PACKETS + 2)]
    assert [packet.ack_request for packet in more] == [False, True]
    acknowledge(queue, 90 * MS)
    assert queue.requester.completed_ns == 90 * MS


def test_the_time_without_data_is_not_caught_up():
    queue = short()
    send_all(queue, 0)
    acknowledge(queue, 50 * MS)
    queue.post(2 * MTU, 500 * MS)
    send(queue, 500 * MS)
    due = queue.due_ns(500 * MS, 0)
    assert due is not None
    assert due >= 500 * MS + 0.99 * FRAME_NS


def test_data_posted_before_the_end_is_sent_without_a_pause():
    queue = short()
    send(queue, 0)
    queue.post(MTU, MS)
    assert queue.due_ns(MS, 0) == pytest.approx(FRAME_NS, rel=0.01)
    assert len(send_all(queue, MS)) == PACKETS


def test_a_queue_pair_that_drains_sends_posted_data_after_its_move():
    queue = short()
    send_all(queue, 0)
    queue.modify({"udp_source_port": 0xC777}, MS)
    queue.post(MTU, 2 * MS)
    assert not queue.requester.can_send
    acknowledge(queue, 3 * MS)
    queue.due_ns(4 * MS, 0)
    (packet,) = send_all(queue, 4 * MS)
    assert packet.udp_source_port == 0xC777


def test_a_transfer_that_ends_within_a_packet_cannot_grow():
    with pytest.raises(ValueError, match=r"^5000 bytes end within a packet of 4096"):
        Transfer(5_000, 64 * MTU, MTU, 8).extend(MTU)


def test_no_number_of_cnps_cuts_the_rate_below_the_floor():
    queue = sender(dcqcn=DCQCN, floor_bps=LINE_BPS // 2)
    for at in range(10):
        queue.on_cnp(at * MS)
    assert queue.rate_bps == LINE_BPS // 2
    queue.modify({"floor_bps": LINE_BPS // 4}, 11 * MS)
    for at in range(12, 20):
        queue.on_cnp(at * MS)
    assert queue.rate_bps == LINE_BPS // 4


def test_without_congestion_control_a_queue_pair_keeps_to_its_floor():
    queue = sender(floor_bps=LINE_BPS // 2)
    assert queue.rate_bps == LINE_BPS // 2
    queue.modify({"rate_bps": LINE_BPS // 4, "floor_bps": 0}, MS)
    assert queue.rate_bps == LINE_BPS // 4

"""A queue pair changes its path: a planned move drains first, after a failure it sends again from the new port."""

from typing import Any

from heddle.mininet_topos.nic.path_move import MoveRecord
from heddle.mininet_topos.wire import roce
from tests.support.packets.queue_pair_ends import LINE_BPS, MS, send, sender

OLD, NEW = 0xC123, 0xD456


def sent(queue, count: int, at_ns: int = 0) -> list[roce.Packet]:
    return [send(queue, at_ns + number) for number in range(count)]


def acknowledge(queue, packet: roce.Packet, now_ns: int) -> None:
    queue.requester.on_ack(packet.psn, now_ns)


def move(queue, now_ns: int, **change: Any) -> None:
    queue.modify({"udp_source_port": NEW, **change}, now_ns)


def test_a_planned_move_waits_for_the_acknowledgement_of_all_that_was_sent():
    queue = sender()
    packets = sent(queue, 8)
    move(queue, MS)
    waits = queue.due_ns(MS, 0)
    acknowledge(queue, packets[5], 2 * MS)
    still_waits = queue.due_ns(2 * MS, 0)
    acknowledge(queue, packets[7], 3 * MS)
    continues = queue.due_ns(3 * MS, 0)
    after = send(queue, 3 * MS)
    assert (waits, still_waits, continues is not None) == (None, None, True)
    assert (after.udp_source_port, after.psn, after.icrc_valid) == (NEW, 108, True)
    assert queue.requester.retransmitted_packets == 0


def test_a_drain_ends_with_one_packet_that_requests_the_missing_acknowledgement():
    queue = sender()
    sent(queue, 3)
    move(queue, MS)
    last = send(queue, MS)
    assert (last.udp_source_port, last.psn, last.ack_request) == (OLD, 103, True)
    assert queue.due_ns(2 * MS, 0) is None
    acknowledge(queue, last, 3 * MS)
    assert queue.due_ns(3 * MS, 0) is not None
    assert send(queue, 3 * MS).udp_source_port == NEW


def test_a_queue_pair_without_packets_in_flight_moves_at_once():
    queue = sender()
    acknowledge(queue, sent(queue, 1)[0], 1)
    move(queue, MS)
    assert send(queue, MS).udp_source_port == NEW


def test_a_drain_that_reaches_its_limit_ends_like_one_after_a_failure():
    queue = sender()
    sent(queue, 8)
    move(queue, MS, drain_ns=50 * MS)
    assert queue.wake_ns() == 51 * MS
    assert queue.due_ns(50 * MS, 0) is None
    assert queue.due_ns(51 * MS, 0) is not None
    first = send(queue, 51 * MS)
    assert (first.udp_source_port, first.psn) == (NEW, 100)
    assert queue.moves[0] == MoveRecord("planned", "", MS, 51 * MS, OLD, NEW, resent_packets=8)


def test_the_limit_of_a_drain_leaves_time_for_one_timeout():
    queue = sender(timeout_ns=400 * MS)
    sent(queue, 8)
    move(queue, 0)
    assert queue.due_ns(400 * MS, 0) is not None
    assert send(queue, 400 * MS).udp_source_port == OLD
    assert queue.due_ns(800 * MS, 0) is not None
    assert send(queue, 800 * MS).udp_source_port == NEW


def test_a_packet_lost_in_a_drain_is_retransmitted_on_the_old_path_with_all_after_it():
    queue = sender()
    packets = sent(queue, 8)
    move(queue, MS)
    queue.requester.on_nak(packets[6].psn, 2 * MS)
    again = [send(queue, 2 * MS) for _ in range(2) if queue.due_ns(2 * MS, 0) is not None]
    assert [(packet.udp_source_port, packet.psn) for packet in again] == [(OLD, 106), (OLD, 107)]
    assert again[-1].ack_request
    assert queue.due_ns(2 * MS, 0) is None


def test_after_a_failure_the_first_unacknowledged_packet_leaves_at_once_from_the_new_port():
    queue = sender()
    packets = sent(queue, 20)
    acknowledge(queue, packets[7], MS)
    move(queue, 2 * MS, move="failure", reason="link a>b down")
    first = send(queue, 2 * MS)
    assert (first.udp_source_port, first.psn) == (NEW, 108)
    assert queue.moves[0] == MoveRecord("failure", "link a>b down", 2 * MS, 2 * MS, OLD, NEW, resent_packets=12)


def test_a_failure_of_the_path_of_a_pinned_flow_resends_from_the_same_port():
    queue = sender()
    sent(queue, 8)
    queue.modify({"move": "failure"}, MS)
    first = send(queue, MS)
    assert (first.udp_source_port, first.psn) == (OLD, 100)


def test_after_a_failure_the_timeout_is_that_of_a_path_without_losses():
    queue = sender(timeout_ns=100 * MS)
    sent(queue, 8)
    for expiry in (100, 300, 700):
        queue.due_ns(expiry * MS, 0)
    move(queue, 800 * MS, move="failure")
    assert queue.wake_ns() == 900 * MS


def test_a_failure_during_a_drain_ends_it():
    queue = sender()
    sent(queue, 8)
    move(queue, MS)
    queue.modify({"move": "failure"}, 2 * MS)
    first = send(queue, 2 * MS)
    assert (first.udp_source_port, first.psn) == (NEW, 100)
    assert [record.kind for record in queue.moves] == ["failure"]


def test_a_second_move_during_a_drain_replaces_the_port_and_keeps_the_limit():
    queue = sender()
    sent(queue, 8)
    move(queue, 0, drain_ns=50 * MS)
    move(queue, 40 * MS, udp_source_port=0xD789, drain_ns=50 * MS)
    queue.due_ns(50 * MS, 0)
    assert send(queue, 50 * MS).udp_source_port == 0xD789
    assert len(queue.moves) == 1


def test_rate_and_window_of_a_move_apply_with_its_port():
    queue = sender()
    packets = sent(queue, 8)
    move(queue, MS, rate_bps=1_000_000, admission={"slot": 1, "slots": 2, "slot_ns": 100 * MS})
    assert queue.rate_bps == LINE_BPS
    acknowledge(queue, packets[7], 2 * MS)
    assert queue.due_ns(2 * MS, 0) == 100 * MS
    assert queue.rate_bps == 1_000_000


def test_a_rate_alone_applies_at_once_and_drains_nothing():
    queue = sender()
    sent(queue, 3)
    queue.modify({"rate_bps": 1_000_000, "udp_source_port": OLD}, MS)
    assert queue.rate_bps == 1_000_000
    assert queue.due_ns(MS, 0) is not None
    assert not queue.moves


def test_the_time_of_a_drain_is_not_caught_up():
    queue = sender()
    packets = sent(queue, 8)
    move(queue, MS)
    acknowledge(queue, packets[7], 40 * MS)
    queue.due_ns(40 * MS, 0)
    send(queue, 40 * MS)
    due = queue.due_ns(40 * MS, 0)
    assert due is not None
    assert due > 41 * MS


def test_the_last_move_of_a_transfer_may_come_after_its_last_packet():
    queue = sender(size_bytes=4096 * 8)
    packets = sent(queue, 8)
    move(queue, MS)
    acknowledge(queue, packets[7], 2 * MS)
    queue.due_ns(2 * MS, 0)
    assert queue.requester.completed_ns == 2 * MS
    assert queue.report()["udp_source_port"] == NEW


def test_another_path_that_packets_name_is_a_move_that_drains_first():
    """The address of the new path is in the first packet after all before it were acknowledged, and not earlier."""
    queue = sender(sid_source="fcbb:0:3:e005::", sid="fcbb:0:e001::")
    for number in range(8):
        frame = queue.next_frame(number)
        assert frame[38:44] == bytes.fromhex("fcbb0000e001")
        queue.sent(len(frame), number, 0)
    queue.modify({"sid": "fcbb:0:e002::"}, MS)
    assert queue.due_ns(MS, 0) is None
    queue.requester.on_ack(queue.requester.psn(7), 2 * MS)
    assert queue.due_ns(2 * MS, 0) is not None
    assert queue.next_frame(2 * MS)[38:44] == bytes.fromhex("fcbb0000e002")
    queue.modify({"sid": "fcbb:0:e002::"}, 3 * MS)
    assert [found.kind for found in queue.moves] == ["planned"]

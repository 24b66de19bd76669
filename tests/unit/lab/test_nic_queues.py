"""The two ends of a queue pair without a network: admission windows, ports, rates, marks and held ACKs."""

from itertools import pairwise

import pytest

from heddle.mininet_topos.nic.pacer import Pacer
from heddle.mininet_topos.nic.queue_pair import Response
from heddle.mininet_topos.nic.sender import SendQueue
from heddle.mininet_topos.wire import roce
from tests.support.packets.queue_pair_ends import DCQCN, LINE_BPS, MS, ROUTE, read, receiver, send, sender

FRAME_NS = 4154 * 8 * 10**9 // LINE_BPS


def moments(queue: SendQueue, until_ns: int, offset_ns: int = 0) -> list[int]:
    """Return when a queue pair that is served at once would send."""
    now, found = 0, []
    while now < until_ns:
        due = queue.due_ns(now, offset_ns)
        if due is not None and due <= now:
            send(queue, now)
            found.append(now)
            queue.requester.on_ack(queue.requester.psn(queue.requester.next_index - 1), now)
        else:
            assert due is not None
            now = int(due) + 1
    return found


def test_sends_and_writes_differ_in_their_opcodes():
    assert send(sender(operation="send"), 0).opcode == roce.RC_SEND_FIRST
    assert send(sender(), 0).opcode == roce.RC_RDMA_WRITE_FIRST


def test_a_new_rate_applies_to_the_present_gap():
    queue = sender(rate_bps=1_000_000)
    send(queue, 0)
    queue.modify({"rate_bps": LINE_BPS}, MS)
    due = queue.due_ns(MS, 0)
    assert due is not None
    assert due <= 1.01 * FRAME_NS


def test_packets_leave_in_the_slots_of_their_window_only():
    queue = sender(admission={"slot": 2, "slots": 4, "slot_ns": 10 * MS})
    sent = moments(queue, 200 * MS)
    assert {moment // (10 * MS) % 4 for moment in sent} == {2}
    assert len(sent) == pytest.approx(5 * (10 * MS / FRAME_NS), abs=6)


def test_the_time_outside_of_the_slot_is_not_caught_up():
    queue = sender(admission={"slot": 1, "slots": 2, "slot_ns": 50 * MS})
    sent = moments(queue, 400 * MS)
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert min(gaps) >= 0.99 * FRAME_NS


def test_the_last_packet_of_a_slot_requests_an_acknowledgement():
    queue = sender(ack_every=1000, message_bytes=4096 * 10_000, admission={"slot": 0, "slots": 2, "slot_ns": 10 * MS})
    requests, now = [], 0
    while now < 10 * MS:
        assert queue.due_ns(now, 0) is not None
        requests.append(send(queue, now).ack_request)
        now += FRAME_NS
    assert requests == [False] * (len(requests) - 1) + [True]


def test_a_window_can_be_set_and_removed_while_packets_are_in_flight():
    queue = sender()
    queue.modify({"admission": {"slot": 1, "slots": 2, "slot_ns": 10 * MS}}, 0)
    assert queue.due_ns(0, 0) == 10 * MS
    queue.modify({"admission": {"slot": 0, "slots": 0, "slot_ns": 0}}, 0)
    assert queue.due_ns(0, 0) == 0


def test_a_cnp_halves_the_pace_and_a_cap_bounds_it():
    queue = sender(DCQCN, rate_bps=4_000_000)
    send(queue, 0)
    assert queue.on_cnp(0)
    assert queue.rate_bps == 2_000_000
    assert queue.due_ns(0, 0) == 4170 * 8 * 10**9 / 2_000_000
    queue.modify({"rate_bps": 1_000_000}, 1)
    assert queue.rate_bps == 1_000_000


def test_a_long_gap_shortens_as_the_rate_recovers():
    queue = sender(DCQCN)
    for moment in range(20):
        queue.on_cnp(moment * 4 * MS)
    send(queue, 80 * MS)
    first = queue.due_ns(80 * MS, 0)
    now = 80 * MS + 8 * DCQCN.increase_timer_ns
    later = queue.due_ns(now, 0)
    assert first is not None
    assert later is not None
    assert later < first
    assert now < queue.wake_ns() <= now + DCQCN.increase_timer_ns


def test_a_sender_without_dcqcn_ignores_cnps():
    queue = sender()
    assert not queue.on_cnp(5)
    assert queue.rate_bps == LINE_BPS


def test_a_slow_sender_requests_an_acknowledgement_with_every_packet():
    queue = sender(DCQCN, ack_every=8)
    assert not read(queue.next_frame(0)).ack_request
    for moment in range(40):
        queue.on_cnp(moment * 4 * MS)
    assert queue.rate_bps < 1_000_000
    assert read(queue.next_frame(160 * MS)).ack_request


def test_marks_trigger_one_cnp_per_interval():
    queue = receiver()
    triggered = [queue.on_marked(moment * MS) is not None for moment in range(9)]
    assert triggered == [True, False, False, False, True, False, False, False, True]
    assert queue.ecn_marked == 9


def test_a_cnp_has_the_reverse_source_port_of_the_plan():
    queue = receiver()
    queue.modify({"udp_source_port": 0xE001})
    frame = queue.on_marked(0)
    assert frame is not None
    packet = read(frame)
    assert (packet.udp_source_port, packet.opcode, packet.destination_qp) == (0xE001, roce.CNP, 0xABC)


def test_a_nic_without_dcqcn_counts_marks_and_sends_no_cnp():
    queue = receiver(None)
    assert queue.on_marked(0) is None
    assert queue.ecn_marked == 1


def test_of_held_acknowledgements_the_newest_is_sent_once():
    queue = receiver()
    for psn in (5, 9, 7):
        queue.hold(Response(True, roce.ACK_SYNDROME, psn))
    assert queue.release() == Response(True, roce.ACK_SYNDROME, 9)
    assert queue.release() is None


def test_a_held_nak_is_replaced_by_newer_acknowledgements_and_not_by_older_ones():
    nak, older, newer = (
        Response(False, roce.NAK_SEQUENCE_ERROR, 0),
        Response(False, roce.ACK_SYNDROME, 0xFFFFFF),
        Response(True, roce.ACK_SYNDROME, 0),
    )
    queue = receiver()
    queue.hold(nak)
    queue.hold(older)
    assert queue.release() == nak
    queue.hold(nak)
    queue.hold(newer)
    assert queue.release() == newer


def test_a_pacer_does_not_catch_up_time_before_its_release():
    pacer = Pacer(rate_bps=8e9, start_ns=0, catch_up_ns=1000)
    pacer.sent(80, 5000, not_before_ns=4990)
    assert pacer.next_ns == 5000


def test_goodput_over_time_counts_what_is_delivered_in_each_period():
    queue, writer = receiver(), roce.FrameWriter(ROUTE)
    queue.goodput.start_ns = 10 * MS
    for psn, moment_ms in ((0, 5), (1, 20), (1, 30), (2, 59), (3, 60), (5, 61), (4, 200)):
        queue.on_data(read(writer.write(roce.RC_RDMA_WRITE_MIDDLE, psn, False, 1000)), moment_ms * MS)
    assert queue.goodput.by_period() == [3000, 1000, 0, 1000]


def test_a_queue_pair_describes_what_it_sent_and_from_which_port():
    queue = sender()
    send(queue, 0)
    queue.modify({"udp_source_port": 0xD456, "move": "failure"}, 1)
    assert queue.describe() == {
        "qpn": 7, "peer_qpn": 0xABC, "peer_ip": "10.0.0.2", "udp_source_port": 0xD456, "sent_bytes": 4096 + 74,
    }  # fmt: skip


def test_acknowledgements_name_another_path_at_once():
    queue = receiver(sid_source="fcbb:0:3:e005::", sid="fcbb:0:e001::")
    queue.modify({"sid": "fcbb:0:e002::"})
    assert queue.frame(Response(True, 7, roce.ACK_SYNDROME))[38:44] == bytes.fromhex("fcbb0000e002")

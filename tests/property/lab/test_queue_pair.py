"""A connection over a channel that loses, repeats and reorders packets delivers all data in order, exactly once."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.mininet_topos.nic.pacer import Pacer
from heddle.mininet_topos.nic.queue_pair import Requester, Responder, Transfer
from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.shaping import catch_up_time_ns


class Channel:
    """Carries packets with chance losses, repetitions and delays of a few steps."""

    def __init__(self, chance: random.Random, loss: float, repeat: float, delay: int) -> None:
        self.chance, self.loss, self.repeat, self.delay = chance, loss, repeat, delay
        self.under_way: list[tuple[int, int, tuple]] = []
        self.number = 0

    def send(self, now: int, packet: tuple) -> None:
        if self.chance.random() < self.loss:
            return
        for _ in range(2 if self.chance.random() < self.repeat else 1):
            self.number += 1
            self.under_way.append((now + 1 + self.chance.randint(0, self.delay), self.number, packet))

    def arrived(self, now: int) -> list[tuple]:
        due = sorted(entry for entry in self.under_way if entry[0] <= now)
        self.under_way = [entry for entry in self.under_way if entry[0] > now]
        return [packet for _, _, packet in due]


def run(packets: int, first_psn: int, window: int, seed: int, loss: float, repeat: float, delay: int):
    """Drive both ends step by step; return (requester, responder, packet numbers in order of delivery)."""
    chance = random.Random(seed)
    requester = Requester(packets=packets, first_psn=first_psn, window=window, timeout_ns=40)
    responder = Responder(first_psn=first_psn)
    transfer = Transfer(packets * 100, 1600, 100, ack_every=max(1, window // 2))
    there, back = Channel(chance, loss, repeat, delay), Channel(chance, loss, repeat, delay)
    delivered: list[int] = []
    for now in range(400_000):
        if requester.completed_ns is not None:
            break
        requester.expire(now)
        if requester.can_send:
            index = requester.next_index
            there.send(now, (index, requester.psn(index), transfer.segment(index)))
            requester.sent(now, transfer.segment(index).ack_request)
        for index, psn, segment in there.arrived(now):
            ends = segment.opcode in roce.MESSAGE_ENDS
            response = responder.on_data(psn, segment.ack_request, ends, segment.payload_bytes)
            delivered += [index] if response.accepted else []
            if response.syndrome is not None:
                back.send(now, (response.syndrome, response.psn))
        for syndrome, psn in back.arrived(now):
            (requester.on_nak if syndrome == roce.NAK_SEQUENCE_ERROR else requester.on_ack)(psn, now)
    return requester, responder, delivered


@given(
    packets=st.integers(1, 120),
    first_psn=st.one_of(st.integers(0, 2**24 - 1), st.integers(2**24 - 100, 2**24 - 1)),
    window=st.integers(1, 40),
    seed=st.integers(0, 2**32),
    loss=st.sampled_from((0.0, 0.01, 0.1, 0.4)),
    repeat=st.sampled_from((0.0, 0.1, 0.4)),
    delay=st.integers(0, 12),
)
def test_every_packet_is_delivered_in_order_exactly_once(packets, first_psn, window, seed, loss, repeat, delay):
    requester, responder, delivered = run(packets, first_psn, window, seed, loss, repeat, delay)
    assert delivered == list(range(packets))
    assert requester.completed_ns is not None
    assert responder.delivered_packets == packets


@given(packets=st.integers(1, 300), first_psn=st.integers(0, 2**24 - 1), window=st.integers(1, 40))
def test_a_clean_channel_takes_every_packet_once_and_sees_no_error(packets, first_psn, window):
    requester, responder, _ = run(packets, first_psn, window, 0, 0.0, 0.0, 0)
    assert requester.tx_packets == packets
    assert (requester.retransmitted_packets, requester.packet_seq_err, requester.local_ack_timeout_err) == (0, 0, 0)
    assert (responder.out_of_sequence, responder.duplicate_request) == (0, 0)


@given(
    seed=st.integers(0, 2**32), packets=st.integers(2, 60), loss=st.sampled_from((0.1, 0.4)), window=st.integers(2, 16)
)
def test_transmissions_are_first_ones_and_retransmissions(seed, packets, loss, window):
    requester, _, _ = run(packets, 0, window, seed, loss, 0.0, 3)
    assert requester.tx_packets == packets + requester.retransmitted_packets


@given(
    size_bytes=st.integers(1, 100_000),
    message_bytes=st.integers(1, 20_000),
    mtu_bytes=st.sampled_from((256, 1024, 4096)),
)
def test_a_transfer_is_cut_into_whole_messages_that_cover_it(size_bytes, message_bytes, mtu_bytes):
    transfer = Transfer(size_bytes, message_bytes, mtu_bytes, ack_every=8)
    segments = [transfer.segment(index) for index in range(transfer.packets)]
    covered, in_message = 0, 0
    for segment in segments:
        starts = segment.opcode in (roce.RC_RDMA_WRITE_FIRST, roce.RC_RDMA_WRITE_ONLY)
        assert starts == (in_message == 0)
        assert segment.offset_bytes == covered
        covered += segment.payload_bytes
        in_message += segment.payload_bytes
        if segment.opcode in roce.MESSAGE_ENDS:
            assert (segment.ack_request, in_message) == (True, segment.message_bytes)
            in_message = 0
    assert (covered, in_message) == (size_bytes, 0)


@given(
    rate_bps=st.integers(10**6, 10**9),
    bits=st.integers(500, 40_000),
    pauses=st.lists(st.integers(0, 10**8), max_size=50),
)
def test_a_pacer_never_exceeds_its_rate_by_more_than_the_catch_up(rate_bps, bits, pauses):
    catch_up_ns = 2_000_000
    pacer, now, sent = Pacer(rate_bps=rate_bps, start_ns=0, catch_up_ns=catch_up_ns), 0, 0
    for pause in pauses:
        now += pause
        burst = 0
        while pacer.next_ns <= now:
            pacer.sent(bits, now)
            burst += 1
        sent += burst
        assert burst <= (catch_up_ns * rate_bps / 10**9) / bits + 2
    assert sent <= now * rate_bps / 10**9 / bits + 2


@given(senders=st.integers(2, 40), stall_ns=st.integers(0, 10**9), catch_up_ns=st.integers(0, 10**8))
def test_after_a_stall_of_the_machine_senders_keep_their_phases(senders, stall_ns, catch_up_ns):
    frame_bits, frame_ns = 33_232, 1_661_600
    gap_ns = senders * frame_ns
    pacers = [
        Pacer(rate_bps=frame_bits * 1e9 / gap_ns, start_ns=number * frame_ns, catch_up_ns=catch_up_ns)
        for number in range(senders)
    ]
    for pacer in pacers:
        while pacer.next_ns <= stall_ns:
            pacer.sent(frame_bits, stall_ns)
    places = sorted(pacer.next_ns for pacer in pacers)
    assert [after - before for before, after in pairwise(places)] == pytest.approx([frame_ns] * (senders - 1), abs=1)


def test_the_catch_up_is_a_quarter_of_the_queue_and_never_long():
    assert catch_up_time_ns(300_000, 20_000_000) == 30_000_000
    assert catch_up_time_ns(300_000, 1_000_000) == 50_000_000

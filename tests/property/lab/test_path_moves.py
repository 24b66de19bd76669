"""A queue pair whose path changes at any time, over paths that delay and lose packets, delivers all of it in order."""

import random
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from heddle.mininet_topos.nic.queue_pair import Response
from heddle.mininet_topos.wire import roce
from tests.support.packets.queue_pair_ends import MS, read, receiver, sender

FIRST_PORT = 0xC123
TIMEOUT_NS = 60 * MS
PORTS = st.integers(0xD000, 0xD005)
MOMENTS = st.integers(0, 150)
KINDS = st.sampled_from(["planned", "failure"])


class Paths:
    """Carries packets in order on each path; the source port selects the path, and with it loss and delay."""

    def __init__(self, seed: int, loss: float) -> None:
        self.chance, self.loss = random.Random(seed), loss
        self.delay_steps: dict[int, int] = {}
        self.under_way: list[tuple[int, int, roce.Packet]] = []
        self.number = 0

    def send(self, step: int, packet: roce.Packet) -> None:
        delay = self.delay_steps.setdefault(packet.udp_source_port, self.chance.randint(1, 12))
        self.number += 1
        if self.chance.random() >= self.loss:
            self.under_way.append((step + delay, self.number, packet))

    def arrived(self, step: int) -> list[roce.Packet]:
        due = sorted(entry for entry in self.under_way if entry[0] <= step)
        self.under_way = [entry for entry in self.under_way if entry[0] > step]
        return [packet for _, _, packet in due]


class Connection:
    """Both ends, driven a millisecond at a time; at most one data packet leaves in each."""

    def __init__(self, packets: int, window: int, seed: int, loss: float) -> None:
        self.packets, self.first_psn = packets, 2**24 - 20
        self.sender = sender(
            size_bytes=packets * 100, mtu_bytes=100, message_bytes=1600, ack_every=max(1, window // 2), window=window,
            first_psn=self.first_psn, timeout_ns=TIMEOUT_NS, rate_bps=10**9,
        )  # fmt: skip
        self.receiver = receiver(first_psn=self.first_psn)
        self.there, self.back = Paths(seed, loss), Paths(seed + 1, loss)
        self.sent: list[tuple[int, roce.Packet]] = []
        self.arrivals: list[roce.Packet] = []

    def run(self, moves: dict[int, dict], reverse_moves: dict[int, int]) -> None:
        step = 0
        while self.sender.requester.completed_ns is None or max(moves, default=0) >= step:
            if step in moves:
                self.sender.modify(moves[step], step * MS)
            if step in reverse_moves:
                self.receiver.modify({"udp_source_port": reverse_moves[step]})
            self._step(step)
            step += 1
            assert step < 100_000, "the transfer does not end"

    def _step(self, step: int) -> None:
        now_ns = step * MS
        due_ns = self.sender.due_ns(now_ns, 0)
        if due_ns is not None and due_ns <= now_ns:
            frame = self.sender.next_frame(now_ns)
            self.sent.append((step, read(frame)))
            self.there.send(step, read(frame))
            self.sender.sent(len(frame), now_ns, 0)
        for packet in self.there.arrived(step):
            self.arrivals.append(packet)
            self._answer(self.receiver.on_data(packet, now_ns), step)
        for packet in self.back.arrived(step):
            requester = self.sender.requester
            is_nak = packet.syndrome & roce.NAK_KIND_MASK == roce.NAK_SEQUENCE_ERROR
            (requester.on_nak if is_nak else requester.on_ack)(packet.psn, now_ns)

    def _answer(self, response: Response, step: int) -> None:
        if response.syndrome is not None:
            self.back.send(step, read(self.receiver.frame(response)))

    def numbers(self, packets: list[roce.Packet]) -> list[int]:
        """Return the numbers of packets from their PSNs."""
        return [packet.psn - self.first_psn & roce.PSN_MASK for packet in packets]


@st.composite
def connections(draw, losses=(0.0, 0.05, 0.3)) -> Connection:
    return Connection(
        packets=draw(st.integers(1, 90)),
        window=draw(st.integers(2, 40)),
        seed=draw(st.integers(0, 2**32)),
        loss=draw(st.sampled_from(losses)),
    )


def changes(kinds=KINDS):
    """Return a strategy for moves by step."""
    move = st.fixed_dictionaries(
        {"udp_source_port": PORTS, "move": kinds}, optional={"drain_ns": st.integers(0, 200 * MS)}
    )
    return st.dictionaries(MOMENTS, move, max_size=8)


@given(connection=connections(), moves=changes(), reverse_moves=st.dictionaries(MOMENTS, PORTS, max_size=4))
def test_with_losses_and_moves_of_both_kinds_all_is_delivered_in_order_and_no_psn_is_skipped(
    connection, moves, reverse_moves
):
    connection.run(moves, reverse_moves)
    numbers = connection.numbers([packet for _, packet in connection.sent])
    assert connection.receiver.responder.delivered_bytes == connection.packets * 100
    assert list(dict.fromkeys(numbers)) == list(range(connection.packets))
    used = [port for port, _ in groupby(packet.udp_source_port for _, packet in connection.sent)]
    in_turn = iter([FIRST_PORT, *(record.new_udp_source_port for record in connection.sender.moves)])
    assert all(port in in_turn for port in used)


@given(connection=connections(losses=(0.0,)), ports=st.dictionaries(MOMENTS, PORTS, max_size=8))
def test_planned_moves_between_paths_of_any_delay_neither_lose_nor_reorder_nor_resend(connection, ports):
    connection.run({step: {"udp_source_port": port} for step, port in ports.items()}, {})
    assert connection.numbers(connection.arrivals) == list(range(connection.packets))
    assert connection.sender.requester.retransmitted_packets == 0


@given(connection=connections(), ports=st.dictionaries(MOMENTS, PORTS, max_size=8))
def test_while_a_queue_pair_drains_at_most_one_new_packet_leaves(connection, ports):
    connection.run({step: {"udp_source_port": port} for step, port in ports.items()}, {})
    for record in connection.sender.moves:
        begun, ended = record.requested_ns // MS, record.moved_ns // MS
        before = connection.numbers([packet for step, packet in connection.sent if step < begun])
        meanwhile = connection.numbers([packet for step, packet in connection.sent if begun <= step < ended])
        new = set(meanwhile) - set(before)
        assert new <= {max(before, default=-1) + 1}


@given(connection=connections(), moves=changes(kinds=st.just("failure")))
def test_after_a_failure_no_packet_leaves_from_the_old_port(connection, moves):
    connection.run(moves, {})
    for step, move in moves.items():
        later = [packet.udp_source_port for at, packet in connection.sent if at == step]
        assert set(later) <= {move["udp_source_port"]}

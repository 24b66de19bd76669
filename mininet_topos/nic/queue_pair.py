"""The two ends of a reliable connection as state machines: no socket, no clock, time is an argument.

Go-back-N as in the InfiniBand specification, section 9.7: the responder takes packets in order only, answers the
first one out of order with a NAK for the PSN it expects and then stays silent until that arrives; the requester goes
back to what was NAKed, and to the oldest unacknowledged packet when nothing was heard for the timeout. Packets are
numbered from 0 here; on the wire a PSN is 24 bits and wraps, which both ends undo against what they expect.
"""

from typing import NamedTuple

from mininet_topos.nic import roce
from mininet_topos.nic.roce import PSN_HALF, PSN_MASK

MAX_BACKOFF_DOUBLINGS = 3


class Segment(NamedTuple):
    """One packet of a transfer, ready to be put into a frame."""

    opcode: int
    offset_bytes: int
    payload_bytes: int
    message_bytes: int
    ack_request: bool


class Transfer:
    """How a number of bytes is cut into RDMA writes (or sends) of `message_bytes` and packets of `mtu_bytes`.

    An acknowledgement is asked for with every `ack_every`-th packet, and with the last of each message.
    """

    def __init__(
        self,
        size_bytes: int,
        message_bytes: int,
        mtu_bytes: int,
        ack_every: int,
        opcodes: tuple[int, int, int, int] = roce.WRITE_OPCODES,
    ) -> None:
        """Cut `size_bytes`, which must be positive; `opcodes` are those of a first, middle, last and only packet."""
        self._first, self._middle, self._last, self._only = opcodes
        self._size, self.mtu_bytes, self._ack_every = size_bytes, mtu_bytes, ack_every
        self._per_message = -(-message_bytes // mtu_bytes)
        self._message = self._per_message * mtu_bytes
        whole, rest = divmod(size_bytes, self._message)
        self.packets = whole * self._per_message + -(-rest // mtu_bytes)

    def segment(self, index: int) -> Segment:
        """Return the packet with this number."""
        message, within = divmod(index, self._per_message)
        offset = index * self.mtu_bytes
        payload = min(self.mtu_bytes, self._size - offset)
        message_bytes = min(self._message, self._size - message * self._message)
        last = within == self._per_message - 1 or index == self.packets - 1
        ack = last or index % self._ack_every == self._ack_every - 1
        return Segment(self._opcode(within == 0, last), offset, payload, message_bytes, ack)

    def _opcode(self, first: bool, last: bool) -> int:
        if first:
            return self._only if last else self._first
        return self._last if last else self._middle


class Requester:
    """The sending end: which packet is next, and when to go back.

    Counters have the names of mlx5's hardware counters where those exist.
    """

    __slots__ = (
        "_deadline_ns", "_first_psn", "_high_water", "_retries", "_timeout_ns", "_window", "acknowledged",
        "completed_ns", "local_ack_timeout_err", "next_index", "packet_seq_err", "packets",
        "retransmitted_packets", "tx_packets",
    )  # fmt: skip

    def __init__(self, *, packets: int, first_psn: int, window: int, timeout_ns: int) -> None:
        """Begin before packet 0; at most `window` packets are unacknowledged at any time."""
        self.packets, self._first_psn, self._window, self._timeout_ns = packets, first_psn, window, timeout_ns
        self.acknowledged = self.next_index = self._high_water = self._retries = 0
        self.tx_packets = self.retransmitted_packets = self.packet_seq_err = self.local_ack_timeout_err = 0
        self._deadline_ns: int | None = None
        self.completed_ns: int | None = None

    @property
    def can_send(self) -> bool:
        """Return whether the window and the transfer allow another packet now."""
        return self.next_index < self.packets and self.next_index - self.acknowledged < self._window

    @property
    def deadline_ns(self) -> int | None:
        """Return when `expire` has to be called at the latest; None while nothing is unacknowledged."""
        return self._deadline_ns

    def psn(self, index: int) -> int:
        """Return the PSN on the wire of a packet."""
        return self._first_psn + index & PSN_MASK

    def sent(self, now_ns: int) -> None:
        """Note that packet `next_index` has left."""
        self.tx_packets += 1
        if self.next_index < self._high_water:
            self.retransmitted_packets += 1
        self.next_index += 1
        self._high_water = max(self._high_water, self.next_index)
        if self._deadline_ns is None:
            self._arm(now_ns)

    def on_ack(self, psn: int, now_ns: int) -> None:
        """Take an acknowledgement of everything up to and including `psn`; stale ones change nothing."""
        self._acknowledge_until(self._index(psn) + 1, now_ns)

    def on_nak(self, psn: int, now_ns: int) -> None:
        """Take a sequence error: everything before `psn` has arrived, send again from there."""
        index = self._index(psn)
        if not self.acknowledged <= index < self._high_water:
            return
        self.packet_seq_err += 1
        self._acknowledge_until(index, now_ns)
        self.next_index = index

    def expire(self, now_ns: int) -> bool:
        """Go back to the oldest unacknowledged packet if its time is over; return whether it was."""
        if self._deadline_ns is None or now_ns < self._deadline_ns:
            return False
        self.local_ack_timeout_err += 1
        self._retries += 1
        self.next_index = self.acknowledged
        self._arm(now_ns)
        return True

    def _index(self, psn: int) -> int:
        """Undo the wrap: the packet number nearest to the oldest unacknowledged one."""
        ahead = psn - self.psn(self.acknowledged) & PSN_MASK
        return self.acknowledged + (ahead if ahead < PSN_HALF else ahead - PSN_MASK - 1)

    def _acknowledge_until(self, index: int, now_ns: int) -> None:
        if not self.acknowledged < index <= self._high_water:
            return
        self.acknowledged, self._retries = index, 0
        self.next_index = max(self.next_index, index)
        if index == self.packets:
            self.completed_ns = now_ns
        if index == self._high_water:
            self._deadline_ns = None
        else:
            self._arm(now_ns)

    def _arm(self, now_ns: int) -> None:
        self._deadline_ns = now_ns + (self._timeout_ns << min(self._retries, MAX_BACKOFF_DOUBLINGS))


class Answer(NamedTuple):
    """What a responder does with a packet: take it or not, and what it sends back, if anything."""

    accepted: bool
    syndrome: int | None = None
    psn: int = 0


class Responder:
    """The receiving end: takes packets in order and answers for them."""

    __slots__ = (
        "_expected_psn", "_nak_sent", "delivered_bytes", "delivered_packets", "duplicate_request",
        "message_sequence", "out_of_sequence",
    )  # fmt: skip

    def __init__(self, *, first_psn: int) -> None:
        """Expect the packet with `first_psn`."""
        self._expected_psn, self._nak_sent = first_psn, False
        self.delivered_packets = self.delivered_bytes = self.message_sequence = 0
        self.duplicate_request = self.out_of_sequence = 0

    def on_data(self, psn: int, ack_request: bool, ends_message: bool, payload_bytes: int) -> Answer:
        """Take a data packet, or refuse it: too early (a gap) or a duplicate."""
        ahead = psn - self._expected_psn & PSN_MASK
        if ahead == 0:
            return self._accept(psn, ack_request, ends_message, payload_bytes)
        if ahead < PSN_HALF:
            self.out_of_sequence += 1
            if self._nak_sent:
                return Answer(False)
            self._nak_sent = True
            return Answer(False, roce.NAK_SEQUENCE_ERROR, self._expected_psn)
        self.duplicate_request += 1
        if ack_request:
            return Answer(False, roce.ACK_SYNDROME, self._expected_psn - 1 & PSN_MASK)
        return Answer(False)

    def _accept(self, psn: int, ack_request: bool, ends_message: bool, payload_bytes: int) -> Answer:
        self._expected_psn = psn + 1 & PSN_MASK
        self._nak_sent = False
        self.delivered_packets += 1
        self.delivered_bytes += payload_bytes
        self.message_sequence += ends_message
        return Answer(True, roce.ACK_SYNDROME, psn) if ack_request else Answer(True)

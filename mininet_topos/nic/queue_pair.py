"""Requester and responder of a reliable connection (RC) as state machines. Pure; time is an argument.

Go-back-N as in the InfiniBand specification, section 9.7. The responder accepts packets in order only. It sends a NAK
with the expected PSN for the first packet out of order, and no further one until that PSN arrives. The requester goes
back to the NAKed packet, or to the oldest unacknowledged packet after a timeout. Packets are numbered from 0 here; a
PSN on the wire has 24 bits and wraps, and both ends extend it relative to the expected one.

A requester that drains sends no new packet, and retransmits as ever, until all that it has sent is acknowledged.
"""

from typing import NamedTuple

from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.roce import PSN_HALF, PSN_MASK

MAX_BACKOFF_DOUBLINGS = 3


class Segment(NamedTuple):
    """The header fields of one packet of a transfer."""

    opcode: int
    offset_bytes: int
    payload_bytes: int
    message_bytes: int
    ack_request: bool


class Transfer:
    """Segments a transfer into RDMA writes (or sends) of `message_bytes` and packets of `mtu_bytes`.

    Every `ack_every`-th packet and the last of each message request an acknowledgement.
    """

    def __init__(
        self,
        size_bytes: int,
        message_bytes: int,
        mtu_bytes: int,
        ack_every: int,
        opcodes: tuple[int, int, int, int] = roce.WRITE_OPCODES,
    ) -> None:
        """Segment `size_bytes` > 0; `opcodes` are those of a first, middle, last and only packet."""
        self._first, self._middle, self._last, self._only = opcodes
        self._size, self.mtu_bytes, self._ack_every = size_bytes, mtu_bytes, ack_every
        self._per_message = -(-message_bytes // mtu_bytes)
        self._message = self._per_message * mtu_bytes
        whole, rest = divmod(size_bytes, self._message)
        self.packets = whole * self._per_message + -(-rest // mtu_bytes)

    def extend(self, size_bytes: int) -> int:
        """Add bytes and return the packets that they take; raises ValueError where those before end within a packet."""
        if self._size % self.mtu_bytes:
            raise ValueError(f"{self._size} bytes end within a packet of {self.mtu_bytes}, which cannot grow")
        before = self.packets
        self._size += size_bytes
        whole, rest = divmod(self._size, self._message)
        self.packets = whole * self._per_message + -(-rest // self.mtu_bytes)
        return self.packets - before

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
    """The sending end: the next packet, and retransmission. Counters have the names of mlx5's where those exist."""

    __slots__ = (
        "_deadline_ns", "_end", "_first_psn", "_high_water", "_requested", "_retries", "_timeout_ns", "_window",
        "acknowledged", "completed_ns", "local_ack_timeout_err", "next_index", "packet_seq_err", "packets",
        "retransmitted_packets", "tx_packets",
    )  # fmt: skip

    def __init__(self, *, packets: int, first_psn: int, window: int, timeout_ns: int) -> None:
        """Start at packet 0; at most `window` packets are unacknowledged at any time."""
        self.packets, self._first_psn, self._window, self._timeout_ns = packets, first_psn, window, timeout_ns
        self.acknowledged = self.next_index = self._high_water = self._requested = self._retries = 0
        self._end = packets
        self.tx_packets = self.retransmitted_packets = self.packet_seq_err = self.local_ack_timeout_err = 0
        self._deadline_ns: int | None = None
        self.completed_ns: int | None = None

    @property
    def can_send(self) -> bool:
        """Return whether the window, the transfer and a drain allow another packet now."""
        return self.next_index < self._end and self.next_index - self.acknowledged < self._window

    @property
    def deadline_ns(self) -> int | None:
        """Return the time by which `expire` must be called; None while no packet is unacknowledged."""
        return self._deadline_ns

    @property
    def unacknowledged(self) -> int:
        """Return the number of packets that have been sent and not acknowledged."""
        return self._high_water - self.acknowledged

    @property
    def ends_here(self) -> bool:
        """Return whether packet `next_index` is the last one of the transfer or drain, which must request an ACK."""
        return self.next_index == self._end - 1

    def extend(self, packets: int) -> None:
        """Send so many packets more, once `resume` allows it; a transfer that was complete is so no longer."""
        self.packets += packets
        self.completed_ns = None

    def drain(self) -> None:
        """Send no new packet until `resume`, but one to request an ACK if the last one sent does not."""
        self._end = min(self.packets, self._high_water + (self._requested < self._high_water))

    def resume(self) -> None:
        """End a drain."""
        self._end = self.packets

    def go_back(self, now_ns: int) -> None:
        """Send again from the oldest unacknowledged packet, with the timeout of a path that has not failed yet."""
        self.next_index, self._retries = self.acknowledged, 0
        if self.unacknowledged:
            self._arm(now_ns)

    def psn(self, index: int) -> int:
        """Return the PSN on the wire of a packet."""
        return self._first_psn + index & PSN_MASK

    def sent(self, now_ns: int, requests_ack: bool) -> None:
        """Record that packet `next_index` has been sent."""
        self.tx_packets += 1
        if self.next_index < self._high_water:
            self.retransmitted_packets += 1
        self.next_index += 1
        self._high_water = max(self._high_water, self.next_index)
        if requests_ack:
            self._requested = max(self._requested, self.next_index)
        if self._deadline_ns is None:
            self._arm(now_ns)

    def on_ack(self, psn: int, now_ns: int) -> None:
        """Process an ACK of all packets up to and including `psn`; a stale ACK has no effect."""
        self._acknowledge_until(self._index(psn) + 1, now_ns)

    def on_nak(self, psn: int, now_ns: int) -> None:
        """Process a NAK (PSN sequence error): all packets before `psn` have arrived; retransmit from `psn` on."""
        index = self._index(psn)
        if not self.acknowledged <= index < self._high_water:
            return
        self.packet_seq_err += 1
        self._acknowledge_until(index, now_ns)
        self.next_index = index

    def expire(self, now_ns: int) -> bool:
        """Go back to the oldest unacknowledged packet if its timeout has expired; return whether it has."""
        if self._deadline_ns is None or now_ns < self._deadline_ns:
            return False
        self.local_ack_timeout_err += 1
        self._retries += 1
        self.next_index = self.acknowledged
        self._arm(now_ns)
        return True

    def _index(self, psn: int) -> int:
        """Return the packet number of a PSN: of all with this PSN, the one nearest to the oldest unacknowledged."""
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


class Response(NamedTuple):
    """A responder's reaction to a packet: whether it accepts it, and the ACK or NAK to send (`syndrome` None: none)."""

    accepted: bool
    syndrome: int | None = None
    psn: int = 0


class Responder:
    """The receiving end: accepts packets in order and acknowledges them."""

    __slots__ = (
        "_expected_psn", "_nak_sent", "delivered_bytes", "delivered_packets", "duplicate_request",
        "message_sequence", "out_of_sequence",
    )  # fmt: skip

    def __init__(self, *, first_psn: int) -> None:
        """Start with `first_psn` as the expected PSN."""
        self._expected_psn, self._nak_sent = first_psn, False
        self.delivered_packets = self.delivered_bytes = self.message_sequence = 0
        self.duplicate_request = self.out_of_sequence = 0

    def on_data(self, psn: int, ack_request: bool, ends_message: bool, payload_bytes: int) -> Response:
        """Accept a data packet, or refuse it: out of sequence (a gap before it) or a duplicate."""
        ahead = psn - self._expected_psn & PSN_MASK
        if ahead == 0:
            return self._accept(psn, ack_request, ends_message, payload_bytes)
        if ahead < PSN_HALF:
            self.out_of_sequence += 1
            if self._nak_sent:
                return Response(False)
            self._nak_sent = True
            return Response(False, roce.NAK_SEQUENCE_ERROR, self._expected_psn)
        self.duplicate_request += 1
        if ack_request:
            return Response(False, roce.ACK_SYNDROME, self._expected_psn - 1 & PSN_MASK)
        return Response(False)

    def _accept(self, psn: int, ack_request: bool, ends_message: bool, payload_bytes: int) -> Response:
        self._expected_psn = psn + 1 & PSN_MASK
        self._nak_sent = False
        self.delivered_packets += 1
        self.delivered_bytes += payload_bytes
        self.message_sequence += ends_message
        return Response(True, roce.ACK_SYNDROME, psn) if ack_request else Response(True)

"""Requester and responder of a queue pair whose packets take many paths, and so arrive in any order. Pure.

Every packet is an RDMA WRITE of its own, with its own target address: the responder places it on arrival, whatever
came before. An ACK names the packets that arrived: all up to its PSN, and those of a bitmap after it.

The requester takes a packet as lost if one that it sent `reordering` later was acknowledged (by time, not by count, as
RACK does: RFC 8985): paths differ in delay, and a machine that stalls delays many packets at once. If no ACK comes at
all, a timeout takes all packets in flight as lost.
"""

from typing import NamedTuple

from heddle.mininet_topos.nic.queue_pair import Requester, Responder, Response
from heddle.mininet_topos.nic.spray.paths import Path, PathSet
from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.roce import PSN_HALF, PSN_MASK

WINDOW = 128
"""Packets from the first that is missing on, of which an ACK has a bit each: no more are in flight."""
MIN_REORDERING_NS = 40_000_000
MIN_TIMEOUT_NS, TIMEOUT_ROUND_TRIPS = 200_000_000, 4
LATE = 0.25
"""The part of the time until a loss after which a packet or a probe is late."""


class InFlight(NamedTuple):
    """A packet that was sent and neither acknowledged nor lost since."""

    sent_ns: int
    path: Path
    is_first: bool
    """Whether it was sent for the first time: only then its round trip is certain."""


class SelectiveRequester(Requester):
    """The sending end: which packet is next, on which path, and which are lost."""

    __slots__ = ("_in_flight", "_lost", "_newest_ns", "_path", "paths", "spurious_retransmissions")

    def __init__(self, paths: PathSet, *, packets: int, first_psn: int, window: int, timeout_ns: int) -> None:
        """Start at packet 0."""
        super().__init__(packets=packets, first_psn=first_psn, window=min(window, WINDOW), timeout_ns=timeout_ns)
        self.paths, self._path = paths, paths.paths[0]
        self.spurious_retransmissions = 0
        self._in_flight: dict[int, InFlight] = {}  # in the order of sending
        self._lost: dict[int, None] = {}
        self._newest_ns = -1

    @property
    def fills_window(self) -> bool:
        """Return whether packet `next_index` is the last that may be sent before an ACK."""
        return self.next_index - self.acknowledged == self._window - 1

    @property
    def resends(self) -> bool:
        """Return whether packet `next_index` was sent before."""
        return self.next_index < self._high_water

    def choose_path(self) -> Path:
        """Return the path of packet `next_index`: that whose turn it is. A packet that was refused takes its turn."""
        self._path = self.paths.next()
        return self._path

    @property
    def path(self) -> Path:
        """Return the path chosen last."""
        return self._path

    def sent(self, now_ns: int, requests_ack: bool) -> None:
        """Record that packet `next_index` has been sent on the path chosen last."""
        path, index, is_first = self._path, self.next_index, not self.resends
        path.sent()
        self.tx_packets += 1
        self.retransmitted_packets += not is_first
        self._in_flight[index] = InFlight(now_ns, path, is_first)
        self._lost.pop(index, None)
        self._high_water += is_first
        if self._deadline_ns is None:
            self._arm(now_ns)
        self._choose()

    def on_ack(self, psn: int, now_ns: int) -> None:
        """Process an ACK without a bitmap."""
        self.on_selective_ack(psn, 0, now_ns)

    def on_nak(self, psn: int, now_ns: int) -> None:
        """Ignore a NAK: none is sent by a responder that takes packets in any order."""

    def on_selective_ack(self, psn: int, arrived: int, now_ns: int, answered_psn: int | None = None) -> None:
        """Process an ACK: packets up to `psn` have arrived; bit n of `arrived` is that n packets after the next one.

        It was sent when packet `answered_psn` arrived, which alone gives a round trip: others waited for it.
        """
        missing = self._index(psn) + 1
        if not self.acknowledged <= missing <= self._high_water:
            return
        found = [index for index in self._in_flight if _covers(missing, arrived, index)]
        answered = None if answered_psn is None else self._index(answered_psn)
        for index in found:
            self._arrived(self._in_flight.pop(index), now_ns if index == answered else None)
        late = [index for index in self._lost if _covers(missing, arrived, index)]
        for index in late:
            del self._lost[index]
        self.spurious_retransmissions += len(late)
        if found or late or missing > self.acknowledged:
            self._retries = 0
            self._arm(now_ns)
        self.acknowledged = missing
        self._detect(now_ns)
        self._finish(now_ns)

    def expire(self, now_ns: int) -> bool:
        """Take all packets in flight as lost if no ACK has come in time; return whether that is so."""
        if self._deadline_ns is None or now_ns < self._deadline_ns:
            return False
        self.local_ack_timeout_err += 1
        self._retries += 1
        for number, (index, packet) in enumerate(list(self._in_flight.items())):
            self._lose(index)
            if number == 0:
                self.paths.lost(packet.path, now_ns)
            else:
                packet.path.in_flight -= 1
        self._arm(now_ns)
        self._choose()
        return True

    def deny(self, udp_source_port: int, now_ns: int, reason: str) -> bool:
        """Deny the path with this port and send again what was in flight there; return whether it was denied."""
        path = next((path for path in self.paths.paths if path.udp_source_port == udp_source_port), None)
        if path is None or not self.paths.deny(path, now_ns, reason):
            return False
        self._abandon(path)
        self._choose()
        return True

    def _arm(self, now_ns: int) -> None:
        """Set the timeout: a few round trips, but the queue pair's own at most."""
        own_ns, few_ns = self._timeout_ns, int(TIMEOUT_ROUND_TRIPS * self.paths.round_trip_ns)
        self._timeout_ns = min(own_ns, max(MIN_TIMEOUT_NS, few_ns))
        super()._arm(now_ns)
        self._timeout_ns = own_ns

    def _arrived(self, packet: InFlight, now_ns: int | None) -> None:
        """Record a packet that arrived; `now_ns` where its ACK was sent at once."""
        packet.path.acknowledged(None if now_ns is None or not packet.is_first else now_ns - packet.sent_ns)
        if packet.is_first:
            self._newest_ns = max(self._newest_ns, packet.sent_ns)

    def _detect(self, now_ns: int) -> None:
        """Find the packets that are lost by now, and the paths that are in doubt."""
        reordering_ns = max(MIN_REORDERING_NS, 2 * self.paths.round_trip_ns)
        lost_ns, late_ns = self._newest_ns - reordering_ns, self._newest_ns - LATE * reordering_ns
        for index, packet in list(self._in_flight.items()):
            if packet.sent_ns >= late_ns:
                break
            if packet.sent_ns >= lost_ns:
                self.paths.late(packet.path, now_ns)
            elif index in self._in_flight:  # else the path was denied for a packet before
                self._lose(index)
                if self.paths.lost(packet.path, now_ns):
                    self._abandon(packet.path)
        for path in self.paths.deny_silent(late_ns, now_ns):
            self._abandon(path)

    def _abandon(self, path: Path) -> None:
        """Send again all that is in flight on a path."""
        for index, packet in list(self._in_flight.items()):
            if packet.path is path:
                self._lose(index)
                path.in_flight -= 1
                path.lost_packets += 1

    def _lose(self, index: int) -> None:
        del self._in_flight[index]
        self._lost[index] = None

    def _choose(self) -> None:
        """Set `next_index`: the packet lost first, else the first that was never sent."""
        self.next_index = next(iter(self._lost), self._high_water)

    def _finish(self, now_ns: int) -> None:
        self._choose()
        if self.acknowledged == self._high_water:
            self._deadline_ns = None
        if self.acknowledged == self.packets and self.completed_ns is None:
            self.completed_ns = now_ns


def _covers(missing: int, arrived: int, index: int) -> bool:
    return index < missing or arrived >> (index - missing) & 1 == 1


class SelectiveResponder(Responder):
    """The receiving end: accepts packets in any order, each once."""

    __slots__ = ("_unanswered", "arrived", "reordered_packets")

    def __init__(self, *, first_psn: int) -> None:
        """Start with `first_psn` as the first packet that is missing."""
        super().__init__(first_psn=first_psn)
        self.arrived = 0
        """Bit n: the packet n after the first missing one has arrived; bit 0 is never set."""
        self.reordered_packets = self._unanswered = 0

    @property
    def acknowledged_psn(self) -> int:
        """Return the PSN up to which all packets have arrived."""
        return self._expected_psn - 1 & PSN_MASK

    def on_data(self, psn: int, ack_request: bool, ends_message: bool, payload_bytes: int) -> Response:
        """Accept a packet that has not arrived yet.

        While any is missing, every second packet is acknowledged unasked, and so is the last of the missing ones: the
        packet that requested an ACK may have come before it.
        """
        ahead, lacked = psn - self._expected_psn & PSN_MASK, self.arrived != 0
        accepted = ahead < WINDOW and not self.arrived >> ahead & 1
        if accepted:
            self._place(ahead, ends_message, payload_bytes)
        elif ahead >= PSN_HALF or ahead < WINDOW:
            self.duplicate_request += 1
        self._unanswered += 1
        is_due = self._unanswered >= 2 if self.arrived else lacked
        if not (ack_request or not accepted or is_due):
            return Response(accepted)
        self._unanswered = 0
        return Response(accepted, roce.ACK_SYNDROME, self.acknowledged_psn)

    def _place(self, ahead: int, ends_message: bool, payload_bytes: int) -> None:
        self.reordered_packets += self.arrived >> ahead > 0
        self.arrived |= 1 << ahead
        while self.arrived & 1:
            self.arrived >>= 1
            self._expected_psn = self._expected_psn + 1 & PSN_MASK
        self.delivered_packets += 1
        self.delivered_bytes += payload_bytes
        self.message_sequence += ends_message

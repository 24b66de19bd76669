"""The sending end of a queue pair: the next frame, and the time at which it may leave.

Four limits apply: the requester's window of unacknowledged packets, the pacer at the lower of the plan's and DCQCN's
rate, the plan's admission window, and PFC pauses of the queue pair's priority (which `Nic` applies). A change of the
path drains the requester first (`path_move`).

A queue pair with a floor may exceed its plan under congestion control, which does not cut it below; without DCQCN it
keeps to the floor.
"""

import socket
from collections import deque
from typing import Any

from heddle.mininet_topos.nic import path_move
from heddle.mininet_topos.nic.admission import AdmissionWindow
from heddle.mininet_topos.nic.dcqcn import DcqcnSettings, ReactionPoint
from heddle.mininet_topos.nic.pacer import Pacer
from heddle.mininet_topos.nic.path_move import MoveRecord, PathMove
from heddle.mininet_topos.nic.queue_pair import Requester, Transfer
from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.srv6 import Tunnel

OPCODES = {"write": roce.WRITE_OPCODES, "send": roce.SEND_OPCODES}


class SendQueue:
    """A queue pair's requester with its pacing, rate control and frames."""

    def __init__(
        self, description: dict[str, Any], route: roce.Route, catch_up_ns: int, dcqcn: DcqcnSettings | None
    ) -> None:
        """Create the queue from one entry of `open`'s requesters; raises KeyError for an unknown operation."""
        self.qpn = int(description["qpn"])
        self.priority = roce.priority(route.traffic_class)
        self.transfer = Transfer(
            description["size_bytes"], description["message_bytes"], description["mtu_bytes"],
            description["ack_every"], OPCODES[description.get("operation", "write")],
        )  # fmt: skip
        self.requester = Requester(
            packets=self.transfer.packets, first_psn=description["first_psn"], window=description["window"],
            timeout_ns=description["timeout_ns"],
        )  # fmt: skip
        self._allowed_bps, self._floor_bps = description["rate_bps"], description.get("floor_bps", 0)
        rate_bps = self._allowed_bps if dcqcn is not None else self._floor_bps or self._allowed_bps
        self.pacer = Pacer(rate_bps=rate_bps, start_ns=description["start_offset_ns"], catch_up_ns=catch_up_ns)
        self.reaction = None if dcqcn is None else ReactionPoint(dcqcn, rate_bps, self._floor_bps)
        self.admission = _admission(description.get("admission"))
        self.first_tx_ns: int | None = None
        self.cnps = self.tx_bytes = self.path_errors = 0
        self._left = bytes(16)
        self.next_check_ns: float = 0
        self.moves: deque[MoveRecord] = deque(maxlen=path_move.RECORDED_MOVES)
        self._peer = {"peer_qpn": route.destination_qp, "peer_ip": description["peer_ip"]}
        self._move: PathMove | None = None
        self._moved_ns = self._posted_ns = 0
        self._timeout_ns: int = description["timeout_ns"]
        self._requests_ack = False
        self._plan_bps = self._paced_bps = float(rate_bps)
        self._max_ack_gap_ns = description["timeout_ns"] / (2 * description["ack_every"])
        self._open_ns = (0.0, float("inf"))
        self._writer = roce.FrameWriter(route, Tunnel.of(description))

    @property
    def peer_qpn(self) -> int:
        """Return the number of the queue pair that receives."""
        return self._writer.route.destination_qp

    @property
    def rate_bps(self) -> float:
        """Return the present sending rate: the plan's, or DCQCN's."""
        return self._plan_bps if self.reaction is None else self.reaction.rate_bps

    def due_ns(self, now_ns: int, unix_offset_ns: int) -> float | None:
        """Return the time at which the next frame may leave; None if there is none or it waits for an ACK."""
        self.requester.expire(now_ns)
        self._end_drain(now_ns)
        if not self.requester.can_send:
            return None
        if self.reaction is not None:
            self.reaction.advance(now_ns)
            self._pace()
        if self.admission is None:
            return self.pacer.next_ns
        opens_ns, closes_ns = self.admission.open_interval(now_ns + unix_offset_ns)
        self._open_ns = (opens_ns - unix_offset_ns, closes_ns - unix_offset_ns)
        return max(self.pacer.next_ns, self._open_ns[0])

    def wake_ns(self) -> float:
        """Return the time of the next timer, of the requester, a move or the reaction point."""
        deadline_ns = self.requester.deadline_ns
        wake_ns = float("inf") if deadline_ns is None else float(deadline_ns)
        if self._move is not None:
            wake_ns = min(wake_ns, self._move.limit_ns)
        if self.reaction is None or not self.requester.can_send or self.reaction.wake_ns is None:
            return wake_ns
        return min(wake_ns, self.reaction.wake_ns)

    def next_frame(self, now_ns: int) -> bytearray:
        """Return the next frame."""
        index = self.requester.next_index
        segment = self.transfer.segment(index)
        self._requests_ack = segment.ack_request or self.requester.ends_here or self._requests_ack_early(now_ns)
        return self._writer.write(
            segment.opcode, self.requester.psn(index), self._requests_ack,
            segment.payload_bytes, segment.offset_bytes, segment.message_bytes,
        )  # fmt: skip

    def sent(self, size_bytes: int, now_ns: int, resumed_ns: int) -> None:
        """Record that `next_frame` has been sent; no time of a closed slot, pause or drain is caught up."""
        if self.first_tx_ns is None:
            self.first_tx_ns = now_ns
        self.tx_bytes += size_bytes
        self.requester.sent(now_ns, self._requests_ack)
        self.pacer.sent(size_bytes * 8, now_ns, max(self._open_ns[0], resumed_ns, self._moved_ns, self._posted_ns))
        if self.reaction is not None:
            self.reaction.on_sent(size_bytes, now_ns)

    def on_ack(self, packet: roce.Packet, now_ns: int) -> None:
        """Process an ACK or NAK."""
        if packet.syndrome & roce.NAK_KIND_MASK == roce.NAK_SEQUENCE_ERROR:
            self.requester.on_nak(packet.psn, now_ns)
        else:
            self.requester.on_ack(packet.psn, now_ns)

    def count_path_error(self, left: bytes) -> None:
        """Count an ICMPv6 error about a packet; `left` is the destination address that it quotes."""
        self.path_errors += 1
        self._left = left

    def on_unreachable(self, _udp_source_port: int, _now_ns: int) -> bool:
        """Ignore a switch's error about a packet: one path is all there is."""
        return False

    def on_refused(self, _reason: str, _now_ns: int) -> bool:
        """Ignore that the device refuses the frame of `next_frame`: one path is all there is."""
        return False

    def on_cnp(self, now_ns: int) -> bool:
        """Process a CNP; return False if this NIC runs without DCQCN."""
        if self.reaction is None:
            return False
        self.cnps += 1
        self.reaction.on_cnp(now_ns)
        self._pace()
        return True

    def post(self, size_bytes: int, now_ns: int) -> None:
        """Send more bytes; no time without data is caught up. Raises ValueError as `Transfer.extend` does."""
        if self.requester.completed_ns is not None:
            self._posted_ns = now_ns
        self.requester.extend(self.transfer.extend(size_bytes))
        if self._move is None:
            self.requester.resume()
        self.next_check_ns = 0

    def modify(self, change: dict[str, Any], now_ns: int) -> None:
        """Change source port, path, rate or admission window while packets are in flight; PSNs continue.

        A change of the port or path, or one after a failure, is a move: what changes with it applies once that is made.
        """
        self.next_check_ns = 0
        if self._move is not None:
            self._move = self._move.then(change)
        elif change.get("move") == path_move.FAILURE or self._is_moved_by(change):
            self._move = path_move.begin(change, now_ns, self._timeout_ns)
            self.requester.drain()
        else:
            self._apply(change, now_ns)
        self._end_drain(now_ns)

    def _is_moved_by(self, change: dict[str, Any]) -> bool:
        tunnel = self._writer.tunnel
        is_led = tunnel is not None and "sid" in change and tunnel.to(change["sid"]) != tunnel
        return is_led or change.get("udp_source_port", self._port) != self._port

    @property
    def _port(self) -> int:
        return self._writer.route.udp_source_port

    def _end_drain(self, now_ns: int) -> None:
        """Make the move that waits, if it is due; what is then unacknowledged is sent again."""
        move, unacknowledged, old_port = self._move, self.requester.unacknowledged, self._port
        if move is None or not move.is_due(unacknowledged, now_ns):
            return
        self._move, self._moved_ns = None, now_ns
        self._apply(move.change, now_ns)
        self.requester.resume()
        self.requester.go_back(now_ns)
        reason = move.change.get("reason", "")
        self.moves.append(
            MoveRecord(move.kind, reason, move.requested_ns, now_ns, old_port, self._port, unacknowledged)
        )

    def _apply(self, change: dict[str, Any], now_ns: int) -> None:
        if "udp_source_port" in change:
            self._writer.move(change["udp_source_port"])
        if "sid" in change:
            self._writer.lead(change["sid"])
        if "rate_bps" in change or "floor_bps" in change:
            self._allowed_bps = change.get("rate_bps", self._allowed_bps)
            self._floor_bps = change.get("floor_bps", self._floor_bps)
            self._plan_bps = float(self._allowed_bps if self.reaction else self._floor_bps or self._allowed_bps)
            if self.reaction is not None:
                self.reaction.floor_bps = self._floor_bps
                self.reaction.set_limit(self._plan_bps, now_ns)
            self._pace()
        if "admission" in change:
            self.admission = _admission(change["admission"])
            self._open_ns = (0.0, float("inf"))

    @property
    def path_changes(self) -> int:
        """Return how often a path has changed its state: never, as there is one."""
        return 0

    def describe(self) -> dict[str, Any]:
        """Return what identifies this queue pair on the wire now, the bytes of its frames, and errors about them."""
        found = {"qpn": self.qpn, **self._peer, "udp_source_port": self._port, "sent_bytes": self.tx_bytes}
        if not self.path_errors:
            return found
        return found | {"path_errors": self.path_errors, "left_sid": socket.inet_ntop(socket.AF_INET6, self._left)}

    def report(self) -> dict[str, Any]:
        """Return the counters of this queue pair as a sender."""
        requester = self.requester
        acked = requester.acknowledged
        covered = self.transfer.segment(acked - 1) if acked else None
        return {
            "qpn": self.qpn,
            **self._peer,
            "udp_source_port": self._port,
            "packets": requester.packets,
            "tx_packets": requester.tx_packets,
            "tx_bytes": self.tx_bytes,
            "retransmitted_packets": requester.retransmitted_packets,
            "acked_bytes": covered.offset_bytes + covered.payload_bytes if covered else 0,
            "packet_seq_err": requester.packet_seq_err,
            "local_ack_timeout_err": requester.local_ack_timeout_err,
            "rp_cnp_handled": self.cnps,
            "rate_bps": round(self.rate_bps),
            "first_tx_ns": self.first_tx_ns,
            "completed_ns": requester.completed_ns,
        }

    def _pace(self) -> None:
        if self.rate_bps != self._paced_bps:
            self._paced_bps = self.rate_bps
            self.pacer.set_rate(self._paced_bps)

    def _requests_ack_early(self, now_ns: int) -> bool:
        """Return whether a packet requests an ACK ahead of schedule, because the next one may come after the timeout.

        This applies at a low DCQCN rate, and to the last packet before an admission window closes.
        """
        if self.reaction is None and self.admission is None:
            return False
        gap_ns = self.pacer.duration_ns(8 * self.transfer.mtu_bytes)
        slow = self.reaction is not None and gap_ns > self._max_ack_gap_ns
        return slow or now_ns + gap_ns >= self._open_ns[1]


def _admission(description: dict[str, int] | None) -> AdmissionWindow | None:
    """Parse an admission window; None or zero slots mean no restriction."""
    if not description or not description["slots"]:
        return None
    return AdmissionWindow(**description)

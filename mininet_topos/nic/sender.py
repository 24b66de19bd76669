"""The sending end of a queue pair: the next frame, and the time at which it may leave.

Four limits apply: the requester's window of unacknowledged packets, the pacer at the lower of the plan's and DCQCN's
rate, the plan's admission window, and PFC pauses of the queue pair's priority (which `Nic` applies).
"""

from typing import Any

from mininet_topos.nic import roce
from mininet_topos.nic.admission import AdmissionWindow
from mininet_topos.nic.dcqcn import DcqcnSettings, ReactionPoint
from mininet_topos.nic.pacer import Pacer
from mininet_topos.nic.queue_pair import Requester, Transfer

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
        rate_bps = description["rate_bps"]
        self.pacer = Pacer(rate_bps=rate_bps, start_ns=description["start_offset_ns"], catch_up_ns=catch_up_ns)
        self.reaction = None if dcqcn is None else ReactionPoint(dcqcn, rate_bps)
        self.admission = _admission(description.get("admission"))
        self.first_tx_ns: int | None = None
        self.cnps = self.tx_bytes = 0
        self.next_check_ns: float = 0
        self._plan_bps = self._paced_bps = float(rate_bps)
        self._max_ack_gap_ns = description["timeout_ns"] / (2 * description["ack_every"])
        self._open_ns = (0.0, float("inf"))
        self._writer = roce.FrameWriter(route)

    @property
    def rate_bps(self) -> float:
        """Return the present sending rate: the plan's, or DCQCN's."""
        return self._plan_bps if self.reaction is None else self.reaction.rate_bps

    def due_ns(self, now_ns: int, unix_offset_ns: int) -> float | None:
        """Return the time at which the next frame may leave; None if there is none or it waits for an ACK."""
        self.requester.expire(now_ns)
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
        """Return the time of the next timer, of the requester or of the reaction point."""
        deadline_ns = self.requester.deadline_ns
        wake_ns = float("inf") if deadline_ns is None else float(deadline_ns)
        if self.reaction is None or not self.requester.can_send or self.reaction.wake_ns is None:
            return wake_ns
        return min(wake_ns, self.reaction.wake_ns)

    def next_frame(self, now_ns: int) -> bytearray:
        """Return the next frame."""
        index = self.requester.next_index
        segment = self.transfer.segment(index)
        return self._writer.write(
            segment.opcode, self.requester.psn(index), segment.ack_request or self._requests_ack_early(now_ns),
            segment.payload_bytes, segment.offset_bytes, segment.message_bytes,
        )  # fmt: skip

    def sent(self, size_bytes: int, now_ns: int, resumed_ns: int) -> None:
        """Record that `next_frame` has been sent; time before the slot's opening or a pause's end is not caught up."""
        if self.first_tx_ns is None:
            self.first_tx_ns = now_ns
        self.tx_bytes += size_bytes
        self.requester.sent(now_ns)
        self.pacer.sent(size_bytes * 8, now_ns, max(self._open_ns[0], resumed_ns))
        if self.reaction is not None:
            self.reaction.on_sent(size_bytes, now_ns)

    def on_cnp(self, now_ns: int) -> bool:
        """Process a CNP; return False if this NIC runs without DCQCN."""
        if self.reaction is None:
            return False
        self.cnps += 1
        self.reaction.on_cnp(now_ns)
        self._pace()
        return True

    def modify(self, change: dict[str, Any], now_ns: int) -> None:
        """Change source port, rate or admission window while packets are in flight; PSNs continue."""
        self.next_check_ns = 0
        if "udp_source_port" in change:
            self._writer.move(change["udp_source_port"])
        if "rate_bps" in change:
            self._plan_bps = float(change["rate_bps"])
            if self.reaction is not None:
                self.reaction.set_limit(self._plan_bps, now_ns)
            self._pace()
        if "admission" in change:
            self.admission = _admission(change["admission"])
            self._open_ns = (0.0, float("inf"))

    def report(self) -> dict[str, Any]:
        """Return the counters of this queue pair as a sender."""
        requester = self.requester
        acked = requester.acknowledged
        covered = self.transfer.segment(acked - 1) if acked else None
        return {
            "qpn": self.qpn,
            "udp_source_port": self._writer.route.udp_source_port,
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

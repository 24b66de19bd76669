"""A queue pair as its sender sees it: what is next, and when it may leave.

Four things say when: the requester's window of unacknowledged packets, the pacer at the plan's rate or at DCQCN's
where that is lower, the plan's admission window, and the pause of the queue pair's priority (`Nic` asks that one).
"""

from typing import Any

from mininet_topos.nic import roce
from mininet_topos.nic.admission import AdmissionWindow
from mininet_topos.nic.dcqcn import DcqcnSettings, ReactionPoint
from mininet_topos.nic.pacer import Pacer
from mininet_topos.nic.queue_pair import Requester, Transfer

OPCODES = {"write": roce.WRITE_OPCODES, "send": roce.SEND_OPCODES}


class SendQueue:
    """A queue pair's requester with its pacing and frames."""

    def __init__(
        self, description: dict[str, Any], route: roce.Route, catch_up_ns: int, dcqcn: DcqcnSettings | None
    ) -> None:
        """Build from one entry of `open`; raises KeyError for an operation that is neither write nor send."""
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
        self._patience_ns = description["timeout_ns"] / (2 * description["ack_every"])
        self._turn_ns = (0.0, float("inf"))
        self._writer = roce.FrameWriter(route)

    @property
    def rate_bps(self) -> float:
        """Return the rate that frames may leave at now."""
        return self._plan_bps if self.reaction is None else self.reaction.rate_bps

    def due_ns(self, now_ns: int, unix_offset_ns: int) -> float | None:
        """Return when the next frame may leave; None while there is none, or an acknowledgement must come first."""
        self.requester.expire(now_ns)
        if not self.requester.can_send:
            return None
        if self.reaction is not None:
            self.reaction.advance(now_ns)
            self._pace()
        if self.admission is None:
            return self.pacer.next_ns
        opens_ns, closes_ns = self.admission.turn(now_ns + unix_offset_ns)
        self._turn_ns = (opens_ns - unix_offset_ns, closes_ns - unix_offset_ns)
        return max(self.pacer.next_ns, self._turn_ns[0])

    def wake_ns(self) -> float:
        """Return when to look again although nothing arrives: a timer of the requester or of the reaction point."""
        deadline_ns = self.requester.deadline_ns
        wake_ns = float("inf") if deadline_ns is None else float(deadline_ns)
        if self.reaction is None or not self.requester.can_send or self.reaction.wake_ns is None:
            return wake_ns
        return min(wake_ns, self.reaction.wake_ns)

    def next_frame(self, now_ns: int) -> bytearray:
        """Return the frame that is next."""
        index = self.requester.next_index
        segment = self.transfer.segment(index)
        return self._writer.write(
            segment.opcode, self.requester.psn(index), segment.ack_request or self._asks_early(now_ns),
            segment.payload_bytes, segment.offset_bytes, segment.message_bytes,
        )  # fmt: skip

    def sent(self, size_bytes: int, now_ns: int, resumed_ns: int) -> None:
        """Note that `next_frame` has left. No time before the turn's opening or the last pause's end is made up for."""
        if self.first_tx_ns is None:
            self.first_tx_ns = now_ns
        self.tx_bytes += size_bytes
        self.requester.sent(now_ns)
        self.pacer.sent(size_bytes * 8, now_ns, max(self._turn_ns[0], resumed_ns))
        if self.reaction is not None:
            self.reaction.on_sent(size_bytes, now_ns)

    def on_cnp(self, now_ns: int) -> bool:
        """Take a congestion notification; False where this NIC does not react to them."""
        if self.reaction is None:
            return False
        self.cnps += 1
        self.reaction.on_cnp(now_ns)
        self._pace()
        return True

    def modify(self, change: dict[str, Any], now_ns: int) -> None:
        """Change source port, rate or admission window while packets are under way; the PSN goes on."""
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
            self._turn_ns = (0.0, float("inf"))

    def report(self) -> dict[str, Any]:
        """Return what this queue pair did as a sender."""
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

    def _asks_early(self, now_ns: int) -> bool:
        """Return whether a packet asks for its acknowledgement out of turn: the next one may come too late to ask.

        So it is where DCQCN made the pace slow, and with the last packet before an admission window closes.
        """
        if self.reaction is None and self.admission is None:
            return False
        gap_ns = self.pacer.duration_ns(8 * self.transfer.mtu_bytes)
        slow = self.reaction is not None and gap_ns > self._patience_ns
        return slow or now_ns + gap_ns >= self._turn_ns[1]


def _admission(description: dict[str, int] | None) -> AdmissionWindow | None:
    """Read a window; none, or one of no slots, means always."""
    if not description or not description["slots"]:
        return None
    return AdmissionWindow(**description)

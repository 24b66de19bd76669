"""A queue pair as its receiver sees it: the responder, the notification point, and the frames of their answers."""

from typing import Any

from mininet_topos.nic import roce
from mininet_topos.nic.dcqcn import DcqcnSettings, NotificationPoint
from mininet_topos.nic.queue_pair import Answer, Responder
from mininet_topos.nic.roce import PSN_HALF, PSN_MASK


class ReceiveQueue:
    """A queue pair's responder with the frames of its answers."""

    def __init__(self, description: dict[str, Any], route: roce.Route, dcqcn: DcqcnSettings | None) -> None:
        """Build from one entry of `open`."""
        self.qpn = int(description["qpn"])
        self.priority = roce.priority(route.traffic_class)
        self.responder = Responder(first_psn=description["first_psn"])
        self.rx_packets = self.ecn_marked = self.cnps = 0
        self.last_rx_ns: int | None = None
        self._notification = None if dcqcn is None else NotificationPoint(dcqcn)
        self._writer = roce.FrameWriter(route)
        self._held: Answer | None = None

    def on_data(self, packet: roce.Packet, now_ns: int) -> Answer:
        """Take a data packet and return what is to be answered."""
        self.rx_packets += 1
        self.last_rx_ns = now_ns
        ends_message = packet.opcode in roce.MESSAGE_ENDS
        return self.responder.on_data(packet.psn, packet.ack_request, ends_message, packet.payload_bytes)

    def on_marked(self, now_ns: int) -> bytearray | None:
        """Take a mark; return the CNP to send for it, if any."""
        self.ecn_marked += 1
        if self._notification is None or not self._notification.on_marked(now_ns):
            return None
        return self._writer.congestion_notification()

    def frame(self, answer: Answer) -> bytearray:
        """Return the frame of an answer."""
        assert answer.syndrome is not None
        return self._writer.acknowledge(answer.psn, answer.syndrome, self.responder.message_sequence)

    def hold(self, answer: Answer) -> None:
        """Keep an answer until its priority may send again; the newest stands for all, for each covers those before.

        But an older acknowledgement does not replace a NAK: the responder sends only one for a gap.
        """
        if self._held is None or (answer.psn - self._held.psn & PSN_MASK) < PSN_HALF:
            self._held = answer

    def release(self) -> Answer | None:
        """Return the answer that was held, once."""
        held, self._held = self._held, None
        return held

    def modify(self, change: dict[str, Any]) -> None:
        """Answer from another source port from now on."""
        if "udp_source_port" in change:
            self._writer.move(change["udp_source_port"])

    def report(self) -> dict[str, Any]:
        """Return what this queue pair did as a receiver."""
        names = ("delivered_packets", "delivered_bytes", "out_of_sequence", "duplicate_request")
        counts = {name: getattr(self.responder, name) for name in names}
        return {
            "qpn": self.qpn,
            "rx_packets": self.rx_packets,
            "np_ecn_marked_roce_packets": self.ecn_marked,
            "np_cnp_sent": self.cnps,
            "last_rx_ns": self.last_rx_ns,
            **counts,
        }

"""The receiving end of a queue pair: responder, DCQCN notification point, and the ACK, NAK and CNP frames."""

from typing import Any

from heddle.mininet_topos.nic.dcqcn import DcqcnSettings, NotificationPoint
from heddle.mininet_topos.nic.goodput import GoodputSeries
from heddle.mininet_topos.nic.queue_pair import Responder, Response
from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.roce import PSN_HALF, PSN_MASK
from heddle.mininet_topos.wire.srv6 import Tunnel


class ReceiveQueue:
    """A queue pair's responder and notification point, with the frames that they send."""

    def __init__(self, description: dict[str, Any], route: roce.Route, dcqcn: DcqcnSettings | None) -> None:
        """Create the queue from one entry of `open`'s responders."""
        self.qpn = int(description["qpn"])
        self.priority = roce.priority(route.traffic_class)
        self.responder = Responder(first_psn=description["first_psn"])
        self.rx_packets = self.ecn_marked = self.cnps = 0
        self.last_rx_ns: int | None = None
        self.goodput = GoodputSeries()
        self._notification = None if dcqcn is None else NotificationPoint(dcqcn)
        self._writer = roce.FrameWriter(route, Tunnel.of(description))
        self._held: Response | None = None

    def on_data(self, packet: roce.Packet, now_ns: int) -> Response:
        """Process a data packet and return the responder's reaction."""
        self.rx_packets += 1
        self.last_rx_ns = now_ns
        ends_message = packet.opcode in roce.MESSAGE_ENDS
        response = self.responder.on_data(packet.psn, packet.ack_request, ends_message, packet.payload_bytes)
        if response.accepted:
            self.goodput.add(packet.payload_bytes, now_ns)
        return response

    def on_marked(self, now_ns: int) -> bytearray | None:
        """Count an ECN mark; return the CNP to send for it, if one is due."""
        self.ecn_marked += 1
        if self._notification is None or not self._notification.on_marked(now_ns):
            return None
        return self._writer.congestion_notification()

    def frame(self, response: Response) -> bytearray:
        """Return the ACK or NAK frame of a response."""
        assert response.syndrome is not None
        return self._writer.acknowledge(response.psn, response.syndrome, self.responder.message_sequence)

    def hold(self, response: Response) -> None:
        """Hold an ACK or NAK while its priority is paused; the newest replaces those before, which it covers.

        An older ACK does not replace a NAK, since the responder sends only one NAK per gap.
        """
        if self._held is None or (response.psn - self._held.psn & PSN_MASK) < PSN_HALF:
            self._held = response

    def release(self) -> Response | None:
        """Return the held response, once; None if there is none."""
        held, self._held = self._held, None
        return held

    def modify(self, change: dict[str, Any]) -> None:
        """Change the UDP source port of ACKs, NAKs and CNPs, or the path that they name."""
        if "sid" in change:
            self._writer.lead(change["sid"])
        if "udp_source_port" in change:
            self._writer.move(change["udp_source_port"])

    def report(self) -> dict[str, Any]:
        """Return the counters of this queue pair as a receiver."""
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

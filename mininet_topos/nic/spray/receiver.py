"""The receiving end of a queue pair that sprays its packets: takes them in any order, and ACKs over many paths."""

from typing import Any

from heddle.mininet_topos.nic.dcqcn import DcqcnSettings
from heddle.mininet_topos.nic.queue_pair import Response
from heddle.mininet_topos.nic.receiver import ReceiveQueue
from heddle.mininet_topos.nic.spray.selective import SelectiveResponder
from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.selective_ack import SelectiveAck
from heddle.mininet_topos.wire.srv6 import Tunnel


class SprayReceiver(ReceiveQueue):
    """A responder that places packets as they come; its ACKs, CNPs and replies to probes take its paths in turn."""

    def __init__(self, description: dict[str, Any], route: roce.Route, dcqcn: DcqcnSettings | None) -> None:
        """Create the queue from an entry of `open`'s responders that has `paths`, those of its own packets."""
        super().__init__(description, route, dcqcn)
        self.selective = self.responder = SelectiveResponder(first_psn=description["first_psn"])
        self._route, self._sid_source = route, description.get("sid_source", "")
        self._marked_of_port: dict[int, int] = {}
        self._turn = 0
        self._answered: roce.Packet | None = None
        self._set_paths(description["paths"])

    def on_data(self, packet: roce.Packet, now_ns: int) -> Response:
        """Process a data packet or a probe and return the reaction."""
        self._answered = packet
        if _is_marked(packet):
            port = packet.udp_source_port
            self._marked_of_port[port] = self._marked_of_port.get(port, 0) + 1
        if packet.opcode == roce.RC_SEND_ONLY:
            return Response(False, roce.ACK_SYNDROME, self.selective.acknowledged_psn)
        return super().on_data(packet, now_ns)

    def on_marked(self, now_ns: int) -> bytearray | None:
        """Count an ECN mark; return the CNP to send for it, if one is due."""
        self._take_turn()
        return super().on_marked(now_ns)

    def frame(self, response: Response) -> bytearray:
        """Return the ACK of the last packet, with all that has arrived by now."""
        packet = self._answered
        assert packet is not None
        self._take_turn()
        is_probe = packet.opcode == roce.RC_SEND_ONLY
        selective = SelectiveAck(
            self.selective.arrived, packet.udp_source_port, packet.psn, is_probe, _is_marked(packet)
        ).pack()
        return self._writer.acknowledge(
            self.selective.acknowledged_psn, roce.ACK_SYNDROME, self.responder.message_sequence, selective
        )

    def modify(self, change: dict[str, Any]) -> None:
        """Change the paths of ACKs and CNPs."""
        if "paths" in change:
            self._set_paths(change["paths"])

    def report(self) -> dict[str, Any]:
        """Return the counters, and the marked packets of each path's source port."""
        reordered = {"reordered_packets": self.selective.reordered_packets}
        return {**super().report(), **reordered, "marked_of_port": self._marked_of_port}

    def _set_paths(self, descriptions: list[dict[str, Any]]) -> None:
        self._writers = [
            roce.FrameWriter(
                self._route._replace(udp_source_port=entry["udp_source_port"]),
                Tunnel.of({"sid": entry.get("sid", ""), "sid_source": self._sid_source}),
            )
            for entry in descriptions
        ]  # fmt: skip
        self._take_turn()

    def _take_turn(self) -> None:
        self._turn += 1
        self._writer = self._writers[self._turn % len(self._writers)]


def _is_marked(packet: roce.Packet) -> bool:
    return packet.traffic_class & roce.ECN_MASK == roce.CONGESTION_EXPERIENCED

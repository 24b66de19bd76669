"""The sending end of a queue pair that sprays its packets: pace, window and rate control are those of `SendQueue`."""

from typing import Any

from heddle.mininet_topos.nic.dcqcn import DcqcnSettings
from heddle.mininet_topos.nic.sender import SendQueue
from heddle.mininet_topos.nic.spray.paths import Path, PathSet
from heddle.mininet_topos.nic.spray.selective import SelectiveRequester
from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.selective_ack import read_selective_ack
from heddle.mininet_topos.wire.srv6 import Tunnel


class SpraySender(SendQueue):
    """A queue pair whose every packet is an RDMA WRITE of its own on the path whose turn it is."""

    def __init__(
        self, description: dict[str, Any], route: roce.Route, catch_up_ns: int, dcqcn: DcqcnSettings | None
    ) -> None:
        """Create the queue from an entry of `open`'s requesters that has `paths`; raises ValueError as `PathSet`."""
        whole = {**description, "message_bytes": description["mtu_bytes"], "operation": "write"}
        super().__init__(whole, route, catch_up_ns, dcqcn)
        self.paths = PathSet(description["paths"])
        self.selective = self.requester = SelectiveRequester(
            self.paths, packets=self.transfer.packets, first_psn=description["first_psn"],
            window=description["window"], timeout_ns=description["timeout_ns"],
        )  # fmt: skip
        self._route, self._sid_source = route, description.get("sid_source", "")
        self._writers: dict[Path, roce.FrameWriter] = {}
        self._ack_every, self._since_request = description["ack_every"], 0
        self._probed: Path | None = None

    def due_ns(self, now_ns: int, unix_offset_ns: int) -> float | None:
        """Return the time at which the next frame may leave, as `SendQueue` does; probes do not wait for the window."""
        if self._probe_due_ns <= now_ns:
            return now_ns
        return super().due_ns(now_ns, unix_offset_ns)

    def wake_ns(self) -> float:
        """Return the time of the next timer, that of a probe included."""
        return min(super().wake_ns(), self._probe_due_ns)

    def next_frame(self, now_ns: int) -> bytearray:
        """Return the next frame: a probe that is due, else data."""
        probe = self.paths.next_probe(now_ns) if self._probe_due_ns <= now_ns else None
        self._probed = None if probe is None else probe[0]
        if probe is not None:
            return self._writer_of(probe[0]).write(roce.RC_SEND_ONLY, probe[1], True, 0)
        requester, index = self.selective, self.selective.next_index
        segment, is_turn = self.transfer.segment(index), self._since_request + 1 >= self._ack_every
        self._requests_ack = is_turn or requester.resends or requester.ends_here or requester.fills_window
        return self._writer_of(requester.choose_path()).write(
            segment.opcode, requester.psn(index), self._requests_ack,
            segment.payload_bytes, segment.offset_bytes, segment.message_bytes,
        )  # fmt: skip

    def sent(self, size_bytes: int, now_ns: int, resumed_ns: int) -> None:
        """Record that `next_frame` has been sent."""
        if self._probed is not None:
            self.tx_bytes += size_bytes
            self.paths.probed(self._probed, now_ns)
            return
        self._since_request = 0 if self._requests_ack else self._since_request + 1
        super().sent(size_bytes, now_ns, resumed_ns)

    def on_ack(self, packet: roce.Packet, now_ns: int) -> None:
        """Process an ACK: that of a probe, or of data."""
        found = read_selective_ack(packet.selective)
        if found is None:
            return
        if found.is_probe:
            self.paths.probe_returned(found.psn, now_ns)
        self.selective.on_selective_ack(packet.psn, found.arrived, now_ns, None if found.is_probe else found.psn)

    def on_unreachable(self, udp_source_port: int, now_ns: int) -> bool:
        """Process a switch's error about a packet of this queue pair; return whether it denies the path."""
        self.next_check_ns = 0
        return self.selective.deny(udp_source_port, now_ns, "unreachable")

    def on_refused(self, reason: str, now_ns: int) -> bool:
        """Process that the device refuses the frame of `next_frame`; return whether that denies its path.

        A probe counts as sent: it is repeated, and the path stays denied.
        """
        if self._probed is not None:
            self.paths.probed(self._probed, now_ns)
            return True
        return self.selective.deny(self.selective.path.udp_source_port, now_ns, f"send refused: {reason}")

    def modify(self, change: dict[str, Any], now_ns: int) -> None:
        """Change paths, rate or admission window; packets in flight stay so. Raises ValueError as `PathSet`."""
        self.next_check_ns = 0
        if "paths" in change:
            self.paths.replace(change["paths"])
            self._writers = {path: self._writers[path] for path in self.paths.paths if path in self._writers}
        self._apply({name: change[name] for name in change.keys() - {"udp_source_port", "sid"}}, now_ns)

    @property
    def path_changes(self) -> int:
        """Return how often a path has changed its state."""
        return self.paths.change_count

    def describe(self) -> dict[str, Any]:
        """Return what identifies this queue pair, with its paths and their states."""
        paths = [{"sid": path.sid, "state": path.state} for path in self.paths.paths]
        return {**super().describe(), "paths": paths}

    def report(self) -> dict[str, Any]:
        """Return the counters, and the state of every path."""
        return {
            **super().report(),
            "spurious_retransmissions": self.selective.spurious_retransmissions,
            "paths": [path.report() for path in self.paths.paths],
            "path_changes": [change._asdict() for change in self.paths.changes],
        }

    @property
    def _probe_due_ns(self) -> float:
        return self.paths.probe_due_ns if self.requester.completed_ns is None else float("inf")

    def _writer_of(self, path: Path) -> roce.FrameWriter:
        if path not in self._writers:
            tunnel = Tunnel.of({"sid": path.sid, "sid_source": self._sid_source})
            self._writers[path] = roce.FrameWriter(self._route._replace(udp_source_port=path.udp_source_port), tunnel)
        return self._writers[path]

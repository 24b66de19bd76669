"""One RDMA NIC: a process in its host's namespace that sends and receives real RoCEv2.

Runs as `python -S -m mininet_topos.nic` with the standard library only (it starts in some 40 ms and stays
near 10 MB). Takes JSON lines on standard input, answers each with one on standard output:

    {"op": "configure", "device", "mac", "ip", "catch_up_ns"}          once
    {"op": "open", "requesters": [...], "responders": [...]}            queue pairs, see `_requester`, `_responder`
    {"op": "run", "start_ns"}                                           send; a line {"event": "complete"} follows
    {"op": "stop"}                                                      send nothing new, go on receiving
    {"op": "counts"}, {"op": "report"}                                  totals; everything
    {"op": "reset"}                                                     forget queue pairs, zero the counters

Time is CLOCK_MONOTONIC in nanoseconds, the same in all namespaces.
"""

import select
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

from mininet_topos import roce
from mininet_topos.lines import LineReader, write_line
from mininet_topos.nic_socket import open_roce_socket, open_silent_listener, socket_drops
from mininet_topos.pacer import Pacer
from mininet_topos.queue_pair import Requester, Responder, Transfer

RECEIVE_BATCH = 64
SEND_BATCH = 8
RETRY_NS = 1_000_000
IDLE_S = 1.0
COUNTERS = (
    "tx_data_packets", "tx_ack_packets", "rx_data_packets", "rx_ack_packets", "rx_foreign_packets",
    "rx_unknown_qp_packets", "rx_icrc_encapsulated", "tx_refused",
)  # fmt: skip


class SendQueue:
    """A queue pair's requester with its pacing and frames."""

    def __init__(self, description: dict[str, Any], route: roce.Route, catch_up_ns: int) -> None:
        """Build from one entry of `open`."""
        self.qpn = int(description["qpn"])
        self.transfer = Transfer(
            description["size_bytes"], description["message_bytes"], description["mtu_bytes"], description["ack_every"]
        )
        self.requester = Requester(
            packets=self.transfer.packets, first_psn=description["first_psn"], window=description["window"],
            timeout_ns=description["timeout_ns"],
        )  # fmt: skip
        self.pacer = Pacer(
            rate_bps=description["rate_bps"], start_ns=description["start_offset_ns"], catch_up_ns=catch_up_ns
        )
        self.first_tx_ns: int | None = None
        self._writer = roce.FrameWriter(route)

    def next_frame(self) -> bytearray:
        """Return the frame that is next."""
        index = self.requester.next_index
        segment = self.transfer.segment(index)
        return self._writer.write(
            segment.opcode, self.requester.psn(index), segment.ack_request, segment.payload_bytes,
            segment.offset_bytes, segment.message_bytes,
        )  # fmt: skip

    def report(self) -> dict[str, Any]:
        """Return what this queue pair did as a sender."""
        requester = self.requester
        acked = requester.acknowledged
        covered = self.transfer.segment(acked - 1) if acked else None
        return {
            "qpn": self.qpn,
            "packets": requester.packets,
            "tx_packets": requester.tx_packets,
            "retransmitted_packets": requester.retransmitted_packets,
            "acked_bytes": covered.offset_bytes + covered.payload_bytes if covered else 0,
            "packet_seq_err": requester.packet_seq_err,
            "local_ack_timeout_err": requester.local_ack_timeout_err,
            "first_tx_ns": self.first_tx_ns,
            "completed_ns": requester.completed_ns,
        }


class ReceiveQueue:
    """A queue pair's responder with the frames of its answers."""

    def __init__(self, description: dict[str, Any], route: roce.Route) -> None:
        """Build from one entry of `open`."""
        self.qpn = int(description["qpn"])
        self.responder = Responder(first_psn=description["first_psn"])
        self.writer = roce.FrameWriter(route)
        self.rx_packets = 0
        self.last_rx_ns: int | None = None

    def report(self) -> dict[str, Any]:
        """Return what this queue pair did as a receiver."""
        names = ("delivered_packets", "delivered_bytes", "out_of_sequence", "duplicate_request")
        counts = {name: getattr(self.responder, name) for name in names}
        return {"qpn": self.qpn, "rx_packets": self.rx_packets, "last_rx_ns": self.last_rx_ns, **counts}


class Nic:
    """The NIC: one socket, its queue pairs, and the loop that serves them and the control pipe."""

    def __init__(self, device: str, mac: str, ip: str, catch_up_ns: int) -> None:
        """Open the sockets on `device`."""
        self._device = device
        self._mac = bytes.fromhex(mac.replace(":", ""))
        self._ip = int.from_bytes(socket.inet_aton(ip), "big")
        self._catch_up_ns = catch_up_ns
        self.socket = open_roce_socket(device)
        self._listener = open_silent_listener(ip)
        self._buffer = bytearray(16384)
        self.reset()

    def reset(self) -> None:
        """Forget all queue pairs and zero the counters."""
        self.sending: dict[int, SendQueue] = {}
        self.receiving: dict[int, ReceiveQueue] = {}
        self.counts = dict.fromkeys(COUNTERS, 0)
        self.socket_drops = 0
        self.running = False
        self._hold_until_ns = 0
        socket_drops(self.socket)

    def open(self, requesters: list[dict[str, Any]], responders: list[dict[str, Any]]) -> None:
        """Add queue pairs."""
        for description in requesters:
            self.sending[description["qpn"]] = SendQueue(description, self._route(description), self._catch_up_ns)
        for description in responders:
            self.receiving[description["qpn"]] = ReceiveQueue(description, self._route(description))

    def run(self, start_ns: int) -> None:
        """Send from `start_ns` on (each queue pair from its own offset after that)."""
        for queue in self.sending.values():
            queue.pacer.next_ns += start_ns
        self.running = True

    @property
    def complete(self) -> bool:
        """Say whether all that was to be sent has been acknowledged."""
        return all(queue.requester.completed_ns is not None for queue in self.sending.values())

    def receive(self) -> None:
        """Take what has arrived, at most a batch."""
        for _ in range(RECEIVE_BATCH):
            try:
                length = self.socket.recv_into(self._buffer)
            except BlockingIOError:
                return
            self._take(length, time.monotonic_ns())

    def send(self, now_ns: int) -> float:
        """Send what is due on all queue pairs in turn; return the seconds until there may be more to do."""
        if not self.running:
            return IDLE_S
        wake_ns: float = now_ns + IDLE_S * 1e9
        for queue in self.sending.values():
            requester, pacer = queue.requester, queue.pacer
            requester.expire(now_ns)
            for _ in range(SEND_BATCH):
                if not requester.can_send or max(pacer.next_ns, self._hold_until_ns) > now_ns:
                    break
                if not self._send_next(queue, now_ns):
                    break
            if requester.can_send:
                wake_ns = min(wake_ns, max(pacer.next_ns, self._hold_until_ns))
            if requester.deadline_ns is not None:
                wake_ns = min(wake_ns, requester.deadline_ns)
        return max(0.0, (wake_ns - now_ns) / 1e9)

    def report(self, full: bool) -> dict[str, Any]:
        """Return the totals and, if `full`, every queue pair."""
        self.socket_drops += socket_drops(self.socket)
        answer: dict[str, Any] = {**self.counts, "socket_drops": self.socket_drops, "cpu_ns": time.process_time_ns()}
        if full:
            answer["requesters"] = [queue.report() for queue in self.sending.values()]
            answer["responders"] = [queue.report() for queue in self.receiving.values()]
        return answer

    def _route(self, description: dict[str, Any]) -> roce.Route:
        return roce.Route(
            source_mac=self._mac,
            destination_mac=bytes.fromhex(description["peer_mac"].replace(":", "")),
            source_ip=self._ip,
            destination_ip=int.from_bytes(socket.inet_aton(description["peer_ip"]), "big"),
            udp_source_port=description["udp_source_port"],
            destination_qp=description["peer_qpn"],
            traffic_class=description["traffic_class"],
        )

    def _send_next(self, queue: SendQueue, now_ns: int) -> bool:
        frame = queue.next_frame()
        if not self._transmit(frame):
            self._hold_until_ns = now_ns + RETRY_NS
            return False
        self.counts["tx_data_packets"] += 1
        if queue.first_tx_ns is None:
            queue.first_tx_ns = now_ns
        queue.requester.sent(now_ns)
        queue.pacer.sent(len(frame) * 8, now_ns)
        return True

    def _transmit(self, frame: bytearray) -> bool:
        """Hand a frame to the device; False where its queue is full (the frame was not sent)."""
        try:
            self.socket.send(frame)
        except OSError:
            self.counts["tx_refused"] += 1
            return False
        return True

    def _take(self, length: int, now_ns: int) -> None:
        packet = roce.parse(self._buffer, length)
        counts = self.counts
        if packet is None or packet.destination_ip != self._ip:
            counts["rx_foreign_packets"] += 1
            return
        counts["rx_ack_packets" if packet.opcode == roce.RC_ACKNOWLEDGE else "rx_data_packets"] += 1
        if not packet.icrc_valid:
            counts["rx_icrc_encapsulated"] += 1
        elif packet.opcode == roce.RC_ACKNOWLEDGE:
            self._take_answer(packet, now_ns)
        elif packet.opcode in roce.DATA:
            self._take_data(packet, now_ns)

    def _take_answer(self, packet: roce.Packet, now_ns: int) -> None:
        queue = self.sending.get(packet.destination_qp)
        if queue is None:
            self.counts["rx_unknown_qp_packets"] += 1
        elif packet.syndrome & roce.NAK_KIND_MASK == roce.NAK_SEQUENCE_ERROR:
            queue.requester.on_nak(packet.psn, now_ns)
        else:
            queue.requester.on_ack(packet.psn, now_ns)

    def _take_data(self, packet: roce.Packet, now_ns: int) -> None:
        queue = self.receiving.get(packet.destination_qp)
        if queue is None:
            self.counts["rx_unknown_qp_packets"] += 1
            return
        queue.rx_packets += 1
        queue.last_rx_ns = now_ns
        ends_message = packet.opcode in roce.MESSAGE_ENDS
        answer = queue.responder.on_data(packet.psn, packet.ack_request, ends_message, packet.payload_bytes)
        if answer.syndrome is None:
            return
        frame = queue.writer.acknowledge(answer.psn, answer.syndrome, queue.responder.message_sequence)
        self.counts["tx_ack_packets"] += self._transmit(frame)


def obey(nic: Nic, command: dict[str, Any]) -> dict[str, Any]:
    """Carry out one command and return the answer."""
    operation = command["op"]
    if operation == "open":
        nic.open(command["requesters"], command["responders"])
    elif operation == "run":
        nic.run(command["start_ns"])
    elif operation == "stop":
        nic.running = False
    elif operation == "reset":
        nic.reset()
    elif operation in ("counts", "report"):
        return {"ok": True, **nic.report(full=operation == "report")}
    else:
        return {"ok": False, "error": f"unknown operation {operation!r}"}
    return {"ok": True}


def serve(nic: Nic, reader: LineReader) -> None:
    """Serve the network and the control pipe until the pipe ends."""
    announced = True
    while True:
        nic.receive()
        timeout = nic.send(time.monotonic_ns())
        if nic.running and not announced and nic.complete:
            write_line(sys.stdout.buffer, {"event": "complete"})
            announced = True
        readable = select.select([nic.socket.fileno(), reader.fd], [], [], timeout)[0]
        if reader.fd not in readable:
            continue
        for command in reader.read():
            announced = announced and command["op"] != "run"
            write_line(sys.stdout.buffer, obey(nic, command))
        if reader.closed:
            return


def main() -> None:
    """Wait for the configuration, then serve."""
    reader = LineReader(sys.stdin.fileno())
    commands: list[dict[str, Any]] = []
    while not commands and not reader.closed:
        commands = reader.read()
    if reader.closed:
        return
    first = commands[0]
    try:
        nic = Nic(first["device"], first["mac"], first["ip"], first["catch_up_ns"])
    except (OSError, struct.error) as fault:
        write_line(sys.stdout.buffer, {"ok": False, "error": f"NIC on {first['device']}: {fault}"})
        return
    write_line(sys.stdout.buffer, {"ok": True})
    serve(nic, reader)


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the lab has ended
        main()

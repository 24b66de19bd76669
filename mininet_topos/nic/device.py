"""The NIC: one raw socket, its queue pairs, and the port that they share; dispatches every received frame."""

import errno
import socket
import time
from collections.abc import Mapping
from typing import Any

from heddle.foundation.traffic_class import CNP
from heddle.mininet_topos.nic.dcqcn import DcqcnSettings
from heddle.mininet_topos.nic.lateness import Lateness
from heddle.mininet_topos.nic.pacer import Pacer
from heddle.mininet_topos.nic.pause import PauseStorm, PfcState
from heddle.mininet_topos.nic.port_counters import PortCounters
from heddle.mininet_topos.nic.queue_pair import Response
from heddle.mininet_topos.nic.receiver import ReceiveQueue
from heddle.mininet_topos.nic.sender import SendQueue
from heddle.mininet_topos.nic.spray.receiver import SprayReceiver
from heddle.mininet_topos.nic.spray.sender import SpraySender
from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.pause_frame import pause_frame, read_pause_frame
from heddle.mininet_topos.wire.sockets import bind_roce_port, open_roce_socket, socket_drops
from heddle.mininet_topos.wire.srv6 import Quoted, quoted_by_error, unwrapped

RECEIVE_BATCH = 64
SEND_BATCH = 8
RETRY_NS = 1_000_000
IDLE_NS = 1_000_000_000
MAC_CONTROL_FIRST_BYTE = 0x88
FULL_QUEUE = frozenset({errno.ENOBUFS, errno.EAGAIN, errno.EINTR})
"""Refusals of a frame that end by themselves; any other, as ENETDOWN or EHOSTUNREACH, says that the path is gone."""


class Nic:
    """A NIC on `device`; `receive` and `send` never block."""

    def __init__(
        self, device: str, mac: str, ip: str, catch_up_ns: int, line_rate_bps: int, dcqcn: DcqcnSettings | None = None
    ) -> None:
        """Open the sockets."""
        self.line_rate_bps = line_rate_bps
        self.socket = open_roce_socket(device)
        self._mac, self.ip = bytes.fromhex(mac.replace(":", "")), ip
        self._ip = int.from_bytes(socket.inet_aton(ip), "big")
        self._catch_up_ns, self._dcqcn = catch_up_ns, dcqcn
        self._listener = bind_roce_port(ip)
        self._buffer = bytearray(16384)
        self._counters, self._pauses = PortCounters(), PfcState(line_rate_bps)
        self._storm = PauseStorm()
        self._line = Pacer(rate_bps=line_rate_bps, start_ns=0, catch_up_ns=catch_up_ns)
        self._hold_until_ns = self._refusal = 0
        self.running, self.lateness = False, Lateness()
        self._sending: dict[int, SendQueue] = {}
        self._receiving: dict[int, ReceiveQueue] = {}
        self._round_robin: list[SendQueue] = []
        self._holding_acks: list[ReceiveQueue] = []
        self._baseline = self.totals(time.monotonic_ns())

    def reset(self) -> None:
        """Remove all queue pairs and reset the counts of `report`; those of `totals` continue."""
        self._counters.close(self._sending.values(), self._receiving.values())
        self._sending, self._receiving, self._round_robin, self._holding_acks = {}, {}, [], []
        self._baseline = self.totals(time.monotonic_ns())
        self.lateness.reset()
        self.running = False

    def open(self, requesters: list[dict[str, Any]], responders: list[dict[str, Any]]) -> None:
        """Add queue pairs."""
        for description in requesters:
            sending = SpraySender if description.get("paths") else SendQueue
            queue = sending(description, self._route(description), self._catch_up_ns, self._dcqcn)
            self._sending[queue.qpn] = queue
        for description in responders:
            receiving = SprayReceiver if description.get("paths") else ReceiveQueue
            self._receiving[description["qpn"]] = receiving(description, self._route(description), self._dcqcn)
        self._round_robin = list(self._sending.values())

    def modify(self, qpn: int, change: dict[str, Any]) -> bool:
        """Change a running queue pair; return False if there is none with this number."""
        if qpn in self._sending:
            self._sending[qpn].modify(change, time.monotonic_ns())
        elif qpn in self._receiving:
            self._receiving[qpn].modify(change)
        return qpn in self._sending or qpn in self._receiving

    def post(self, qpns: list[int], size_bytes: int) -> None:
        """Let sending queue pairs send more; raises KeyError for a number that none has, ValueError for odd sizes."""
        for qpn in qpns:
            self._sending[qpn].post(size_bytes, time.monotonic_ns())

    def run(self, start_ns: int) -> None:
        """Send from `start_ns` on, each queue pair from its own offset after that."""
        for queue in self._round_robin:
            queue.pacer.delay(start_ns)
            queue.next_check_ns = 0
        for receiving in self._receiving.values():
            receiving.goodput.start_ns = start_ns
        self.running = True

    def pause_peer(self, quanta: Mapping[int, int]) -> None:
        """Send one PFC frame with these quanta by priority to the switch, as an overloaded host's NIC does."""
        if self._transmit(pause_frame(self._mac, quanta)):
            for priority in quanta:
                self._counters.tx_pause[priority] += 1

    def storm(self, priority: int, running: bool) -> None:
        """Start or stop to pause a priority of the switch without end, as a defective NIC does."""
        self.pause_peer(self._storm.change(priority, running))

    @property
    def complete(self) -> bool:
        """Return whether all data of all requesters has been acknowledged."""
        return all(queue.requester.completed_ns is not None for queue in self._round_robin)

    @property
    def path_changes(self) -> int:
        """Return how often a path of an open queue pair has changed its state."""
        return sum(queue.path_changes for queue in self._round_robin)

    def receive(self) -> None:
        """Process received frames, at most one batch."""
        for _ in range(RECEIVE_BATCH):
            try:
                length = self.socket.recv_into(self._buffer)
            except OSError as error:  # nothing has arrived, or the device is down
                if error.errno not in (errno.EAGAIN, errno.ENETDOWN):
                    raise
                return
            self._on_frame(length, time.monotonic_ns())

    def send(self, now_ns: int) -> float:
        """Send the frames that are due, at most a batch; return the time of the next call.

        Queue pairs are served round robin, one frame each, within the port's rate. A queue pair that the rate has
        blocked is the first to be served next. So queue pairs that want more than their fair share of the line get
        equal shares, and the others what they want.
        """
        if quanta := self._storm.due(now_ns):
            self.pause_peer(quanta)
        wake_ns = min(self._send_held_acks(now_ns), self._storm.wake_ns)
        if not self.running:
            return wake_ns
        unix_offset_ns = time.time_ns() - now_ns
        waiting = self._round_robin
        for _ in range(SEND_BATCH):
            blocked_until_ns = max(self._line.next_ns, self._hold_until_ns)
            if blocked_until_ns > now_ns:
                return min(wake_ns, blocked_until_ns)
            due, next_check_ns = self._due_queues(waiting, now_ns, unix_offset_ns)
            wake_ns = min(wake_ns, next_check_ns)
            for queue in due:
                if self._line.next_ns > now_ns or not self._send_next(queue, now_ns):
                    self._serve_first(queue)
                    return min(wake_ns, max(self._line.next_ns, self._hold_until_ns))
            if not due:
                return wake_ns
            waiting = due
        return now_ns

    def totals(self, now_ns: int) -> dict[str, int]:
        """Return all counters since the start of the process."""
        self._counters.counts["out_of_buffer"] += socket_drops(self.socket)
        return self._counters.totals(self._sending.values(), self._receiving.values(), self._pauses, now_ns)

    def queue_pairs(self) -> dict[str, list[dict[str, Any]]]:
        """Return the reports of all open queue pairs."""
        return {
            "requesters": [queue.report() for queue in self._sending.values()],
            "responders": [queue.report() for queue in self._receiving.values()],
        }

    def sending_queue_pairs(self) -> dict[str, Any]:
        """Return this NIC's address and the queue pairs that send from it, with the bytes that each has sent by now."""
        queue_pairs = [queue.describe() for queue in self._sending.values()]
        return {"ip": self.ip, "timestamp_unix_ns": time.time_ns(), "queue_pairs": queue_pairs}

    def histories(self) -> dict[str, dict[int, Any]]:
        """Return the moves of the sending queue pairs and the goodput over time of the receiving ones, by number."""
        return {
            "moves": {qpn: [move._asdict() for move in queue.moves] for qpn, queue in self._sending.items()},
            "goodput": {qpn: queue.goodput.by_period() for qpn, queue in self._receiving.items()},
        }

    def report(self, full: bool) -> dict[str, Any]:
        """Return the counts since the last reset and, if `full`, the reports and histories of all queue pairs."""
        totals = self.totals(time.monotonic_ns())
        counts: dict[str, Any] = {name: count - self._baseline[name] for name, count in totals.items()}
        counts |= {"socket_drops": counts["out_of_buffer"], "cpu_ns": time.process_time_ns()}
        counts |= {"late_ns": self.lateness.total_ns, "max_late_ns": self.lateness.max_ns}
        return counts | self.queue_pairs() | self.histories() if full else counts

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

    def _due_queues(self, waiting: list[SendQueue], now_ns: int, unix_offset_ns: int) -> tuple[list[SendQueue], float]:
        """Return the queue pairs that may send now, and the time to check the others.

        That time is cached per queue pair as `next_check_ns` and reset by events, so that most checks are skipped.
        """
        due, wake_ns = [], float("inf")
        for queue in waiting:
            if queue.next_check_ns <= now_ns:
                due_ns = queue.due_ns(now_ns, unix_offset_ns)
                at_ns = float("inf") if due_ns is None else max(due_ns, self._pauses.until_ns[queue.priority])
                if at_ns <= now_ns:
                    due.append(queue)
                    continue
                queue.next_check_ns = min(at_ns, queue.wake_ns())
            wake_ns = min(wake_ns, queue.next_check_ns)
        return due, wake_ns

    def _serve_first(self, queue: SendQueue) -> None:
        at = self._round_robin.index(queue)
        self._round_robin = self._round_robin[at:] + self._round_robin[:at]

    def _send_next(self, queue: SendQueue, now_ns: int) -> bool:
        frame = queue.next_frame(now_ns)
        if not self._transmit_roce(frame, queue.priority, now_ns):
            reason = errno.errorcode.get(self._refusal, str(self._refusal))
            if self._refusal in FULL_QUEUE or not queue.on_refused(reason, now_ns):
                self._hold_until_ns = now_ns + RETRY_NS
            return False
        self._counters.counts["tx_data_packets"] += 1
        queue.sent(len(frame), now_ns, self._pauses.until_ns[queue.priority])
        return True

    def _transmit_roce(self, frame: bytearray, priority: int, now_ns: int) -> bool:
        """Send a frame and charge it to the port's rate; return False if the device refuses it."""
        if not self._transmit(frame):
            return False
        self._counters.sent(priority, len(frame))
        self._line.sent(len(frame) * 8, now_ns)
        return True

    def _transmit(self, frame: bytes | bytearray) -> bool:
        """Pass a frame to the device; return False if it refuses the frame, as `_refusal` (an errno) says."""
        try:
            self.socket.send(frame)
        except OSError as error:
            self._refusal = error.errno or 0
            self._counters.counts["tx_refused"] += 1
            return False
        return True

    def _on_frame(self, length: int, now_ns: int) -> None:
        if self._buffer[12] == MAC_CONTROL_FIRST_BYTE:
            quanta = read_pause_frame(bytes(self._buffer[:length]))
            if quanta is not None:
                self._pauses.on_pause(quanta, now_ns)
                for queue in self._round_robin:
                    queue.next_check_ns = 0
            return
        if (quoted := quoted_by_error(self._buffer, length)) is not None:
            self._on_path_error(quoted, now_ns)
            return
        packet = roce.parse(*unwrapped(self._buffer, length))
        counts = self._counters.counts
        if packet is None or packet.destination_ip != self._ip:
            counts["rx_foreign_packets"] += 1
            return
        self._counters.received(roce.priority(packet.traffic_class), length)
        counts[_RECEIVED.get(packet.opcode, "rx_data_packets")] += 1
        if not packet.icrc_valid:
            counts["rx_icrc_encapsulated"] += 1
        elif packet.opcode in roce.DATA:
            self._on_data(packet, now_ns)
        elif packet.opcode in _RECEIVED:
            self._on_ack_or_cnp(packet, now_ns)

    def _on_path_error(self, quoted: Quoted, now_ns: int) -> None:
        """Count an error for the queue pairs whose data it quotes; those about ACKs and former runs are left out."""
        for queue in self._round_robin:
            if queue.peer_qpn == quoted.destination_qp:
                self._counters.counts["rx_path_errors"] += 1
                queue.count_path_error(quoted.left)
                queue.on_unreachable(quoted.udp_source_port, now_ns)

    def _on_ack_or_cnp(self, packet: roce.Packet, now_ns: int) -> None:
        queue, counts = self._sending.get(packet.destination_qp), self._counters.counts
        if queue is None:
            counts["rx_unknown_qp_packets"] += 1
            return
        queue.next_check_ns = 0
        if packet.opcode == roce.CNP:
            counts["rp_cnp_handled" if queue.on_cnp(now_ns) else "rp_cnp_ignored"] += 1
        else:
            queue.on_ack(packet, now_ns)

    def _on_data(self, packet: roce.Packet, now_ns: int) -> None:
        queue = self._receiving.get(packet.destination_qp)
        if queue is None:
            self._counters.counts["rx_unknown_qp_packets"] += 1
            return
        if packet.traffic_class & roce.ECN_MASK == roce.CONGESTION_EXPERIENCED:
            self._on_mark(queue, now_ns)
        response = queue.on_data(packet, now_ns)
        if response.syndrome is None:
            return
        if now_ns < self._pauses.until_ns[queue.priority]:
            queue.hold(response)
            if queue not in self._holding_acks:
                self._holding_acks.append(queue)
        else:
            self._send_ack(queue, response, now_ns)

    def _on_mark(self, queue: ReceiveQueue, now_ns: int) -> None:
        """Count an ECN mark and send a CNP if one is due, even while data is paused: CNPs have their own priority."""
        self._counters.counts["np_ecn_marked_roce_packets"] += 1
        if now_ns < self._pauses.until_ns[CNP.priority]:
            return
        frame = queue.on_marked(now_ns)
        if frame is not None and self._transmit_roce(frame, CNP.priority, now_ns):
            queue.cnps += 1
            self._counters.counts["np_cnp_sent"] += 1

    def _send_held_acks(self, now_ns: int) -> float:
        """Send the held acknowledgements of priorities that are no longer paused; return the time of the next check."""
        holding, self._holding_acks = self._holding_acks, []
        wake_ns: float = now_ns + IDLE_NS
        for queue in holding:
            until_ns = self._pauses.until_ns[queue.priority]
            if now_ns < until_ns:
                self._holding_acks.append(queue)
                wake_ns = min(wake_ns, until_ns)
            elif (response := queue.release()) is not None:
                self._send_ack(queue, response, now_ns)
        return wake_ns

    def _send_ack(self, queue: ReceiveQueue, response: Response, now_ns: int) -> None:
        self._counters.counts["tx_ack_packets"] += self._transmit_roce(queue.frame(response), queue.priority, now_ns)


_RECEIVED = {roce.RC_ACKNOWLEDGE: "rx_ack_packets", roce.CNP: "rx_cnp_packets"}

"""The NIC itself: one socket, its queue pairs, the port they share, and what they do with every frame."""

import socket
import time
from typing import Any

from mininet_topos.nic import roce
from mininet_topos.nic.dcqcn import DcqcnSettings
from mininet_topos.nic.pacer import Pacer
from mininet_topos.nic.pause import PfcState
from mininet_topos.nic.port_counters import PortCounters
from mininet_topos.nic.queue_pair import Answer
from mininet_topos.nic.receiver import ReceiveQueue
from mininet_topos.nic.sender import SendQueue
from mininet_topos.nic.sockets import bind_roce_port, open_roce_socket, socket_drops
from mininet_topos.queues.pause_frame import pause_frame, read_pause_frame

RECEIVE_BATCH = 64
SEND_BATCH = 8
RETRY_NS = 1_000_000
IDLE_NS = 1_000_000_000
MAC_CONTROL_FIRST_BYTE = 0x88
CNP_PRIORITY = roce.priority(roce.CNP_TRAFFIC_CLASS)


class Nic:
    """A NIC on `device`; `receive` and `send` never wait."""

    def __init__(
        self, device: str, mac: str, ip: str, catch_up_ns: int, line_rate_bps: int, dcqcn: DcqcnSettings | None = None
    ) -> None:
        """Open the sockets."""
        self.line_rate_bps = line_rate_bps
        self.socket = open_roce_socket(device)
        self._mac = bytes.fromhex(mac.replace(":", ""))
        self._ip = int.from_bytes(socket.inet_aton(ip), "big")
        self._catch_up_ns, self._dcqcn = catch_up_ns, dcqcn
        self._listener = bind_roce_port(ip)
        self._buffer = bytearray(16384)
        self._tally, self._pauses = PortCounters(), PfcState(line_rate_bps)
        self._line = Pacer(rate_bps=line_rate_bps, start_ns=0, catch_up_ns=catch_up_ns)
        self._hold_until_ns = 0
        self.running = False
        self._sending: dict[int, SendQueue] = {}
        self._receiving: dict[int, ReceiveQueue] = {}
        self._in_turn: list[SendQueue] = []
        self._owing: list[ReceiveQueue] = []
        self._baseline = self.totals(time.monotonic_ns())

    def reset(self) -> None:
        """Forget all queue pairs; the counts of a report begin anew, those of `totals` go on."""
        self._tally.close(self._sending.values(), self._receiving.values())
        self._sending, self._receiving, self._in_turn, self._owing = {}, {}, [], []
        self._baseline = self.totals(time.monotonic_ns())
        self.running = False

    def open(self, requesters: list[dict[str, Any]], responders: list[dict[str, Any]]) -> None:
        """Add queue pairs."""
        for description in requesters:
            queue = SendQueue(description, self._route(description), self._catch_up_ns, self._dcqcn)
            self._sending[queue.qpn] = queue
        for description in responders:
            self._receiving[description["qpn"]] = ReceiveQueue(description, self._route(description), self._dcqcn)
        self._in_turn = list(self._sending.values())

    def modify(self, qpn: int, change: dict[str, Any]) -> bool:
        """Change a queue pair while it runs; False where there is none of this number."""
        if qpn in self._sending:
            self._sending[qpn].modify(change, time.monotonic_ns())
        elif qpn in self._receiving:
            self._receiving[qpn].modify(change)
        return qpn in self._sending or qpn in self._receiving

    def run(self, start_ns: int) -> None:
        """Send from `start_ns` on (each queue pair from its own offset after that)."""
        for queue in self._in_turn:
            queue.pacer.delay(start_ns)
            queue.next_check_ns = 0
        self.running = True

    def pause_peer(self, priority: int, quanta: int) -> None:
        """Send one PFC frame, as a NIC does whose host cannot keep up."""
        if self._transmit(pause_frame(self._mac, {priority: quanta})):
            self._tally.tx_pause[priority] += 1

    @property
    def complete(self) -> bool:
        """Return whether all that was to be sent has been acknowledged."""
        return all(queue.requester.completed_ns is not None for queue in self._in_turn)

    def receive(self) -> None:
        """Take what has arrived, at most a batch."""
        for _ in range(RECEIVE_BATCH):
            try:
                length = self.socket.recv_into(self._buffer)
            except BlockingIOError:
                return
            self._take(length, time.monotonic_ns())

    def send(self, now_ns: int) -> float:
        """Send what is due; return when there may be more to do.

        The queue pairs take turns, a frame each, as the port's rate allows; whoever was next when it did not goes first
        the next time. So those that want more than their share get equal shares, and the others what they want.
        """
        wake_ns = self._release_answers(now_ns)
        if not self.running:
            return wake_ns
        unix_offset_ns = time.time_ns() - now_ns
        waiting = self._in_turn
        for _ in range(SEND_BATCH):
            blocked_until_ns = max(self._line.next_ns, self._hold_until_ns)
            if blocked_until_ns > now_ns:
                return min(wake_ns, blocked_until_ns)
            due, next_check_ns = self._due(waiting, now_ns, unix_offset_ns)
            wake_ns = min(wake_ns, next_check_ns)
            for queue in due:
                if self._line.next_ns > now_ns or not self._send_next(queue, now_ns):
                    self._begin_with(queue)
                    return min(wake_ns, max(self._line.next_ns, self._hold_until_ns))
            if not due:
                return wake_ns
            waiting = due
        return now_ns

    def totals(self, now_ns: int) -> dict[str, int]:
        """Return every counter since the NIC started."""
        self._tally.counts["out_of_buffer"] += socket_drops(self.socket)
        return self._tally.totals(self._sending.values(), self._receiving.values(), self._pauses, now_ns)

    def queue_pairs(self) -> dict[str, list[dict[str, Any]]]:
        """Return every open queue pair."""
        return {
            "requesters": [queue.report() for queue in self._sending.values()],
            "responders": [queue.report() for queue in self._receiving.values()],
        }

    def report(self, full: bool) -> dict[str, Any]:
        """Return the counts since the last reset and, if `full`, every queue pair."""
        totals = self.totals(time.monotonic_ns())
        answer: dict[str, Any] = {name: count - self._baseline[name] for name, count in totals.items()}
        answer |= {"socket_drops": answer["out_of_buffer"], "cpu_ns": time.process_time_ns()}
        return answer | self.queue_pairs() if full else answer

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

    def _due(self, waiting: list[SendQueue], now_ns: int, unix_offset_ns: int) -> tuple[list[SendQueue], float]:
        """Return the queue pairs that may send now, and when to look at the others.

        Each remembers that moment, `next_check_ns`, until something happens to it: most are not asked most of the time.
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

    def _begin_with(self, queue: SendQueue) -> None:
        at = self._in_turn.index(queue)
        self._in_turn = self._in_turn[at:] + self._in_turn[:at]

    def _send_next(self, queue: SendQueue, now_ns: int) -> bool:
        frame = queue.next_frame(now_ns)
        if not self._transmit_roce(frame, queue.priority, now_ns):
            self._hold_until_ns = now_ns + RETRY_NS
            return False
        self._tally.counts["tx_data_packets"] += 1
        queue.sent(len(frame), now_ns, self._pauses.until_ns[queue.priority])
        return True

    def _transmit_roce(self, frame: bytearray, priority: int, now_ns: int) -> bool:
        """Send a frame and charge it to the port; False where the device has no room for it."""
        if not self._transmit(frame):
            return False
        self._tally.sent(priority, len(frame))
        self._line.sent(len(frame) * 8, now_ns)
        return True

    def _transmit(self, frame: bytes | bytearray) -> bool:
        """Hand a frame to the device; False where its queue is full (the frame was not sent)."""
        try:
            self.socket.send(frame)
        except OSError:
            self._tally.counts["tx_refused"] += 1
            return False
        return True

    def _take(self, length: int, now_ns: int) -> None:
        if self._buffer[12] == MAC_CONTROL_FIRST_BYTE:
            quanta = read_pause_frame(bytes(self._buffer[:length]))
            if quanta is not None:
                self._pauses.on_pause(quanta, now_ns)
                for queue in self._in_turn:
                    queue.next_check_ns = 0
            return
        packet = roce.parse(self._buffer, length)
        counts = self._tally.counts
        if packet is None or packet.destination_ip != self._ip:
            counts["rx_foreign_packets"] += 1
            return
        self._tally.received(roce.priority(packet.traffic_class), length)
        counts[_RECEIVED.get(packet.opcode, "rx_data_packets")] += 1
        if not packet.icrc_valid:
            counts["rx_icrc_encapsulated"] += 1
        elif packet.opcode in roce.DATA:
            self._take_data(packet, now_ns)
        elif packet.opcode in _RECEIVED:
            self._take_answer(packet, now_ns)

    def _take_answer(self, packet: roce.Packet, now_ns: int) -> None:
        queue, counts = self._sending.get(packet.destination_qp), self._tally.counts
        if queue is None:
            counts["rx_unknown_qp_packets"] += 1
            return
        queue.next_check_ns = 0
        if packet.opcode == roce.CNP:
            counts["rp_cnp_handled" if queue.on_cnp(now_ns) else "rp_cnp_ignored"] += 1
        elif packet.syndrome & roce.NAK_KIND_MASK == roce.NAK_SEQUENCE_ERROR:
            queue.requester.on_nak(packet.psn, now_ns)
        else:
            queue.requester.on_ack(packet.psn, now_ns)

    def _take_data(self, packet: roce.Packet, now_ns: int) -> None:
        queue = self._receiving.get(packet.destination_qp)
        if queue is None:
            self._tally.counts["rx_unknown_qp_packets"] += 1
            return
        if packet.traffic_class & roce.ECN_MASK == roce.CONGESTION_EXPERIENCED:
            self._take_mark(queue, now_ns)
        answer = queue.on_data(packet, now_ns)
        if answer.syndrome is None:
            return
        if now_ns < self._pauses.until_ns[queue.priority]:
            queue.hold(answer)
            if queue not in self._owing:
                self._owing.append(queue)
        else:
            self._answer(queue, answer, now_ns)

    def _take_mark(self, queue: ReceiveQueue, now_ns: int) -> None:
        """Count a mark and send a CNP if it is time, even while data is paused: it has another priority."""
        self._tally.counts["np_ecn_marked_roce_packets"] += 1
        if now_ns < self._pauses.until_ns[CNP_PRIORITY]:
            return
        frame = queue.on_marked(now_ns)
        if frame is not None and self._transmit_roce(frame, CNP_PRIORITY, now_ns):
            queue.cnps += 1
            self._tally.counts["np_cnp_sent"] += 1

    def _release_answers(self, now_ns: int) -> float:
        """Send the answers whose pause is over; return when to look again."""
        owing, self._owing = self._owing, []
        wake_ns: float = now_ns + IDLE_NS
        for queue in owing:
            until_ns = self._pauses.until_ns[queue.priority]
            if now_ns < until_ns:
                self._owing.append(queue)
                wake_ns = min(wake_ns, until_ns)
            elif (answer := queue.release()) is not None:
                self._answer(queue, answer, now_ns)
        return wake_ns

    def _answer(self, queue: ReceiveQueue, answer: Answer, now_ns: int) -> None:
        self._tally.counts["tx_ack_packets"] += self._transmit_roce(queue.frame(answer), queue.priority, now_ns)


_RECEIVED = {roce.RC_ACKNOWLEDGE: "rx_ack_packets", roce.CNP: "rx_cnp_packets"}

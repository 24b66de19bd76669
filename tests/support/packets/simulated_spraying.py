"""Spraying queue pairs on a simulated fabric of two tiers: links with rates and queues, and cables that are cut.

Every frame passes its links one after the other; a queue that is full drops, and a cable that is cut drops silently.
The queue pairs are those of the lab's NIC; time is simulated, so that a run is the same on every machine.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from heddle.mininet_topos.nic.spray.receiver import SprayReceiver
from heddle.mininet_topos.nic.spray.sender import SpraySender
from heddle.mininet_topos.wire import roce
from tests.support.packets.queue_pair_ends import MS, ROUTE
from tests.support.packets.sprayed import FIRST_PORT

SPINES = LEAVES = NICS_PER_LEAF = 4
LINE_BPS = 10_000_000
QUEUE_FRAMES = 80
MTU = 4096
FRAME_BYTES = 4170
HOP_NS = 10_000
BIN_NS = 200 * MS


class Flow(NamedTuple):
    """A flow between two NICs, numbered leaf by leaf, and the spines of its paths and of those of its ACKs."""

    src: int
    dst: int
    spines: tuple[int, ...]
    reverse_spines: tuple[int, ...]


class SimulatedFabric:
    """The queue pairs of some flows, and all links."""

    def __init__(self, flows: Sequence[Flow], rate_bps: float, jitter_ns: Callable[[], int] = lambda: 0) -> None:
        self.flows, self.now_ns = flows, 0
        self.cut: set[tuple[int, int]] = set()
        """Cables by leaf and spine."""
        self.lost_on_cut = self.dropped_by_queue = 0
        self.bins: Counter[int] = Counter()
        self._jitter_ns = jitter_ns
        self._free_ns: Counter[tuple[object, ...]] = Counter()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = count()
        self._polls: dict[int, int] = {}
        self.senders = [self._sender(number, flow, int(rate_bps)) for number, flow in enumerate(flows)]
        self.receivers = [
            SprayReceiver({"qpn": 9, "first_psn": 0, "paths": described(flow.reverse_spines)}, ROUTE, None)
            for flow in flows
        ]
        for number in range(len(flows)):
            self._poll(number)

    def at(self, time_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time_ns, next(self._number), action))

    def run(self, until_ns: int) -> None:
        while self._events and self._events[0][0] <= until_ns:
            self.now_ns, _, action = heapq.heappop(self._events)
            action()

    def modify(self, number: int, rate_bps: float, spines: Sequence[int], reverse_spines: Sequence[int]) -> None:
        """Give a flow another rate and other paths."""
        self.senders[number].modify({"rate_bps": int(rate_bps), "paths": described(spines)}, self.now_ns)
        self.receivers[number].modify({"paths": described(reverse_spines)})
        self._poll(number)

    def goodput_bps(self, index: int) -> float:
        """Return what arrived in a bin of 200 ms."""
        return self.bins[index] * 8e9 / BIN_NS

    def _sender(self, number: int, flow: Flow, rate_bps: int) -> SpraySender:
        description = {
            "qpn": number, "peer_ip": "10.0.0.2", "size_bytes": MTU * 100_000, "mtu_bytes": MTU, "ack_every": 4,
            "first_psn": 0, "window": 128, "timeout_ns": 1_000 * MS, "rate_bps": rate_bps,
            "start_offset_ns": flow.src % NICS_PER_LEAF * 830_000, "paths": described(flow.spines),
        }  # fmt: skip
        return SpraySender(description, ROUTE, 33 * MS, None)

    def _poll(self, number: int) -> None:
        """Send what a queue pair may send now, and come back when it may send more."""
        sender = self.senders[number]
        self._polls[number] = self._polls.get(number, 0) + 1
        due_ns = sender.due_ns(self.now_ns, 0)
        while due_ns is not None and due_ns <= self.now_ns:
            frame = sender.next_frame(self.now_ns)
            packet = roce.parse(frame, len(frame))
            assert packet is not None
            sender.sent(len(frame), self.now_ns, 0)
            self._forward(number, packet, len(frame), False)
            due_ns = sender.due_ns(self.now_ns, 0)
        wake_ns = min(float("inf") if due_ns is None else due_ns, sender.wake_ns())
        if wake_ns < float("inf"):
            self.at(int(wake_ns) + 1 + self._jitter_ns(), partial(self._again, number, self._polls[number]))

    def _again(self, number: int, turn: int) -> None:
        if turn == self._polls[number]:
            self._poll(number)

    def _forward(self, number: int, packet: roce.Packet, size_bytes: int, is_ack: bool) -> None:
        flow, spine = self.flows[number], packet.udp_source_port - FIRST_PORT
        src, dst = (flow.dst, flow.src) if is_ack else (flow.src, flow.dst)
        up, down = (src // NICS_PER_LEAF, spine), (dst // NICS_PER_LEAF, spine)
        hops = (("nic", src), ("up", *up), ("down", *down), ("to", dst))
        self._hop(hops, 0, number, packet, size_bytes, is_ack)

    def _hop(self, hops, at: int, number: int, packet: roce.Packet, size_bytes: int, is_ack: bool) -> None:
        if at == len(hops):
            self._arrived(number, packet, is_ack)
            return
        link, frame_ns = hops[at], size_bytes * 8 * 10**9 // LINE_BPS
        if link[1:] in self.cut:
            self.lost_on_cut += packet.opcode == roce.RC_RDMA_WRITE_ONLY
            return
        starts_ns = max(self.now_ns, self._free_ns[link])
        if starts_ns - self.now_ns > QUEUE_FRAMES * FRAME_BYTES * 8 * 10**9 // LINE_BPS:
            self.dropped_by_queue += 1
            return
        self._free_ns[link] = starts_ns + frame_ns
        self.at(
            starts_ns + frame_ns + HOP_NS, lambda: self._hop(hops, at + 1, number, packet, size_bytes, is_ack)
        )  # fmt: skip

    def _arrived(self, number: int, packet: roce.Packet, is_ack: bool) -> None:
        if is_ack:
            self.senders[number].on_ack(packet, self.now_ns)
            self._poll(number)
            return
        receiver = self.receivers[number]
        response = receiver.on_data(packet, self.now_ns)
        self.bins[self.now_ns // BIN_NS] += packet.payload_bytes if response.accepted else 0
        if response.syndrome is not None:
            frame = receiver.frame(response)
            ack = roce.parse(frame, len(frame))
            assert ack is not None
            self._forward(number, ack, len(frame), True)


def described(spines: Sequence[int]) -> list[dict[str, int]]:
    """Return the paths over spines, each a source port."""
    return [{"udp_source_port": FIRST_PORT + spine} for spine in spines]

"""A spraying queue pair without sockets: both ends, and a network whose paths lose, repeat, delay, and fail."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from heddle.mininet_topos.nic.spray.receiver import SprayReceiver
from heddle.mininet_topos.nic.spray.sender import SpraySender
from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.srv6 import unwrapped
from tests.support.packets.queue_pair_ends import LINE_BPS, MS, ROUTE

FIRST_PORT = 0xC000
MTU = 256


def paths(count: int, weights: Mapping[int, int] | None = None) -> list[dict[str, Any]]:
    return [{"udp_source_port": FIRST_PORT + n, "weight": (weights or {}).get(n, 1)} for n in range(count)]


def spray_sender(packets: int, count: int = 4, **changes: Any) -> SpraySender:
    description = {
        "qpn": 7, "peer_ip": "10.0.0.2", "size_bytes": MTU * packets, "mtu_bytes": MTU, "ack_every": 4,
        "first_psn": 0xFFFFF0, "window": 128, "timeout_ns": 400 * MS, "rate_bps": LINE_BPS, "start_offset_ns": 0,
        "paths": paths(count),
    }  # fmt: skip
    return SpraySender({**description, **changes}, ROUTE, 2 * MS, None)


def spray_receiver(count: int = 2, first_psn: int = 0xFFFFF0) -> SprayReceiver:
    return SprayReceiver({"qpn": 9, "first_psn": first_psn, "paths": paths(count)}, ROUTE, None)


class Network:
    """Carries frames in milliseconds; `delivers(port, now_ms)` says whether a path is up."""

    def __init__(self, seed: int, loss: float, repeat: float, delay_ms: int) -> None:
        self.chance, self.loss, self.repeat, self.delay_ms = random.Random(seed), loss, repeat, delay_ms
        self.delivers: Callable[[int, int], bool] = lambda _port, _now_ms: True
        self._under_way: list[tuple[int, int, bytearray]] = []
        self._number = 0

    def send(self, frame: bytearray, now_ms: int) -> None:
        port = read(frame).udp_source_port
        if self.chance.random() < self.loss or not self.delivers(port, now_ms):
            return
        for _ in range(2 if self.chance.random() < self.repeat else 1):
            self._number += 1
            arrives = now_ms + 1 + self.chance.randint(0, self.delay_ms)
            self._under_way.append((arrives, self._number, bytearray(frame)))

    def arrived(self, now_ms: int) -> list[roce.Packet]:
        due = sorted((entry for entry in self._under_way if entry[0] <= now_ms), key=lambda entry: entry[:2])
        self._under_way = [entry for entry in self._under_way if entry[0] > now_ms]
        return [read(frame) for _, _, frame in due]


class Trial:
    """Both ends on two networks, one step a millisecond."""

    def __init__(self, sender: SpraySender, receiver: SprayReceiver, there: Network, back: Network) -> None:
        self.sender, self.receiver, self.there, self.back = sender, receiver, there, back
        self.now_ms = 0
        self.accepted: list[int] = []
        self.sent: list[roce.Packet] = []

    def step(self) -> None:
        now_ns = self.now_ms * MS
        due_ns = self.sender.due_ns(now_ns, 0)
        if due_ns is not None and due_ns <= now_ns:
            frame = self.sender.next_frame(now_ns)
            self.sender.sent(len(frame), now_ns, 0)
            self.sent.append(read(frame))
            self.there.send(frame, self.now_ms)
        for packet in self.there.arrived(self.now_ms):
            response = self.receiver.on_data(packet, now_ns)
            self.accepted += [packet.psn] if response.accepted else []
            if response.syndrome is not None:
                self.back.send(self.receiver.frame(response), self.now_ms)
        for packet in self.back.arrived(self.now_ms):
            self.sender.on_ack(packet, now_ns)
        self.now_ms += 1

    def run(self, limit_ms: int) -> None:
        """Run until all is acknowledged, or for a time."""
        end_ms = self.now_ms + limit_ms
        while self.sender.requester.completed_ns is None and self.now_ms < end_ms:
            self.step()


def read(frame: bytearray) -> roce.Packet:
    packet = roce.parse(*unwrapped(bytearray(frame), len(frame)))
    assert packet is not None
    assert packet.icrc_valid
    return packet

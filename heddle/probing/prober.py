"""Send probes from one address and receive the routers' replies: raw sockets, paced, many in flight."""

import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple

from heddle.probing.probe import Question, probe, reply_in

RATE_PPS = 1_000
TIMEOUT_S = 0.25
TRIES = 3
"""A probe without a reply is sent so often."""
PAUSE_S = 0.008
"""Probes leave in small batches: a sleep costs more than a packet."""
MAX_PAUSE_S = 0.1
_SOL_RAW, _ICMP_FILTER, _TIME_EXCEEDED = 255, 1, 11
_MAX_PACKET_BYTES = 2_048
_SO_BINDTODEVICE = 25


class Pace(NamedTuple):
    """How fast probes leave, and how long after the last one replies are received."""

    rate_pps: float
    timeout_s: float


class Prober:
    """The sockets of one address; needs CAP_NET_RAW. Use it in a `with` block, in the NIC's network namespace."""

    def __init__(self, src_ip: int, device: str, *, rate_pps: int = RATE_PPS, timeout_s: float = TIMEOUT_S) -> None:
        """Open the sockets; raises OSError, PermissionError among them."""
        self.sent = self.unsent = 0
        self._src_ip, self._rate_pps, self._timeout_s, self._identification = src_ip, rate_pps, timeout_s, 0
        self._out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        try:
            self._in = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
            for end in (self._out, self._in):
                end.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, device.encode())
            self._in.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("I", ~(1 << _TIME_EXCEEDED) & 0xFFFFFFFF))
            self._in.setblocking(False)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> "Prober":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.close()
        if hasattr(self, "_in"):
            self._in.close()

    def send(self, questions: Iterable[Question], qpn: int = 0, dscp: int = 0) -> dict[Question, int]:
        """Send probes, again those without a reply; return by probe the address of the router that replied."""
        found: dict[Question, int] = {}
        left = list(dict.fromkeys(questions))
        for _ in range(TRIES):
            found |= self.once(left, Pace(self._rate_pps, self._timeout_s), qpn, dscp=dscp)
            left = [question for question in left if question not in found]
            if not left:
                break
        return found

    def once(
        self, questions: Sequence[Question], pace: Pace, qpn: int = 0, goes_on: Callable[[], bool] = lambda: True,
        dscp: int = 0,
    ) -> dict[Question, int]:  # fmt: skip
        """Send each probe once and receive replies until the last one is too old, or until it no longer `goes_on`."""
        found: dict[Question, int] = {}
        waiting: dict[tuple[int, int, int], Question] = {}
        began_s = last_s = now_s = time.monotonic()
        number = 0
        while goes_on() and (number < len(questions) or (waiting and now_s - last_s < pace.timeout_s)):
            due = min(len(questions), int((now_s - began_s) * pace.rate_pps) + 1)
            for question in questions[number:due]:
                self._send(question, qpn, dscp, waiting)
                last_s = time.monotonic()
            number = due
            next_s = began_s + number / pace.rate_pps if number < len(questions) else last_s + pace.timeout_s
            select.select([self._in], [], [], min(max(next_s - time.monotonic(), PAUSE_S), MAX_PAUSE_S))
            self._collect(waiting, found)
            now_s = time.monotonic()
        return found

    def _send(self, question: Question, qpn: int, dscp: int, waiting: dict[tuple[int, int, int], Question]) -> None:
        self._identification = self._identification % 0xFFFF + 1
        packet = probe(self._src_ip, question, self._identification, qpn, dscp)
        try:
            self._out.sendto(packet, (socket.inet_ntoa(question.dst_ip.to_bytes(4, "big")), 0))
        except OSError:  # no route, a filter, a full queue: no reply will come
            self.unsent += 1
            return
        waiting[question.dst_ip, question.port, self._identification] = question
        self.sent += 1

    def _collect(self, waiting: dict[tuple[int, int, int], Question], found: dict[Question, int]) -> None:
        while True:
            try:
                reply = reply_in(self._in.recv(_MAX_PACKET_BYTES))
            except BlockingIOError:
                return
            if reply is None or reply.src_ip != self._src_ip:
                continue
            question = waiting.pop((reply.dst_ip, reply.port, reply.identification), None)
            if question is not None:
                found[question] = reply.router_ip

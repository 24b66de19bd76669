"""Send probes from one address and hear the routers' replies: raw sockets, paced, many in flight."""

import select
import socket
import struct
import time
from collections.abc import Iterable
from types import TracebackType

from probing.probe import Question, probe, reply_in

RATE_PPS = 1_000
TIMEOUT_S = 0.25
TRIES = 3
"""A silent question is asked so often."""
PAUSE_S = 0.008
"""Probes leave in small batches: a sleep costs more than a packet."""
_SOL_RAW, _ICMP_FILTER, _TIME_EXCEEDED = 255, 1, 11
_MAX_PACKET_BYTES = 2_048
_SO_BINDTODEVICE = 25


class Prober:
    """The sockets of one address; needs CAP_NET_RAW. Use it in a `with` block, in the NIC's network namespace."""

    def __init__(self, src_ip: int, device: str, *, rate_pps: int = RATE_PPS, timeout_s: float = TIMEOUT_S) -> None:
        """Open the sockets; raises OSError, PermissionError among them."""
        self.sent = 0
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

    def ask(self, questions: Iterable[Question], qpn: int = 0) -> dict[Question, int]:
        """Ask, the silent ones again; return by question the address of the router that replied."""
        found: dict[Question, int] = {}
        left = list(dict.fromkeys(questions))
        for _ in range(TRIES):
            self._round(left, qpn, found)
            left = [question for question in left if question not in found]
            if not left:
                break
        return found

    def _round(self, questions: list[Question], qpn: int, found: dict[Question, int]) -> None:
        """Send each question once and hear replies until the last one is too old."""
        waiting: dict[tuple[int, int, int], Question] = {}
        began_s = last_s = time.monotonic()
        number = 0
        while number < len(questions) or (waiting and time.monotonic() - last_s < self._timeout_s):
            due = min(len(questions), int((time.monotonic() - began_s) * self._rate_pps) + 1)
            for question in questions[number:due]:
                self._identification = self._identification % 0xFFFF + 1
                packet = probe(self._src_ip, question, self._identification, qpn)
                self._out.sendto(packet, (socket.inet_ntoa(question.dst_ip.to_bytes(4, "big")), 0))
                waiting[question.dst_ip, question.port, self._identification] = question
                self.sent, last_s = self.sent + 1, time.monotonic()
            number = due
            select.select([self._in], [], [], PAUSE_S)
            self._collect(waiting, found)

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

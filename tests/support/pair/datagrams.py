"""Numbered UDP datagrams in both directions between network namespaces, at a constant rate, each one counted."""

import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from heddle.mininet_topos.host.namespace import network_namespace
from tests.support.pair.streams import Route

TICK_S = 0.004
BUFFER_BYTES = 8 << 20
SO_RCVBUFFORCE = 33
_HEAD = struct.Struct("!IQ")
_LENGTH = 64


class Flow:
    """One direction: how many datagrams were sent, and how often each number arrived."""

    def __init__(self, name: str, mark: int, sock: socket.socket) -> None:
        self.name, self.mark = name, mark
        self.sock = sock
        """The sending socket; it sends once `to` is known."""
        self.to: Any = None
        self.sent = self.foreign = self.failed = 0
        self.arrived = bytearray()
        """Times received, indexed by datagram number (at most 255)."""

    def send(self) -> None:
        if self.to is None:
            return
        try:
            self.sock.sendto(_HEAD.pack(self.mark, self.sent).ljust(_LENGTH, b"\0"), self.to)
        except BlockingIOError:
            self.failed += 1
            return
        except OSError:  # an ICMP error that came back: the datagram was not sent
            self.failed += 1
            return
        self.sent += 1

    def record(self, number: int) -> None:
        if number >= len(self.arrived):
            self.arrived.extend(bytes(number + 1 - len(self.arrived)))
        self.arrived[number] = min(255, self.arrived[number] + 1)

    @property
    def lost(self) -> int:
        """Datagrams sent that have not arrived so far."""
        return self.sent - len(self.arrived) + self.arrived.count(0)

    @property
    def doubled(self) -> int:
        """Datagrams that arrived more than once."""
        return len(self.arrived) - self.arrived.count(0) - self.arrived.count(1)


class Datagrams:
    """Two flows per route, on one thread; a server sends to the source of the client's latest datagram."""

    def __init__(self, routes: list[Route]) -> None:
        self.flows: list[Flow] = []
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        for number, route in enumerate(routes):
            ends = []
            for pid, at in ((route.client, ("0.0.0.0", 0)), (route.server, (route.listen, route.port))):
                with network_namespace(pid):
                    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
                sock.bind(at)
                sock.setblocking(False)
                ends.append(sock)
            up, down = (
                Flow(f"{route.name} up", 2 * number, ends[0]),
                Flow(f"{route.name} down", 2 * number + 1, ends[1]),
            )
            up.to = (route.address, route.port)
            self.flows += [up, down] if route.two_way else [up]
            self._selector.register(ends[0], selectors.EVENT_READ, (down, None))
            self._selector.register(ends[1], selectors.EVENT_READ, (up, down if route.two_way else None))
            self._sockets += ends
        self._sending, self._closed = threading.Event(), threading.Event()
        self._sending.set()
        self._thread = threading.Thread(target=self._run, name="datagrams", daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Stop sending, and wait until no more datagrams arrive."""
        self._sending.clear()
        time.sleep(0.1)
        while True:
            before = sum(sum(flow.arrived) for flow in self.flows)
            time.sleep(0.5)
            if before == sum(sum(flow.arrived) for flow in self.flows):
                return

    def resume(self) -> None:
        """Send again."""
        self._sending.set()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for sock in self._sockets:
            sock.close()
        self._selector.close()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._closed.is_set():
            for key, _ in self._selector.select(max(0.0, due - time.monotonic())):
                self._receive(key.fileobj, *key.data)
            if (now := time.monotonic()) >= due:
                if self._sending.is_set():
                    for flow in self.flows:
                        flow.send()
                due = max(due + TICK_S, now)

    def _receive(self, sock: Any, flow: Flow, reply_flow: Flow | None) -> None:
        with suppress(OSError):
            while True:
                data, source = sock.recvfrom(2048)
                mark, number = _HEAD.unpack_from(data) if len(data) == _LENGTH else (-1, 0)
                if mark != flow.mark:
                    flow.foreign += 1
                    continue
                flow.record(number)
                if reply_flow is not None:
                    reply_flow.to = source


@contextmanager
def datagrams(routes: list[Route]) -> Iterator[Datagrams]:
    """Run the flows for the duration of the block."""
    made = Datagrams(routes)
    try:
        yield made
    finally:
        made.close()

"""Numbered UDP datagrams in both directions between network namespaces, at a steady rate, each one accounted for."""

import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from benchmarks.pair.streams import Route
from mininet_topos.queues.attach import network_namespace

TICK_S = 0.004
BUFFER_BYTES = 8 << 20
SO_RCVBUFFORCE = 33
_HEAD = struct.Struct("!IQ")
_LENGTH = 64


class Flow:
    """One direction: what was sent by number, and what of it has arrived."""

    def __init__(self, name: str, mark: int, sock: socket.socket) -> None:
        self.name, self.mark = name, mark
        self.sock = sock
        """To send from, once `to` is known."""
        self.to: Any = None
        self.sent = self.strange = self.failed = 0
        self.arrived = bytearray()
        """By number, how often."""

    def speak(self) -> None:
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

    def take(self, number: int) -> None:
        if number >= len(self.arrived):
            self.arrived.extend(bytes(number + 1 - len(self.arrived)))
        self.arrived[number] = min(255, self.arrived[number] + 1)

    @property
    def lost(self) -> int:
        """How many of those sent have not arrived, so far."""
        return self.sent - len(self.arrived) + self.arrived.count(0)

    @property
    def doubled(self) -> int:
        """How many have arrived more than once."""
        return len(self.arrived) - self.arrived.count(0) - self.arrived.count(1)


class Datagrams:
    """Flows, two a route: the server speaks to where the client's newest datagram came from. A thread does it all."""

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
            self.flows += [up, down] if route.answers else [up]
            self._selector.register(ends[0], selectors.EVENT_READ, (down, None))
            self._selector.register(ends[1], selectors.EVENT_READ, (up, down if route.answers else None))
            self._sockets += ends
        self._speaking, self._over = threading.Event(), threading.Event()
        self._speaking.set()
        self._thread = threading.Thread(target=self._run, name="datagrams", daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Say nothing more, and wait until nothing more arrives."""
        self._speaking.clear()
        time.sleep(0.1)
        while True:
            before = sum(sum(flow.arrived) for flow in self.flows)
            time.sleep(0.5)
            if before == sum(sum(flow.arrived) for flow in self.flows):
                return

    def resume(self) -> None:
        """Go on."""
        self._speaking.set()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for sock in self._sockets:
            sock.close()
        self._selector.close()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            for key, _ in self._selector.select(max(0.0, due - time.monotonic())):
                self._take(key.fileobj, *key.data)
            if (now := time.monotonic()) >= due:
                if self._speaking.is_set():
                    for flow in self.flows:
                        flow.speak()
                due = max(due + TICK_S, now)

    def _take(self, sock: Any, flow: Flow, answering: Flow | None) -> None:
        with suppress(OSError):
            while True:
                data, source = sock.recvfrom(2048)
                mark, number = _HEAD.unpack_from(data) if len(data) == _LENGTH else (-1, 0)
                if mark != flow.mark:
                    flow.strange += 1
                    continue
                flow.take(number)
                if answering is not None:
                    answering.to = source


@contextmanager
def datagrams(routes: list[Route]) -> Iterator[Datagrams]:
    """Have datagrams go to and fro for the block."""
    made = Datagrams(routes)
    try:
        yield made
    finally:
        made.close()

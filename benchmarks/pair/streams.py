"""TCP connections between network namespaces on which both ends say something all the time, every byte checked.

A direction of a connection is a sequence of 64-bit numbers that begin with its own name, so that a byte that is lost,
doubled, or of another connection is found where it arrives. What counts is for how long nothing arrived.
"""

import selectors
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from mininet_topos.queues.attach import network_namespace

TICK_S = 0.005
WORDS = 32
"""Numbers that an end sends at each tick."""
CONNECT_S = 20.0
_MAX_BYTES = 1 << 16


class End:
    """One end of a connection."""

    def __init__(self, sock: socket.socket, name: str, sends: int, hears: int) -> None:
        self.sock, self.name = sock, name
        self._sends, self._hears = sends << 40, hears << 40
        self._sent = self._heard = 0
        self._unsent = b""
        self._part = b""
        self.last_ns = time.monotonic_ns()
        """When something arrived last."""
        self.longest_ns = 0
        self.bytes = 0
        self.wrong = 0
        """Bytes that are not those that were to come."""
        self.ended = ""
        """Why there is nothing more to come; empty while it goes on."""

    def speak(self) -> None:
        """Send the next numbers, as far as there is room."""
        if self.ended:
            return
        if not self._unsent:
            first = self._sends + self._sent
            self._unsent = struct.pack(f"!{WORDS}Q", *range(first, first + WORDS))
            self._sent += WORDS
        try:
            self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self.ended = error.strerror or str(error)

    def hear(self) -> None:
        """Take what has arrived, and check it."""
        try:
            data = self.sock.recv(_MAX_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.ended = error.strerror or str(error)
            return
        if not data:
            self.ended = "closed by the other end"
            return
        now = time.monotonic_ns()
        self.longest_ns, self.last_ns = max(self.longest_ns, now - self.last_ns), now
        self.bytes += len(data)
        whole = self._part + data
        count = len(whole) // 8
        first = self._hears + self._heard
        right = struct.pack(f"!{count}Q", *range(first, first + count))
        if whole[: 8 * count] != right:
            self.wrong += sum(a != b for a, b in zip(whole, right, strict=False))
        self._heard += count
        self._part = whole[8 * count :]

    def silence_ns(self) -> int:
        """Return the longest time without a byte since `forget`, what lasts still included."""
        return max(self.longest_ns, time.monotonic_ns() - self.last_ns)

    def forget(self) -> None:
        """Count silence from now on."""
        self.longest_ns, self.last_ns = 0, time.monotonic_ns()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Who connects to whom: namespaces by a process in them."""

    name: str
    client: int
    server: int
    address: str
    port: int
    listen: str = "0.0.0.0"
    answers: bool = True
    """Whether the server says something as well; of datagrams."""


class Streams:
    """Connections, and a thread that keeps all of them busy; close it before the namespaces go."""

    def __init__(self) -> None:
        self.ends: list[End] = []
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._over, self._quiet = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="streams", daemon=True)
        self._thread.start()

    def open(self, route: Route) -> None:
        """Connect, and begin to talk; raises OSError where the connection does not come about."""
        number = len(self.ends) + 1
        with network_namespace(route.server):
            listener = socket.create_server((route.listen, route.port))
        with listener:
            with network_namespace(route.client):
                client = socket.socket()
            client.settimeout(CONNECT_S)
            listener.settimeout(CONNECT_S)
            try:
                client.connect((route.address, route.port))
                server, _ = listener.accept()
            except OSError:
                client.close()
                raise
        made = (End(client, f"{route.name} up", number, number + 1),
                End(server, f"{route.name} down", number + 1, number))  # fmt: skip
        with self._lock:
            for end in made:
                end.sock.setblocking(False)
                end.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._selector.register(end.sock, selectors.EVENT_READ, end)
                self.ends.append(end)

    def forget(self) -> None:
        """Count silence from now on."""
        for end in self.ends:
            end.forget()

    def pause(self) -> None:
        """Say nothing more until `resume`."""
        self._quiet.set()

    def resume(self) -> None:
        """Go on."""
        self._quiet.clear()
        self.forget()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for end in self.ends:
            with suppress(OSError):
                end.sock.close()
        self._selector.close()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            for key, _ in self._selector.select(max(0.0, due - time.monotonic())):
                end: End = key.data
                end.hear()
                if end.ended:
                    self._selector.unregister(end.sock)
            if (now := time.monotonic()) >= due:
                if not self._quiet.is_set():
                    with self._lock:
                        for end in self.ends:
                            end.speak()
                due = max(due + TICK_S, now)

"""TCP connections between network namespaces on which both ends send continuously, with every received byte checked.

Each direction carries consecutive 64-bit numbers whose upper bits identify the direction, so the receiver detects bytes
that are lost, duplicated, or of another connection. It measures the longest time without a received byte.
"""

import selectors
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from heddle.mininet_topos.host.namespace import network_namespace

TICK_S = 0.005
WORDS = 32
"""64-bit numbers that an end sends per tick."""
CONNECT_S = 20.0
_MAX_BYTES = 1 << 16


class End:
    """One end of a connection."""

    def __init__(self, sock: socket.socket, name: str, sends: int, receives: int) -> None:
        self.sock, self.name = sock, name
        self._sends, self._receives = sends << 40, receives << 40
        self._sent = self._received = 0
        self._unsent = b""
        self._part = b""
        self.last_ns = time.monotonic_ns()
        """Monotonic time of the last received byte."""
        self.longest_ns = 0
        self.bytes = 0
        self.wrong = 0
        """Received bytes that differ from the expected ones."""
        self.ended = ""
        """Why the connection ended; empty while it is open."""

    def send(self) -> None:
        """Send the next numbers, as far as the socket accepts them."""
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

    def receive(self) -> None:
        """Read the received bytes and check them."""
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
        pending = self._part + data
        count = len(pending) // 8
        first = self._receives + self._received
        expected = struct.pack(f"!{count}Q", *range(first, first + count))
        if pending[: 8 * count] != expected:
            self.wrong += sum(a != b for a, b in zip(pending, expected, strict=False))
        self._received += count
        self._part = pending[8 * count :]

    def silence_ns(self) -> int:
        """Return the longest time without a received byte since `forget`, including the current one."""
        return max(self.longest_ns, time.monotonic_ns() - self.last_ns)

    def forget(self) -> None:
        """Restart the measurement of silence."""
        self.longest_ns, self.last_ns = 0, time.monotonic_ns()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A connection or UDP flow: client and server namespace, each as a process in it, and the server's address."""

    name: str
    client: int
    server: int
    address: str
    port: int
    listen: str = "0.0.0.0"
    two_way: bool = True
    """Whether the server sends as well; for datagrams only."""


class Streams:
    """TCP connections and the thread that sends and receives on them; close it before the namespaces."""

    def __init__(self) -> None:
        self.ends: list[End] = []
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._closed, self._paused = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="streams", daemon=True)
        self._thread.start()

    def open(self, route: Route) -> None:
        """Connect and start to send; raises OSError if the connection fails."""
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
        """Restart the measurement of silence."""
        for end in self.ends:
            end.forget()

    def pause(self) -> None:
        """Stop sending until `resume`."""
        self._paused.set()

    def resume(self) -> None:
        """Send again and restart the measurement of silence."""
        self._paused.clear()
        self.forget()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for end in self.ends:
            with suppress(OSError):
                end.sock.close()
        self._selector.close()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._closed.is_set():
            for key, _ in self._selector.select(max(0.0, due - time.monotonic())):
                end: End = key.data
                end.receive()
                if end.ended:
                    self._selector.unregister(end.sock)
            if (now := time.monotonic()) >= due:
                if not self._paused.is_set():
                    with self._lock:
                        for end in self.ends:
                            end.send()
                due = max(due + TICK_S, now)

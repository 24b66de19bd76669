"""Send and receive the heartbeats of a pair in a dedicated thread, and drive the ownership state machine with them.

The process also compiles tables; a heartbeat delayed by that would look like a failure of this gateway. Only the thread
accesses the state machine. Its decisions go to a callback; inputs go into a queue and wake the thread.
"""

import contextlib
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from heddle.dataplane.config.pair import PairConfig
from heddle.dataplane.control.pair.duties import terms_of
from heddle.dataplane.control.pair.heartbeat import MAX_BYTES, decode, encode
from heddle.dataplane.control.pair.ownership import Announce, Effect, Ownership, SendHeartbeat, Serve

_MAX_AT_ONCE = 64
LEAVING_TICKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipStatus:
    """A snapshot of the ownership state machine."""

    hears_partner: bool
    holds: frozenset[str]
    partner_holds: frozenset[str]
    partner_may_serve: bool
    """Whether the partner may serve what is held here, also because it fell silent a short time ago."""
    turned_ns: int
    """When the thread last read heartbeats and decided, by the monotonic clock."""
    takeovers: int
    conflicts: int
    ignored: int
    """Heartbeats that were old, or from or to another gateway."""
    refused: int
    """Datagrams that are malformed, or not sealed with the configured key."""


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of ADDRESS:PORT."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Heartbeats:
    """The heartbeat thread of one member of a pair."""

    def __init__(
        self,
        me: str,
        pair: PairConfig,
        boot: int,
        report: Callable[[Serve | Announce], None],
        given_ns: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Open the sockets; raises OSError if an address is not local or already in use.

        Args:
            me: id of this gateway.
            pair: the partner.
            boot: start time of this process; higher than that of any earlier one.
            report: called in the thread with each decision that the process has to carry out.
            given_ns: called in the thread; returns the latest time (monotonic) of which the partner is known to have
                all connections of then.
        """
        self._pair, self._report, self._given_ns = pair, report, given_ns
        self._core = Ownership(terms_of(me, pair), boot)
        self._calls = queue.SimpleQueue[Callable[[], list[Effect]]]()
        self._refused = 0
        self._sockets: list[socket.socket] = []
        self._wake, self._woken = socket.socketpair()
        for each in (self._wake, self._woken):
            each.setblocking(False)
        try:
            for path in pair.paths:
                self._sockets.append(_open(path.listen, path.partner))
        except OSError:
            self._close()
            raise
        self._refusing: set[socket.socket] = set()
        """Sockets whose newest heartbeat was refused: the partner's host is up, its process is not."""
        self._leaving: int | None = None
        """Ticks until the thread ends."""
        self.status = self._snapshot()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def start(self) -> None:
        """Start sending and receiving."""
        self._thread.start()

    def stop(self, *, hand_over: bool = True) -> None:
        """Stop the thread; with `hand_over`, first offer the roles held to the partner for up to LEAVING_TICKS."""
        if self._thread.is_alive():
            self._enqueue(lambda: self._leave(LEAVING_TICKS if hand_over else 0))
            self._thread.join()
        self._close()

    def set_health(self, well: bool) -> None:
        """Record whether the data process forwards."""
        self._enqueue(lambda: self._core.set_health(well))

    def set_copied(self, copied: bool) -> None:
        """Record whether this gateway keeps a complete copy of the partner's connections."""

        def record() -> list[Effect]:
            self._core.set_copied(copied)
            return []

        self._enqueue(record)

    def _enqueue(self, call: Callable[[], list[Effect]]) -> None:
        self._calls.put(call)
        with contextlib.suppress(OSError):
            self._wake.send(b"\0")

    def _leave(self, ticks: int) -> list[Effect]:
        self._leaving = ticks
        return self._core.set_health(False) if ticks else []

    def _has_left(self) -> bool:
        """Return whether the thread may end: the roles were released, or the partner cannot take them in time."""
        if self._leaving is None:
            return False
        return self._leaving <= 0 or not self._core.holds or not self._core.hears_partner

    def _run(self) -> None:
        interval_s = self._pair.interval_ms / 1000
        with selectors.DefaultSelector() as selector:
            for each in (*self._sockets, self._woken):
                selector.register(each, selectors.EVENT_READ)
            due = time.monotonic()
            while not self._has_left():
                selector.select(max(0.0, due - time.monotonic()))
                # Received heartbeats come before the tick: a process that was suspended still sees its partner alive.
                # Every socket is read: after SIGSTOP and SIGCONT the call reports none (epoll_wait(2), EINTR).
                for each in (*self._sockets, self._woken):
                    self._drain(each)
                if len(self._refusing) == len(self._sockets):
                    self._perform(self._core.partner_gone())
                while not self._calls.empty():
                    self._perform(self._calls.get()())
                now = time.monotonic()
                if now >= due:
                    self._refusing.clear()
                    self._core.set_given(self._given_ticks(time.monotonic_ns()))
                    self._perform(self._core.tick())
                    self._leaving = None if self._leaving is None else self._leaving - 1
                    due = max(due + interval_s, now + interval_s / 2)
                self.status = self._snapshot()

    def _given_ticks(self, now_ns: int) -> int | None:
        """Return how old the partner's complete copy is, in intervals."""
        given_ns = self._given_ns()
        return None if given_ns is None else (now_ns - given_ns) // (self._pair.interval_ms * 1_000_000)

    def _drain(self, end: socket.socket) -> None:
        for _ in range(_MAX_AT_ONCE):
            try:
                data = end.recv(MAX_BYTES + 1)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                self._refusing.add(end)
                continue
            except OSError:
                continue  # unreachable by ICMP: the missing heartbeats decide
            if end is self._woken:
                continue
            heartbeat = decode(data, self._pair.key)
            if heartbeat is None:
                self._refused += 1
            else:
                self._refusing.clear()
                self._perform(self._core.heard(heartbeat))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendHeartbeat):
                data = encode(effect.heartbeat, self._pair.key)
                for each in self._sockets:
                    try:
                        each.send(data)
                    except ConnectionRefusedError:
                        self._refusing.add(each)
                    except OSError:
                        pass  # unreachable: the missing heartbeats decide
            else:
                self._report(effect)

    def _snapshot(self) -> OwnershipStatus:
        core = self._core
        return OwnershipStatus(
            hears_partner=core.hears_partner,
            holds=core.holds,
            partner_holds=core.partner_holds,
            partner_may_serve=core.partner_may_serve,
            turned_ns=time.monotonic_ns(),
            takeovers=core.takeovers,
            conflicts=core.conflicts,
            ignored=core.ignored,
            refused=self._refused,
        )

    def _close(self) -> None:
        for each in (*self._sockets, self._wake, self._woken):
            each.close()


def _open(local: str, remote: str) -> socket.socket:
    family, kind, protocol, _, at = socket.getaddrinfo(*address_of(local), type=socket.SOCK_DGRAM)[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.bind(at)
        opened.connect(address_of(remote))
    except OSError:
        opened.close()
        raise
    opened.setblocking(False)
    return opened

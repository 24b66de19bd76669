"""The shell of a pair's ownership: a thread of its own sends and hears heartbeats, whatever else the process does.

Tables are compiled in the same process; a heartbeat that waited for that would look like a death. The thread alone
touches the core. What the core decides is reported; what it should know is put into a queue and wakes it up.
"""

import contextlib
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from dataplane.config.pair import PairConfig
from dataplane.control.pair.beat import MAX_BYTES, decode, encode
from dataplane.control.pair.duties import terms_of
from dataplane.control.pair.ownership import Announce, Effect, Ownership, Serve, Tell

_MAX_AT_ONCE = 64
LEAVING_TICKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStatus:
    """How the pair stands."""

    hears_partner: bool
    holds: frozenset[str]
    partner_holds: frozenset[str]
    takeovers: int
    conflicts: int
    ignored: int
    """Heartbeats that were old or of somebody else."""
    refused: int
    """Datagrams that are no heartbeats, or not sealed with our key."""


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of ADDRESS:PORT."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Heartbeats:
    """One member of a pair. `report` is called from the thread with what the process has to do."""

    def __init__(self, me: str, pair: PairConfig, boot: int, report: Callable[[Serve | Announce], None]) -> None:
        """Open the sockets; raises OSError where an address is not this machine's, or taken."""
        self._pair, self._report = pair, report
        self._core = Ownership(terms_of(me, pair), boot)
        self._orders = queue.SimpleQueue[Callable[[], list[Effect]]]()
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
        """Ways on which the newest heartbeat found nobody: the partner's machine is there, its process is not."""
        self._leaving: int | None = None
        """Ticks until the thread ends."""
        self.status = self._look()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def start(self) -> None:
        """Begin to tell and to listen."""
        self._thread.start()

    def stop(self, *, hand_over: bool = True) -> None:
        """End; what is held is offered to the partner before, if it is there, for LEAVING_TICKS at most."""
        if self._thread.is_alive():
            self._order(lambda: self._leave(LEAVING_TICKS if hand_over else 0))
            self._thread.join()
        self._close()

    def told_health(self, well: bool) -> None:
        """Say whether the data process runs."""
        self._order(lambda: self._core.told_health(well))

    def told_copied(self, copied: bool) -> None:
        """Say whether all that the partner knows is known here."""

        def tell() -> list[Effect]:
            self._core.told_copied(copied)
            return []

        self._order(tell)

    def give(self, shares: frozenset[str]) -> None:
        """Have the partner take these shares."""
        self._order(lambda: self._core.give(shares))

    def _order(self, order: Callable[[], list[Effect]]) -> None:
        self._orders.put(order)
        with contextlib.suppress(OSError):
            self._wake.send(b"\0")

    def _leave(self, ticks: int) -> list[Effect]:
        self._leaving = ticks
        return self._core.told_health(False) if ticks else []

    def _has_left(self) -> bool:
        """Whether the thread may end: nobody is to take what is held, or it has been taken, or is not wanted."""
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
                ready = selector.select(max(0.0, due - time.monotonic()))
                # First what came, then the tick: whoever was stopped for a while finds that its partner lives.
                for key, _ in ready:
                    self._drain(key.fileobj)
                if len(self._refusing) == len(self._sockets):
                    self._perform(self._core.told_gone())
                while not self._orders.empty():
                    self._perform(self._orders.get()())
                now = time.monotonic()
                if now >= due:
                    self._refusing.clear()
                    self._perform(self._core.tick())
                    self._leaving = None if self._leaving is None else self._leaving - 1
                    due = max(due + interval_s, now + interval_s / 2)
                self.status = self._look()

    def _drain(self, end: object) -> None:
        if not isinstance(end, socket.socket):
            return
        for _ in range(_MAX_AT_ONCE):
            try:
                data = end.recv(MAX_BYTES + 1)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                self._refusing.add(end)
                continue
            except OSError:
                continue  # it cannot be reached: ICMP told so, and time will tell
            if end is self._woken:
                continue
            beat = decode(data, self._pair.key)
            if beat is None:
                self._refused += 1
            else:
                self._refusing.clear()
                self._perform(self._core.heard(beat))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Tell):
                data = encode(effect.beat, self._pair.key)
                for each in self._sockets:
                    try:
                        each.send(data)
                    except ConnectionRefusedError:
                        self._refusing.add(each)
                    except OSError:
                        pass  # unreachable: not hearing it is all that counts
            else:
                self._report(effect)

    def _look(self) -> PairStatus:
        core = self._core
        return PairStatus(
            hears_partner=core.hears_partner,
            holds=core.holds,
            partner_holds=core.partner_holds,
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

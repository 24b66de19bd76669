"""Serve planned source ports on a unix socket; the library `port_shim.c` requests them.

    request   0        4        8                24               40       44       48
              | magic  | number | source GID     | destination GID| own QP | peer QP|
    reply     | magic  | number | port, 0: none  |

Numbers are in the machine's byte order. A connection is one request. A reply is sent at once, but where it is not known
yet: a request is held for less than the shim's deadline then. GIDs of zeros announce a process that will open queue
pairs: such a request is held for longer, and its reply says that the job is known by LOWEST_PORT.
"""

import os
import selectors
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import NamedTuple, Self

MAGIC = 0x31504448
"""The bytes HDP1."""
REQUEST = struct.Struct("=II16s16sII")
REPLY = struct.Struct("=III")
BACKLOG = 1_024
MAX_CONNECTIONS = 512
"""At once; beyond, the oldest is closed: a program that connects and is silent locks out no other."""
HOLD_S = 0.03
"""How long a request is held: less than the 50 ms after which the shim gives up."""
ANNOUNCED_HOLD_S = 1.0
HELD_POLL_S = 0.005
LOWEST_PORT = 49_152
NO_GID = bytes(16)
PortOf = Callable[[bytes, bytes, int], int]


_CREDENTIALS = struct.Struct("=iII")


class Caller(NamedTuple):
    """The process that requests a port, by SO_PEERCRED as this process sees it: id 0 where it does not."""

    pid: int
    uid: int


PortsOfCaller = Callable[[Caller], Callable[[bytes, bytes, int], int | None]]
"""What has the ports of a process, found once for a connection: the port, 0 for none, None where it may be known in a
moment. Neither may raise."""


class _Held(NamedTuple):
    """A request whose reply is not known yet, and until when it is held."""

    reply: Callable[[], int | None]
    number: int
    until_s: float


class PortServer:
    """A thread that serves requests at the socket file `path` while the context lasts.

    `refused` counts what is no request, `closed` connections that were silent while many others came, `late` requests
    that were held in vain. Raises OSError where the socket cannot be made.
    """

    def __init__(self, path: str, ports_of: PortsOfCaller) -> None:
        self._ports_of = ports_of
        self.path = path
        self.refused = self.closed = self.late = 0
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._ended, self._end = socket.socketpair()
        self._thread = Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._end.close()
        self._thread.join(5)
        self._listener.close()
        self._ended.close()
        Path(self.path).unlink(missing_ok=True)

    def _serve(self) -> None:
        open_now: dict[socket.socket, _Held | None] = {}
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ, self._listener)
            selector.register(self._ended, selectors.EVENT_READ, self._ended)
            while True:
                holds = any(open_now.values())
                for key, _ in selector.select(HELD_POLL_S if holds else None):
                    ready: socket.socket = key.data
                    if ready is self._ended:
                        for each in open_now:
                            each.close()
                        return
                    if ready is self._listener:
                        self._accept(selector, open_now)
                    elif ready in open_now:  # else closed in this round, as the oldest
                        open_now[ready] = None if open_now[ready] else self._answer(ready)
                        if open_now[ready] is None:
                            _close(ready, selector, open_now)
                if holds:
                    self._reply_to_held(selector, open_now)

    def _accept(self, selector: selectors.BaseSelector, open_now: dict[socket.socket, _Held | None]) -> None:
        with suppress(OSError):
            accepted = self._listener.accept()[0]
            accepted.setblocking(False)
            selector.register(accepted, selectors.EVENT_READ, accepted)
            open_now[accepted] = None
        if len(open_now) > MAX_CONNECTIONS:
            self.closed += 1
            _close(next(iter(open_now)), selector, open_now)

    def _answer(self, connection: socket.socket) -> _Held | None:
        """Read a request and reply; return it where it is to be held."""
        with suppress(OSError):
            request = connection.recv(REQUEST.size + 1)
            if len(request) != REQUEST.size or REQUEST.unpack(request)[0] != MAGIC:
                self.refused += 1
                return None
            _, number, src_gid, dst_gid, queue_pair, _ = REQUEST.unpack(request)
            reply = partial(self._ports_of(_caller(connection)), src_gid, dst_gid, queue_pair)
            port = reply()
            if port is None:
                hold_s = ANNOUNCED_HOLD_S if src_gid == dst_gid == NO_GID else HOLD_S
                return _Held(reply, number, time.monotonic() + hold_s)
            connection.send(REPLY.pack(MAGIC, number, port))
        return None

    def _reply_to_held(self, selector: selectors.BaseSelector, open_now: dict[socket.socket, _Held | None]) -> None:
        """Reply to those whose port is known now, or that were held long enough: they have none."""
        now_s = time.monotonic()
        for connection, held in [*open_now.items()]:
            if held is None or ((port := held.reply()) is None and now_s < held.until_s):
                continue
            self.late += port is None
            with suppress(OSError):
                connection.send(REPLY.pack(MAGIC, held.number, port or 0))
            _close(connection, selector, open_now)


class PortResponder(PortServer):
    """The socket of one job, in a folder that its owner alone can reach."""

    def __init__(self, port_of: PortOf) -> None:
        self._folder = tempfile.mkdtemp(prefix="heddle-ports-")
        super().__init__(os.path.join(self._folder, "socket"), lambda caller: port_of)

    def __exit__(self, *unused: object) -> None:
        super().__exit__()
        shutil.rmtree(self._folder, ignore_errors=True)


def _caller(connection: socket.socket) -> Caller:
    """Return the process that opened a connection (unix(7), SO_PEERCRED)."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return Caller(pid, uid)


def _close(
    connection: socket.socket, selector: selectors.BaseSelector, open_now: dict[socket.socket, _Held | None]
) -> None:
    selector.unregister(connection)
    del open_now[connection]
    connection.close()

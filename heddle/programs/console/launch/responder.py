"""Serve a node's planned source ports on a unix socket; the library `port_shim.c` requests them.

    request   0        4        8                24               40       44       48
              | magic  | number | source GID     | destination GID| own QP | peer QP|
    reply     | magic  | number | port, 0: none  |

Numbers are in the machine's byte order. A connection is one request; a reply is sent at once.
"""

import os
import selectors
import shutil
import socket
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

MAGIC = 0x31504448
"""The bytes HDP1."""
REQUEST = struct.Struct("=II16s16sII")
REPLY = struct.Struct("=III")
BACKLOG = 1_024
MAX_CONNECTIONS = 512
"""At once; beyond, the oldest is closed: a program that connects and is silent locks out no other."""
PortOf = Callable[[bytes, bytes, int], int]


class PortResponder:
    """A thread that serves requests while the context lasts; `path` is its socket, which its owner alone can reach."""

    def __init__(self, port_of: PortOf) -> None:
        self._port_of = port_of
        self._folder = tempfile.mkdtemp(prefix="heddle-ports-")
        self.path = os.path.join(self._folder, "socket")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._ended, self._end = socket.socketpair()
        self._thread = Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "PortResponder":
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._end.close()
        self._thread.join(5)
        self._listener.close()
        self._ended.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        open_now: dict[socket.socket, None] = {}
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ, self._listener)
            selector.register(self._ended, selectors.EVENT_READ, self._ended)
            while True:
                for key, _ in selector.select():
                    ready: socket.socket = key.data
                    if ready is self._ended:
                        for each in open_now:
                            each.close()
                        return
                    if ready is self._listener:
                        self._accept(selector, open_now)
                    elif ready in open_now:  # else closed in this round, as the oldest
                        self._answer(ready)
                        _close(ready, selector, open_now)

    def _accept(self, selector: selectors.BaseSelector, open_now: dict[socket.socket, None]) -> None:
        with suppress(OSError):
            accepted = self._listener.accept()[0]
            accepted.setblocking(False)
            selector.register(accepted, selectors.EVENT_READ, accepted)
            open_now[accepted] = None
        if len(open_now) > MAX_CONNECTIONS:
            _close(next(iter(open_now)), selector, open_now)

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError):
            request = connection.recv(REQUEST.size + 1)
            if len(request) != REQUEST.size:
                return
            magic, number, src_gid, dst_gid, queue_pair, _ = REQUEST.unpack(request)
            if magic == MAGIC:
                connection.send(REPLY.pack(MAGIC, number, self._port_of(src_gid, dst_gid, queue_pair)))


def _close(connection: socket.socket, selector: selectors.BaseSelector, open_now: dict[socket.socket, None]) -> None:
    selector.unregister(connection)
    del open_now[connection]
    connection.close()

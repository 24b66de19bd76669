"""The control socket of a lab: one request per connection, as JSON lines, from the lab's own user or root.

    {"op": "cut", "link": "leaf1:1>spine1:1"}
    {"ok": true, "result": {...}}    or    {"ok": false, "error": "…", "exit_status": 2}

Before the reply come lines {"progress": {...}}. A client that closes its connection ends what it has started.
"""

import json
import os
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from heddle.controller.model.error import HeddleError, InputError, InUseError, PrerequisiteError
from heddle.mininet_topos.host.json_lines import wait_readable

SOCKET = "control.sock"
CLIENT_TIMEOUT_S = 5.0
"""For a request to arrive, and for a client to read: one that never reads counts as gone."""
MAX_CLIENTS = 16
MAX_REQUEST_BYTES = 1 << 16
_CREDENTIALS = struct.Struct("3i")

Message = dict[str, Any]
Report = Callable[[Message], bool]
"""Sends progress to the client; returns whether the client is still there."""
Operation = Callable[[Message, Report], Message]


class ControlServer:
    """Serves the operations of a lab at its socket, each client in a thread, until the `with` block ends."""

    def __init__(self, directory: Path, operations: Mapping[str, Operation]) -> None:
        """Serve at `directory`/control.sock; raises PrerequisiteError if the socket cannot be made."""
        self._operations, self._clients = operations, threading.Semaphore(MAX_CLIENTS)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = directory / SOCKET
        try:
            self._socket.bind(str(path))
            path.chmod(0o600)  # before listen: until then nothing can connect
            self._socket.listen()
        except OSError as fault:
            self._socket.close()
            raise PrerequisiteError(f"control socket {path}: {fault}") from None

    def __enter__(self) -> "ControlServer":
        threading.Thread(target=self._accept, name="control", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="control client", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(CLIENT_TIMEOUT_S)
        with connection:
            try:
                reply = {"ok": True, "result": self._reply(connection)}
            except HeddleError as fault:
                reply = {"ok": False, "error": str(fault), "exit_status": fault.exit_status}
            except Exception as fault:  # a bug: the lab goes on, both terminals show it
                traceback.print_exc(file=sys.stderr)
                reply = {"ok": False, "error": f"{type(fault).__name__}: {fault}", "exit_status": 1}
            with suppress(OSError):
                _send(connection, reply)

    def _reply(self, connection: socket.socket) -> Message:
        if not self._clients.acquire(blocking=False):
            raise InUseError(f"more than {MAX_CLIENTS} requests at a time")
        try:
            check_peer(connection)
            request = _read_request(connection)
            operation = self._operations.get(str(request.get("op")))
            if operation is None:
                raise InputError(f"unknown operation {request.get('op')!r}")

            def report(progress: Message) -> bool:
                try:
                    _send(connection, {"progress": progress})
                    return not _is_closed(connection)
                except OSError:
                    return False

            return operation(request, report)
        finally:
            self._clients.release()


def check_peer(connection: socket.socket) -> None:
    """Raise InputError unless the client runs as root or as this process's user."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid = _CREDENTIALS.unpack(credentials)[1]
    if uid not in (0, os.geteuid()):
        raise InputError(f"user {uid} may not control this lab")


def _read_request(connection: socket.socket) -> Message:
    """Return the request; raises InputError if it is no JSON object, is too long or does not arrive in time."""
    received = b""
    while b"\n" not in received:
        if len(received) > MAX_REQUEST_BYTES:
            raise InputError(f"the request is longer than {MAX_REQUEST_BYTES:,} bytes")
        try:
            chunk = connection.recv(MAX_REQUEST_BYTES)
        except OSError:
            raise InputError(f"no request within {CLIENT_TIMEOUT_S:g} s") from None
        if not chunk:
            raise InputError("the connection was closed before the request was complete")
        received += chunk
    try:
        request = json.loads(received.split(b"\n", 1)[0])
    except ValueError:
        request = None
    if not isinstance(request, dict):
        raise InputError("the request is no JSON object")
    return request


def _send(connection: socket.socket, message: Message) -> None:
    connection.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the client has closed its end; it sends nothing after its request."""
    return bool(wait_readable([connection.fileno()], 0)) and not connection.recv(1, socket.MSG_PEEK)

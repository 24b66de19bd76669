"""Run commands of an Open vSwitch daemon over its control socket (JSON-RPC 1.0), like `ovs-appctl` without a fork."""

import json
import socket
from pathlib import Path


class UnixctlError(RuntimeError):
    """The daemon refused a command or does not reply; the message is the daemon's where it sent one."""


class Unixctl:
    """A connection to one daemon's control socket; after a failure the next command reconnects."""

    def __init__(self, path: Path, timeout_s: float = 10.0) -> None:
        """Set the socket's path; the first command connects."""
        self._path, self._timeout_s = path, timeout_s
        self._socket: socket.socket | None = None
        self._next_id = 0

    def call(self, command: str, *arguments: str) -> str:
        """Run a command and return its output; raises UnixctlError if the daemon refuses it or does not reply."""
        self._next_id += 1
        request = {"id": self._next_id, "method": command, "params": list(arguments)}
        try:
            connection = self._connected()
            connection.sendall(json.dumps(request).encode())
            reply = _read_object(connection)
        except OSError as fault:
            self.close()
            raise UnixctlError(f"{self._path.name} does not reply: {fault}") from fault
        if reply.get("error") is not None:
            raise UnixctlError(f"{command}: {str(reply['error']).strip()}")
        return str(reply["result"])

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(self._timeout_s)
            self._socket.connect(str(self._path))
        return self._socket


def _read_object(connection: socket.socket) -> dict[str, object]:
    """Read until one whole JSON object has arrived; the daemon sends nothing more."""
    received = b""
    while True:
        chunk = connection.recv(1 << 16)
        if not chunk:
            raise ConnectionError("the connection was closed")
        received += chunk
        if not received.endswith(b"}"):
            continue
        try:
            return dict(json.loads(received))
        except json.JSONDecodeError:
            continue

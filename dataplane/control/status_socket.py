"""Serve and read the status of a running gateway over a Unix socket.

One request per connection, the line `show`; the reply is the status as one JSON object. The socket is
`RUNTIME_DIR/gateways/GATEWAY_ID.sock`, mode 0600.
"""

import asyncio
import contextlib
import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heddle.foundation.listener import close_listener
from heddle.foundation.unix_socket import is_listening

TIMEOUT_S = 5.0
MAX_PATH_BYTES = 107
"""unix(7): sun_path has 108 with a terminating 0."""
MAX_REPLY_BYTES = 16 << 20
_SHOW = b"show\n"


class StatusSocketError(Exception):
    """The gateway does not run here or does not reply; the message is one line."""


def socket_path(runtime_dir: Path, gateway_id: str) -> Path:
    """Return the path of a gateway's status socket."""
    return runtime_dir / "gateways" / f"{gateway_id}.sock"


class StatusServer:
    """Server of one gateway's status."""

    def __init__(self, path: Path, status: Callable[[], dict[str, Any]]) -> None:
        self._path, self._status = path, status
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; raises OSError, also if a gateway of this name already runs or the path is too long for a socket."""
        if len(os.fsencode(self._path)) > MAX_PATH_BYTES:
            raise OSError(f"the socket's path {self._path} has more than {MAX_PATH_BYTES} bytes; name a shorter one")
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_listening(self._path):
            raise OSError(f"{self._path}: a gateway of this name is running already")
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(self._path.stat().st_mode):
                self._path.unlink()
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._reply, self._path, limit=len(_SHOW))
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            await close_listener(self._server)
            self._path.unlink(missing_ok=True)

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError):
                async with asyncio.timeout(TIMEOUT_S):
                    if await reader.readexactly(len(_SHOW)) == _SHOW:
                        writer.write(json.dumps(self._status()).encode())
                        await writer.drain()
        finally:
            writer.close()


def read_status(path: Path) -> dict[str, Any]:
    """Request a gateway's status from its socket; raises StatusSocketError."""
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(TIMEOUT_S)
        reply = bytearray()
        try:
            end.connect(str(path))
            end.sendall(_SHOW)
            while (piece := end.recv(1 << 16)) and len(reply) <= MAX_REPLY_BYTES:
                reply += piece
        except FileNotFoundError:
            running = ", ".join(sorted(one.stem for one in path.parent.glob("*.sock"))) or "none"
            raise StatusSocketError(
                f"no gateway {path.stem} runs here (there is no {path}); running: {running}"
            ) from None
        except OSError as error:
            raise StatusSocketError(f"gateway {path.stem} does not reply at {path}: {error}") from None
    try:
        found = json.loads(reply)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise StatusSocketError(f"gateway {path.stem} sent a malformed reply at {path}")
    return found

"""Where other programs look into a running gateway: a socket in the file system that tells its status.

One question a connection, the word `show`; the answer is the status as one JSON object. The socket's name is the
gateway's id, its mode 0600.
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

PATIENCE_S = 5.0
MAX_ANSWER_BYTES = 16 << 20
_SHOW = b"show\n"


class StatusSocketError(Exception):
    """There is no such gateway, or it does not answer; one line says which."""


def socket_of(runtime_dir: Path, gateway_id: str) -> Path:
    """Return where a gateway's socket lies."""
    return runtime_dir / "gateways" / f"{gateway_id}.sock"


class Window:
    """Serves one gateway's status."""

    def __init__(self, path: Path, status: Callable[[], dict[str, Any]]) -> None:
        self._path, self._status = path, status
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; raises OSError, also where a gateway of this name is running already."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if _answers(self._path):
            raise OSError(f"{self._path}: a gateway of this name is running already")
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(self._path.stat().st_mode):
                self._path.unlink()
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._answer, self._path, limit=len(_SHOW))
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Stop listening and take the socket away."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._path.unlink(missing_ok=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError):
                async with asyncio.timeout(PATIENCE_S):
                    if await reader.readexactly(len(_SHOW)) == _SHOW:
                        writer.write(json.dumps(self._status()).encode())
                        await writer.drain()
        finally:
            writer.close()


def _answers(path: Path) -> bool:
    """Say whether somebody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as end:
        try:
            end.connect(str(path))
        except OSError:
            return False
        return True


def ask(path: Path) -> dict[str, Any]:
    """Return the status of the gateway whose socket this is; raises StatusSocketError."""
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(PATIENCE_S)
        answer = bytearray()
        try:
            end.connect(str(path))
            end.sendall(_SHOW)
            while (piece := end.recv(1 << 16)) and len(answer) <= MAX_ANSWER_BYTES:
                answer += piece
        except FileNotFoundError:
            running = ", ".join(sorted(one.stem for one in path.parent.glob("*.sock"))) or "none"
            raise StatusSocketError(
                f"no gateway {path.stem} runs here (there is no {path}); running: {running}"
            ) from None
        except OSError as error:
            raise StatusSocketError(f"gateway {path.stem} does not answer at {path}: {error}") from None
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise StatusSocketError(f"gateway {path.stem} did not say anything sensible at {path}")
    return found

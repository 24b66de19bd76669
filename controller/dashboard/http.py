"""A small HTTP/1.1 server on asyncio: GET and HEAD of a few pages, one request per connection (RFC 9112).

A long page (the metrics of 10,000 ports are 40 MB) is written piece by piece, each in a thread, and sent as chunks (RFC
9112, 7.1). So neither memory nor the loop has to bear it whole.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from typing import NamedTuple

MAX_HEAD_BYTES = 16 << 10
MAX_CONNECTIONS = 64
PATIENCE_S = 10.0


class Answer(NamedTuple):
    """What one request is answered with."""

    status: HTTPStatus
    content_type: str
    text: str | Iterator[str]


Page = Callable[[], Awaitable[Answer]]


class HttpServer:
    """Serves pages, by path, on one address."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._writing = asyncio.Lock()

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port; raises OSError where the address is taken."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=MAX_HEAD_BYTES)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Hang up and stop listening."""
        if self._server is not None:
            self._server.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        try:
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._serve(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            head = b""
        method, answer = await self._answer(head)
        text, is_old = answer.text, head.split(b"\r\n", 1)[0].endswith(b"HTTP/1.0")
        if isinstance(text, str):
            length = f"Content-Length: {len(text.encode())}\r\n"
        else:
            length = "" if is_old else "Transfer-Encoding: chunked\r\n"  # "": the body ends with the connection
        writer.write(
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\nContent-Type: {answer.content_type}\r\n"
            f"{length}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode()
        )
        if method != "HEAD":
            if isinstance(text, str):
                writer.write(text.encode())
            else:
                await self._stream(writer, text, is_chunked=not is_old)
        await writer.drain()

    async def _stream(self, writer: asyncio.StreamWriter, pieces: Iterator[str], *, is_chunked: bool) -> None:
        """Send pieces as they are made, one at a time whoever asks."""
        while True:
            async with self._writing:
                piece = await asyncio.to_thread(_next, pieces)
            if piece:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked else piece)
            elif is_chunked:
                writer.write(b"0\r\n\r\n")
            await writer.drain()
            if not piece:
                return

    async def _answer(self, head: bytes) -> tuple[str, Answer]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "", self._refusal(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            return method, self._refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        found = self._pages.get(target.split("?", 1)[0])
        return method, await found() if found else self._refusal(HTTPStatus.NOT_FOUND)

    def _refusal(self, status: HTTPStatus) -> Answer:
        *others, last = self._pages
        there = f"there are {', '.join(others)} and {last}" if others else f"there is {last}"
        return Answer(status, "text/plain", f"{status.phrase}; {there}\n")


def _next(pieces: Iterator[str]) -> bytes:
    return next(pieces, "").encode()

"""Server-sent events (WHATWG HTML, 9.2): the newest state, at most once a second, and new events of the log.

Nothing is queued for a client: it holds one reference to the text that all clients share, and 64 KiB at most are handed
to its socket at a time. A client that takes no piece for SEND_TIMEOUT_S is cut off; its browser connects again by
itself and gets the newest state.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from heddle.controller.dashboard.http import LimitedConnection, connection_of
from heddle.controller.dashboard.pieces import send_pieces
from heddle.controller.dashboard.publisher import Publisher

MAX_STREAMS = 1_024
SEND_TIMEOUT_S = 30.0
PING_S = 15.0
RETRY_MS = 1_000
"""A browser connects again after so long."""
_PING = b": still here\n\n"


class Streams:
    """All streams; `counts` has `streams` opened, `refused_streams` past the limit, `slow_streams` cut off."""

    def __init__(self, publisher: Publisher) -> None:
        self.counts: Counter[str] = Counter()
        self._publisher = publisher

    async def endpoint(self, request: Request) -> Response:
        """Return the stream of one client, or refuse it."""
        if self._publisher.readers >= MAX_STREAMS:
            self.counts["refused_streams"] += 1
            return Response(f"{MAX_STREAMS} streams are open already\n", 503)
        return _EventStream(self._publisher, self.counts, request)


class _EventStream(Response):
    """One client's stream."""

    media_type = "text/event-stream"

    def __init__(self, publisher: Publisher, counts: Counter[str], request: Request) -> None:
        super().__init__(headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._publisher, self._counts = publisher, counts
        self._connection: LimitedConnection = connection_of(request)
        self._may_read: Callable[[], bool] = request.scope["state"]["may_read"]
        self._number = self._known(request.headers.get("last-event-id", ""))

    def _known(self, last_event_id: str) -> int:
        """Return the number of the newest state if the client has it, else 0."""
        newest = self._publisher.newest
        has = newest.value is not None and last_event_id == f"{self._publisher.boot}-{newest.value.sequence}"
        return newest.number if has else 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send states until the client leaves, stops reading, or has logged out."""
        self._counts["streams"] += 1
        self._publisher.readers += 1
        self._connection.keep_open()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._publisher.current()
            await self._send_states(send)
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            self._counts["slow_streams"] += 1
            self._connection.cut_off()
        finally:
            self._publisher.readers -= 1

    async def _send_states(self, send: Send) -> None:
        last_event, _ = self._publisher.events_after(0)
        await self._send(send, f"retry: {RETRY_MS}\n\n".encode())
        while not (self._publisher.closed or self._connection.transport.is_closing()):
            try:
                async with asyncio.timeout(PING_S):
                    self._number, update = await self._publisher.newest.after(self._number)
            except TimeoutError:
                update = None
            if not self._may_read():  # the login has ended, or its time
                return
            if update is None:
                await self._send(send, _PING)
                continue
            await self._send(send, update.event)
            last_event, events = self._publisher.events_after(last_event)
            if events:
                await self._send(send, b"event: timeline\ndata: ", events, b"\n\n")

    async def _send(self, send: Send, *texts: bytes) -> None:
        """Send texts; raises TimeoutError where the client does not take a piece in time."""
        for text in texts:
            await send_pieces(self._connection, send, text, SEND_TIMEOUT_S)

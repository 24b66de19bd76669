"""Serve pages and routes over HTTP/1.1, one request per connection. Starlette on uvicorn (ADR 0017).

A long page (the metrics of 10,000 ports are 40 MB) is rendered piece by piece, each in a thread, and sent as chunks
(RFC 9112, 7.1). So the whole of it is never in memory, and the event loop keeps running.

uvicorn limits neither how many connections are open nor how long a client takes to send a request or to read a reply.
`LimitedConnection` does. A stream of events lasts: its route calls `keep_open`, and has limits of its own. uvicorn's
own `Server` is not used: it installs signal handlers, ends the process where an address is taken, and wakes up ten
times a second.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from socket import SO_SNDBUF, SOL_SOCKET
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from heddle.controller.dashboard.page_tls import PageTls
from heddle.controller.runtime.limits.unread import has_unread
from heddle.controller.runtime.tls_front import TlsFront
from heddle.foundation.certificate import Peer, PeerRefusedError
from heddle.foundation.listener import close_listener

MAX_HEAD_BYTES = 16 << 10
MAX_CONNECTIONS = 80
MAX_CONNECTIONS_OF_A_PEER = 64
"""Busy ones of one address; the rest is for others."""
TIMEOUT_S = 10.0
"""From the connection to the last byte of the reply."""
CLOSE_TIMEOUT_S = 5.0
DENIED_PERIOD_S = 1.0
BACKLOG = 1_024
"""Connections that the kernel holds until they are accepted: beyond, a client tries again after a second."""
SEND_BUFFER_BYTES = 1 << 17
"""What the kernel holds of a stream; it would grow to megabytes for a client that does not read."""
NO_STORE = {"cache-control": "no-store"}
_LOG = logging.getLogger("heddle.http")
_HEADERS = [(b"connection", b"close")]


class Page(NamedTuple):
    """A rendered page; `text` is whole, or an iterator over its pieces."""

    content_type: str
    text: str | Iterator[str]
    status: HTTPStatus = HTTPStatus.OK


Render = Callable[[], Awaitable[Page]]
Refuse = Callable[[Request, Exception], Awaitable[Response]]


class LimitedConnection(H11Protocol):
    """One connection of a client: beyond the limits it takes the place of an idle one, cut off after TIMEOUT_S."""

    counts: Counter[str]
    short: "dict[LimitedConnection, str]"
    """The open connections that are no streams, the oldest first, with the addresses of their peers."""
    tls: PageTls | None
    holder: Peer | None = None
    """Whose certificate the caller showed."""
    turn: asyncio.Lock
    """Held by the connection that sends a piece of a long text (`pieces.py`)."""
    _timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count a connection, or refuse it."""
        self.app_state["connection"] = self
        peer = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._has_room(peer):
            self.counts["refused_connections"] += 1
            self.transport = transport
            transport.abort()  # over TLS `close` would shake hands, and read meanwhile
            return
        if not self._is_admitted(transport, peer):
            return
        self.counts["connections"] += 1
        self.short[self] = peer
        super().connection_made(transport)
        self._timeout = self.loop.call_later(TIMEOUT_S, self.cut_off)

    def _is_admitted(self, transport: asyncio.Transport, peer: str) -> bool:
        """Return whether the certificate that was shown, if any, may read; else end the connection."""
        if self.tls is None:
            return True
        try:
            self.holder = self.tls.holder(transport.get_extra_info("ssl_object"))
        except PeerRefusedError as why:
            no_tls(peer, str(why))
            self.transport = transport
            transport.abort()
            return False
        return True

    def _has_room(self, peer: str) -> bool:
        """Return whether a connection of this peer may open; the oldest idle one gives way where there are too many."""
        own = [one for one, of in self.short.items() if of == peer]
        others = list(self.short) if len(self.short) >= MAX_CONNECTIONS else None
        among = own if len(own) >= MAX_CONNECTIONS_OF_A_PEER else others
        if among is None:
            return True
        for one in among:
            if one.cycle is None and not has_unread(one.transport):  # no request has arrived
                one.counts["gave_way"] += 1
                one._lift()
                one.transport.abort()
                return True
        return False

    def data_received(self, data: bytes) -> None:
        """Read the one request; what comes after its reply has begun is not read (RFC 9112, 9.6)."""
        if self.cycle is None or not self.cycle.response_started:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; a request that is being served before it gets no other reply."""
        super().send_400_response(msg)
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a connection no more."""
        self._lift()
        super().connection_lost(exc)

    def keep_open(self) -> None:
        """Lift the limits of this connection: its route has limits of its own. Nothing is buffered beyond a write."""
        self._lift()
        self.transport.set_write_buffer_limits(high=1)  # 0 never resumes over TLS: asyncio pauses at `high`, not above
        self.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, SEND_BUFFER_BYTES)

    def _lift(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self.short.pop(self, None)

    def cut_off(self) -> None:
        """End the connection at once."""
        self.counts["timeouts"] += 1
        self.transport.abort()


def connection_of(request: Request) -> LimitedConnection:
    """Return the connection that a request came on."""
    found: LimitedConnection = request.scope["state"]["connection"]
    return found


def no_tls(peer: str, reason: str) -> None:
    """Log why a connection was refused."""
    _LOG.warning('tls_refused peer=%s reason="%s"', peer, reason)


class HttpServer:
    """Serves pages, by path, on one address, in the running event loop."""

    def __init__(
        self,
        pages: Mapping[str, Render],
        routes: Sequence[BaseRoute] = (),
        guard: Callable[[ASGIApp], ASGIApp] | None = None,
        refuse: Refuse | None = None,
    ) -> None:
        """Serve `pages` and `routes`; `guard` wraps the application, `refuse` renders what no route serves."""
        self.counts: Counter[str] = Counter()
        """`connections` accepted, `refused_connections` beyond the limits, idle ones that `gave_way`, `timeouts`."""
        self._paths = tuple(pages)
        self._state = ServerState()
        self._state.default_headers = _HEADERS
        self._server: asyncio.Server | None = None
        self._rendering = asyncio.Lock()
        self._front: TlsFront | None = None
        self._watching: asyncio.Task[None] | None = None
        application = Starlette(
            routes=[
                *(Route(path, self._endpoint(render), methods=["GET"]) for path, render in pages.items()),
                *routes,
            ],
            exception_handlers={HTTPException: refuse or self._refuse},
        )
        application.router.redirect_slashes = False
        self._application = guard(application) if guard is not None else application

    async def start(self, host: str, port: int, tls: PageTls | None = None) -> int:
        """Listen and return the port; raises OSError where the address is taken."""
        config = Config(
            self._application,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        )
        config.load()
        shared = {"counts": self.counts, "short": {}, "turn": asyncio.Lock(), "tls": tls}
        kind = type("_Connection", (LimitedConnection,), shared)
        front = self._front = TlsFront(tls.context, TIMEOUT_S / 2, no_tls) if tls is not None else None

        def accept() -> asyncio.Protocol:
            inner: asyncio.Protocol = kind(config=config, server_state=self._state, app_state={})
            return front.before(inner) if front is not None else inner

        self._server = await asyncio.get_running_loop().create_server(accept, host, port, backlog=BACKLOG)
        if tls is not None:
            self._watching = asyncio.create_task(self._end_denied(tls))
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening and cut off every connection."""
        if self._server is None:
            return
        await close_listener(self._server)
        if self._watching is not None:
            self._watching.cancel()
        if self._front is not None:
            self._front.close()
        for connection in list(self._state.connections):
            connection.transport.abort()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=CLOSE_TIMEOUT_S)  # each ends after the piece that it renders

    async def _end_denied(self, tls: PageTls) -> None:
        """End connections, streams for example, whose certificates come onto the deny list."""
        while True:
            await asyncio.sleep(DENIED_PERIOD_S)
            for connection in list(self._state.connections):
                if isinstance(connection, LimitedConnection) and tls.is_denied(connection.holder):
                    connection.cut_off()

    def _endpoint(self, render: Render) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            page = await render()
            if isinstance(page.text, str):
                return Response(page.text, page.status, NO_STORE, page.content_type)
            pieces = page.text if request.method == "GET" else iter(())
            return StreamingResponse(self.sent(pieces), page.status, NO_STORE, page.content_type)

        return endpoint

    async def sent(self, pieces: Iterator[str]) -> AsyncIterator[bytes]:
        """Yield pieces as they are rendered: one at a time, whatever the number of clients."""
        while True:
            async with self._rendering:
                piece = await asyncio.to_thread(_next, pieces)
            if not piece:
                return
            yield piece

    async def _refuse(self, request: Request, error: Exception) -> Response:
        status = HTTPStatus(error.status_code if isinstance(error, HTTPException) else 500)
        *others, last = self._paths
        available = f"there are {', '.join(others)} and {last}" if others else f"there is {last}"
        return PlainTextResponse(f"{status.phrase}; {available}\n", status, NO_STORE)


def _next(pieces: Iterator[str]) -> bytes:
    return next(pieces, "").encode()

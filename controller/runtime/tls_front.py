"""Shake hands by TLS before a protocol of the controller sees a connection, and report each handshake that fails.

asyncio's own listeners with `ssl=` drop a failed handshake silently. Here each has a reason, and a client that does not
finish gives way: to a time limit, and to newer ones where too many are at it.
"""

import asyncio
import ssl
from collections.abc import Callable

from heddle.controller.model.server_address import address_text

MAX_HANDSHAKES = 512
"""Handshakes at one time; beyond them the oldest is ended."""

Refused = Callable[[str, str], None]
"""Gets the address of a peer and why its handshake failed."""


class TlsFront:
    """The handshakes of one listener; `context` returns what the next one uses, which demands what a client shows."""

    def __init__(self, context: Callable[[], ssl.SSLContext], timeout_s: float, refused: Refused) -> None:
        self.context, self.timeout_s, self.refused = context, timeout_s, refused
        self._handshakes: dict[asyncio.Task[None], None] = {}

    def before(self, inner: asyncio.Protocol) -> asyncio.Protocol:
        """Return the protocol of a new connection; `inner` sees the connection after the handshake."""
        return _Handshake(self, inner)

    def close(self) -> None:
        """End all handshakes."""
        for task in self._handshakes:
            task.cancel()

    def begin(self, task: asyncio.Task[None]) -> None:
        """Count a handshake; the oldest gives way where there are too many."""
        if len(self._handshakes) >= MAX_HANDSHAKES:
            next(iter(self._handshakes)).cancel("too many handshakes at one time")
        self._handshakes[task] = None
        task.add_done_callback(lambda done: self._handshakes.pop(done, None))


class _Handshake(asyncio.Protocol):
    """The protocol of a connection until its handshake is over; what arrives with its end is kept for the next."""

    def __init__(self, front: TlsFront, inner: asyncio.Protocol) -> None:
        self._front, self._inner = front, inner
        self._early = bytearray()
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake (asyncio callback)."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        self._front.begin(asyncio.get_running_loop().create_task(self._shake_hands(transport)))

    def data_received(self, data: bytes) -> None:
        """Keep what came with the end of the handshake (asyncio callback)."""
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection (asyncio callback)."""
        self._is_lost = True

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        front, peer = self._front, transport.get_extra_info("peername")
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, self, front.context(), server_side=True, ssl_handshake_timeout=front.timeout_s
            )
        except OSError as error:
            front.refused(_address(peer), _reason(error))
        except asyncio.CancelledError as ended:
            transport.abort()
            if ended.args:
                front.refused(_address(peer), str(ended.args[0]))
            raise
        else:
            self._hand_over(secured)

    def _hand_over(self, secured: asyncio.Transport | None) -> None:
        """Connect the inner protocol; one that ends the connection at once gets nothing of what came with it."""
        if secured is None or self._is_lost:
            return
        secured.set_protocol(self._inner)
        self._inner.connection_made(secured)
        if self._early and not secured.is_closing():
            self._inner.data_received(bytes(self._early))


def _address(peer: object) -> str:
    return address_text(*peer[:2]) if isinstance(peer, tuple) else "local"


def _reason(error: OSError) -> str:
    """Return a reason without the file and line of OpenSSL's source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS: {(error.reason or str(error)).lower().replace('_', ' ')}"
    return f"no TLS handshake: {error or type(error).__name__}"

"""Split a TCP stream into checked OpenFlow messages; stop reading from a peer that sends too much or reads too little.

Invariants: every message that reaches the receiver has passed `check`; an exception while a message is handled closes
this connection and no other; `Receiver.closed` is called exactly once, with the reason.
"""

import asyncio
import logging
import ssl
from dataclasses import dataclass
from typing import Protocol

from heddle.controller.model.server_address import address_text
from heddle.controller.runtime.limits.unread import has_unread
from heddle.controller.southbound.codec.check import MalformedMessageError, check, check_header
from heddle.controller.southbound.codec.wire import HEADER, HEADER_BYTES

_LOG = logging.getLogger("heddle.southbound")

WRITE_HIGH_BYTES = 512 << 10
WRITE_LOW_BYTES = 128 << 10
UNREAD_LIMIT_BYTES = 4 << 20
"""With more unsent bytes than this, messages of the peer are not handled until it reads."""
TURN_BYTES = 32 << 10
"""Bytes of one connection that are handled in one turn of the event loop."""
TURN_MESSAGES = 256
"""Messages of one connection in one turn: short ones cost as much as long ones, some 20 us."""
FLUSH_S = 1.0


class Receiver(Protocol):
    """The object that receives the messages of a connection."""

    def connected(self, peer: str) -> None:
        """The connection is open."""

    def received(self, kind: int, xid: int, message: bytes) -> None:
        """Handle one checked message; raises MalformedMessageError to end the session."""

    def closed(self, reason: str) -> None:
        """The connection has ended."""


@dataclass(slots=True)
class Traffic:
    """Counters of one connection."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    times_held: int = 0


class MessageTransport(asyncio.Protocol):
    """One connection. `write` never blocks; await `writable` between large writes."""

    def __init__(self, receiver: Receiver, messages_per_period: int) -> None:
        self.traffic = Traffic()
        self.open = False
        self._receiver = receiver
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._holds: set[str] = set()
        self._allowance = self._budget = messages_per_period
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the connection (asyncio callback)."""
        assert isinstance(transport, asyncio.Transport)  # asyncio passes nothing else to a stream protocol
        self._transport = transport
        self.open = True
        transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)
        peer = transport.get_extra_info("peername")
        self._guarded(self._receiver.connected, address_text(*peer[:2]) if isinstance(peer, tuple) else "local")

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection (asyncio callback)."""
        self.close(f"the connection broke: {exc}" if exc else "the switch closed the connection")

    def data_received(self, data: bytes) -> None:
        """Buffer received bytes and handle whole messages (asyncio callback); none after the end of the session."""
        if not self.open:
            return  # a farewell is still being sent
        self.traffic.bytes_in += len(data)
        self._buffer += data
        self._serve()

    def pause_writing(self) -> None:
        """Block `writable` (asyncio callback)."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Unblock `writable` and resume reading from the peer (asyncio callback)."""
        self._writable.set()
        self._release("unread")

    def tls_object(self) -> ssl.SSLObject:
        """Return the TLS of the connection; it has one."""
        found = self._transport.get_extra_info("ssl_object")
        assert isinstance(found, ssl.SSLObject)
        return found

    def write(self, data: bytes) -> None:
        """Send bytes; discarded after the end of the connection."""
        if not self.open:
            return
        self.traffic.bytes_out += len(data)
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > UNREAD_LIMIT_BYTES:
            self._hold("unread")

    async def writable(self) -> None:
        """Wait until the unsent bytes are below the low mark; returns at once after the end of the connection."""
        await self._writable.wait()

    def has_unread(self) -> bool:
        """Return whether the peer has sent bytes that are not read yet."""
        return self.open and has_unread(self._transport)

    def allow(self, messages_per_period: int) -> None:
        """Change how many messages the peer may send in an echo period."""
        self._allowance += messages_per_period - self._budget
        self._budget = messages_per_period
        if self._allowance > 0:
            self._release("budget")

    def new_period(self) -> None:
        """Reset the peer's message budget for the next echo period."""
        self._allowance = self._budget
        self._release("budget")

    def close(self, reason: str, farewell: bytes = b"") -> None:
        """End the connection; `farewell` is sent first, as far as the peer reads it within FLUSH_S."""
        if not self.open:
            return
        self.open = False
        self._buffer.clear()
        if farewell:
            self._transport.write(farewell)
            self._transport.close()
            self._loop.call_later(FLUSH_S, self._transport.abort)
        else:
            self._transport.abort()
        self._writable.set()
        try:
            self._receiver.closed(reason)
        except Exception:
            _LOG.exception("a fault of the controller while a session was closed")

    def _serve(self) -> None:
        """Handle whole messages until the buffer, the turn, the budget or the connection ends."""
        at = messages = 0
        while self.open and not self._holds:
            if at >= TURN_BYTES or messages >= TURN_MESSAGES:
                self._hold("turn")
                self._loop.call_soon(self._release, "turn")
                break
            length = self._next_length(at)
            if not length:
                break
            message = bytes(memoryview(self._buffer)[at : at + length])
            at += length
            messages += 1
            self._guarded(self._handle, message)
        del self._buffer[:at]

    def _next_length(self, at: int) -> int:
        """Return the length of the message at `at`, 0 where it is incomplete or its header is invalid."""
        if len(self._buffer) - at < HEADER_BYTES:
            return 0
        version, kind, length, _ = HEADER.unpack_from(self._buffer, at)
        self._guarded(check_header, version, kind, length)
        return length if self.open and len(self._buffer) - at >= length else 0

    def _handle(self, message: bytes) -> None:
        check(message)
        self.traffic.messages_in += 1
        self._allowance -= 1
        if self._allowance <= 0:
            self._hold("budget")
        _, kind, _, xid = HEADER.unpack_from(message)
        self._receiver.received(kind, xid, message)

    def _guarded(self, call: object, *arguments: object) -> None:
        """Call a function; any exception ends this connection only."""
        assert callable(call)
        try:
            call(*arguments)
        except MalformedMessageError as fault:
            self.close(f"malformed: {fault.reason}")
        except Exception as fault:
            _LOG.exception("a fault of the controller while a message was handled")
            self.close(f"a fault of the controller: {fault!r}")

    def _hold(self, why: str) -> None:
        if not self._holds and self.open:
            self._transport.pause_reading()
            self.traffic.times_held += why != "turn"
        self._holds.add(why)

    def _release(self, why: str) -> None:
        if why not in self._holds:
            return
        self._holds.discard(why)
        if not self._holds and self.open:
            self._transport.resume_reading()
            self._serve()

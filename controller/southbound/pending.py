"""Match replies to pending requests by transaction id (xid).

Invariants: a reply has the expected message type, a multipart reply keeps its body type, and its total size is
bounded; MalformedMessageError otherwise. The caller counts a reply without a pending request as unsolicited.
"""

import asyncio
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from heddle.controller.southbound.codec.check import MalformedMessageError
from heddle.controller.southbound.codec.decode import ErrorReply
from heddle.controller.southbound.codec.packets import UNAWAITED_XID
from heddle.controller.southbound.codec.wire import MAX_XID, MessageType, MultipartType, type_name

MAX_MULTIPART_BYTES = 64 << 20
PART_OVERHEAD_BYTES = 256
"""Added to the size of each part, so that the number of empty parts is bounded too."""
_MULTIPART = Struct("!HH").unpack_from
_MORE = 1


class SessionClosedError(Exception):
    """The session ended while something waited for it."""


class RequestRejectedError(Exception):
    """The switch replied to a request with an error."""

    def __init__(self, error: ErrorReply) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class StrayCounters:
    """Counts of unsolicited messages."""

    packet_ins: int = 0
    strays: int = 0
    errors: int = 0


@dataclass(slots=True)
class _Request:
    kind: MessageType
    body: MultipartType | None
    future: asyncio.Future[list[bytes]]
    parts: list[bytes] = field(default_factory=list)
    size_bytes: int = 0


async def done_within(future: asyncio.Future[Any], seconds: float, turn_s: float) -> bool:
    """Wait, `turn_s` at a time: of a time for which the controller itself stood still, one turn counts."""
    while seconds > 0 and not future.done():
        await asyncio.wait((future,), timeout=min(turn_s, seconds))
        seconds -= turn_s
    return future.done()


class PendingRequests:
    """The requests of one session that have no reply yet, and its transaction ids."""

    def __init__(self) -> None:
        self.unawaited = 0
        """The errors for messages that no one awaits."""
        self._requests: dict[int, _Request] = {}
        self._next_xid = 1

    def reserve(self, count: int) -> int:
        """Allocate `count` consecutive transaction ids; return the first."""
        if self._next_xid + count > MAX_XID:
            self._next_xid = 1
        first = self._next_xid
        self._next_xid += count
        return first

    def open(self, xid: int, kind: MessageType, body: MultipartType | None = None) -> asyncio.Future[list[bytes]]:
        """Register a request; the future returns its reply's messages, more than one for multipart only."""
        future: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self._requests[xid] = _Request(kind, body, future)
        return future

    def forget(self, xid: int) -> None:
        """Remove a request; a later reply is unsolicited."""
        self._requests.pop(xid, None)

    def reply(self, kind: int, xid: int, message: bytes) -> bool:
        """Handle a reply; False where no request waits for it. Raises MalformedMessageError."""
        request = self._requests.get(xid)
        if request is None or request.future.done():
            return False
        if kind != request.kind:
            raise MalformedMessageError(f"{type_name(kind)} in reply to a request for {request.kind.name}")
        request.parts.append(message)
        if kind == MessageType.MULTIPART_REPLY and self._more_to_come(request, message):
            return True
        request.future.set_result(request.parts)
        return True

    def _more_to_come(self, request: _Request, message: bytes) -> bool:
        body, flags = _MULTIPART(message, 8)
        if body != request.body:
            raise MalformedMessageError(
                f"MULTIPART_REPLY: body type {body} in reply to a request for {request.body!r}", 8
            )
        request.size_bytes += len(message) + PART_OVERHEAD_BYTES
        if request.size_bytes > MAX_MULTIPART_BYTES:
            raise MalformedMessageError(f"MULTIPART_REPLY: more than {MAX_MULTIPART_BYTES} bytes")
        return bool(flags & _MORE)

    def refuse(self, xid: int, error: ErrorReply) -> bool:
        """Handle an error; False where no request has its transaction id, and no message that is not awaited."""
        if xid == UNAWAITED_XID:
            self.unawaited += 1
            return True
        request = self._requests.get(xid)
        if request is None or request.future.done():
            return False
        request.future.set_exception(RequestRejectedError(error))
        return True

    def close(self, reason: str) -> None:
        """Fail every pending request."""
        for request in self._requests.values():
            if not request.future.done():
                request.future.set_exception(SessionClosedError(reason))
                request.future.exception()  # mark it as retrieved: the waiting task may be cancelled
        self._requests.clear()

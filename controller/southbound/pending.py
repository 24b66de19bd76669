"""Joins replies to the requests that asked for them, by transaction id.

Invariants: a reply is of the kind that was asked for, a multipart reply keeps its body type and its total is
bounded; both are Malformed otherwise. A reply that nobody waits for is a stray: the caller counts it.
"""

import asyncio
from dataclasses import dataclass, field
from struct import Struct

from controller.southbound.codec.check import MalformedMessageError
from controller.southbound.codec.decode import ErrorReply
from controller.southbound.codec.wire import MAX_XID, MessageType, MultipartType, type_name

MAX_MULTIPART_BYTES = 64 << 20
PART_OVERHEAD_BYTES = 256
"""What a part costs beyond its bytes, so that parts without any are bounded too."""
_MULTIPART = Struct("!HH").unpack_from
_MORE = 1


class SessionClosedError(Exception):
    """The session ended while something waited for it."""


class RequestRejectedError(Exception):
    """The switch answered a request with an error."""

    def __init__(self, error: ErrorReply) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class _Request:
    kind: MessageType
    body: MultipartType | None
    future: asyncio.Future[list[bytes]]
    parts: list[bytes] = field(default_factory=list)
    size_bytes: int = 0


class PendingRequests:
    """The requests of one session that have no answer yet, and its transaction ids."""

    def __init__(self) -> None:
        self._requests: dict[int, _Request] = {}
        self._next_xid = 1

    def reserve(self, count: int) -> int:
        """Take `count` consecutive transaction ids; return the first."""
        if self._next_xid + count > MAX_XID:
            self._next_xid = 1
        first = self._next_xid
        self._next_xid += count
        return first

    def open(self, xid: int, kind: MessageType, body: MultipartType | None = None) -> asyncio.Future[list[bytes]]:
        """Expect an answer of this kind; the future gives its messages, one but for multipart."""
        future: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self._requests[xid] = _Request(kind, body, future)
        return future

    def forget(self, xid: int) -> None:
        """Expect no more; what still comes is a stray."""
        self._requests.pop(xid, None)

    def answer(self, kind: int, xid: int, message: bytes) -> bool:
        """Take a reply; False where nobody waits for it. Raises Malformed."""
        request = self._requests.get(xid)
        if request is None or request.future.done():
            return False
        if kind != request.kind:
            raise MalformedMessageError(f"{type_name(kind)} in answer to a request for {request.kind.name}")
        request.parts.append(message)
        if kind == MessageType.MULTIPART_REPLY and self._more_to_come(request, message):
            return True
        request.future.set_result(request.parts)
        return True

    def _more_to_come(self, request: _Request, message: bytes) -> bool:
        body, flags = _MULTIPART(message, 8)
        if body != request.body:
            raise MalformedMessageError(
                f"MULTIPART_REPLY: body type {body} in answer to a request for {request.body!r}", 8
            )
        request.size_bytes += len(message) + PART_OVERHEAD_BYTES
        if request.size_bytes > MAX_MULTIPART_BYTES:
            raise MalformedMessageError(f"MULTIPART_REPLY: more than {MAX_MULTIPART_BYTES} bytes")
        return bool(flags & _MORE)

    def refuse(self, xid: int, error: ErrorReply) -> bool:
        """Take an error; False where nobody waits for its request."""
        request = self._requests.get(xid)
        if request is None or request.future.done():
            return False
        request.future.set_exception(RequestRejectedError(error))
        return True

    def close(self, reason: str) -> None:
        """Tell everybody who waits that nothing will come."""
        for request in self._requests.values():
            if not request.future.done():
                request.future.set_exception(SessionClosedError(reason))
                request.future.exception()  # retrieved: whoever waited may be gone already
        self._requests.clear()

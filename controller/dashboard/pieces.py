"""Send long texts such that the event loop is held for a fraction of a millisecond at a time.

All connections take turns: one piece is written in each round of the loop, whatever the number of clients. A client
that does not read waits for its own socket before its turn, so it delays no other.
"""

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from heddle.controller.dashboard.http import TIMEOUT_S, LimitedConnection

PIECE_BYTES = 1 << 16
SHORT_S = 10.0


async def send_pieces(connection: LimitedConnection, send: Send, text: bytes, timeout_s: float) -> None:
    """Send a part of a response body; raises TimeoutError where the client does not take a piece in time."""
    whole = memoryview(text)
    for begin in range(0, len(text), PIECE_BYTES):
        piece = bytes(whole[begin : begin + PIECE_BYTES])
        async with asyncio.timeout(timeout_s):
            await connection.flow.drain()
        async with connection.turn:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)


class PiecedResponse(Response):
    """A response whose body is sent in pieces."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; the limits of the connection end it where the client is too slow."""
        connection: LimitedConnection = scope["state"]["connection"]
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            await send_pieces(connection, send, bytes(self.body), TIMEOUT_S)
        except TimeoutError:  # on a busy machine before the limit of the connection, which is as long
            connection.cut_off()
            return
        await send({"type": "http.response.body", "body": b""})

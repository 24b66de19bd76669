"""Hold every call of the gRPC API to the limits of its caller (`controller/runtime/limits/callers.py`).

gRPC's core accepts connections itself; `connection_options` are the limits that it offers. They hold for all peers
together: it has none for a single address (docs/limits.md).
"""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from heddle.controller.access.wrapping import Around, Context, Handler, called, calling
from heddle.controller.api.errors import errors_as_status
from heddle.controller.api.peer import Places, caller_of
from heddle.controller.api.worker import begin_work
from heddle.controller.runtime.limits.callers import Callers, TooManyCallsError

IDLE_MS = 300_000
"""A connection without a call is closed after so long; a client connects again at its next call."""
MAX_CONNECTION_CALLS = 1_024
"""The HTTP/2 setting: a client holds back the calls beyond."""
MAX_CALLS = 16_384
MAX_UNSEEN_CALLS = 65_536
"""Calls that gRPC's core holds until this process takes them; beyond, it cancels any caller's without a reason.

Its own limit, from 1,000 to 3,000 calls, is reached by the calls that one client begins and cancels at once (rapid
reset, CVE-2023-44487). These cost it a few hundred bytes each, and are dropped when their turn comes.
"""
MEETINGS = frozenset({"/heddle.v1.JobService/JoinJob"})
"""Methods whose calls wait for each other: all nodes of a job may have one certificate."""
RETRY_KEY = "grpc-retry-pushback-ms"
"""The trailer that clients with a retry policy obey (gRPC proposal A6)."""


def connection_options(connections: int) -> list[tuple[str, int]]:
    """Return the server options that limit connections."""
    return [
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.max_connection_idle_ms", IDLE_MS),
        ("grpc.max_concurrent_streams", MAX_CONNECTION_CALLS),
        ("grpc.server.max_pending_requests", MAX_UNSEEN_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", MAX_UNSEEN_CALLS),
    ]


class Limits(Around):
    """Begin each call within the limits of its caller, and count its replies until they are sent."""

    def __init__(self, callers: Callers, places: Places) -> None:
        self._callers, self._places = callers, places

    def wrapped(self, handler: Handler, name: str) -> Handler:
        """Return the handler of a method within the limits."""
        return super().wrapped(self._counted(handler), name)

    @asynccontextmanager
    async def around(self, method: str, handler: Handler, context: Context) -> AsyncIterator[None]:
        """Begin a call, which ends when its reply is sent; abort it beyond the limits."""
        name = caller_of(context)
        is_stream = handler.request_streaming or handler.response_streaming
        async with errors_as_status(context):
            try:
                if is_stream:
                    end = self._callers.begin_stream(name)
                else:
                    end = await self._callers.begin_call(name, takes_turn=method not in MEETINGS)
            except TooManyCallsError as refused:
                context.set_trailing_metadata(((RETRY_KEY, str(refused.after_ms)),))
                raise
        context.add_done_callback(lambda _: end())
        begin_work(self._places.of(context))
        yield

    def _counted(self, handler: Handler) -> Handler:
        """Return a handler whose replies are counted; those that it writes itself (gRPC's health service) are small."""
        method, encode = called(handler), handler.response_serializer or bytes

        async def replied(request: Any, context: Context) -> bytes:
            reply = await method(request, context)
            async with errors_as_status(context):
                return self._sending(context, encode(reply))[0]

        async def streamed(request: Any, context: Context) -> AsyncIterator[bytes]:
            async for reply in method(request, context):
                async with errors_as_status(context):
                    data, read = self._sending(context, encode(reply), until_done=False)
                try:
                    yield data
                finally:
                    read()

        if not handler.response_streaming:
            return calling(handler, replied, response_serializer=None)
        if inspect.isasyncgenfunction(method):
            return calling(handler, streamed, response_serializer=None)
        return handler

    def _sending(self, context: Context, data: bytes, *, until_done: bool = True) -> tuple[bytes, Callable[[], None]]:
        """Count a reply as unread, and return it with what ends that: by default the end of the call."""
        read = self._callers.send(caller_of(context), len(data))
        if until_done:
            context.add_done_callback(lambda _: read())
        return data, read

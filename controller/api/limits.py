"""Hold every call of the gRPC API to the limits of its caller (`runtime.callers`).

gRPC's core accepts connections itself; `connection_options` are the limits that it offers. They hold for all peers
together: it has none for a single address (docs/limits.md).
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from controller.api.errors import errors_as_status
from controller.api.peer import caller_of
from controller.runtime.callers import Callers, TooManyCallsError

IDLE_MS = 300_000
"""A connection without a call is closed after so long; a client connects again at its next call."""
MAX_CONNECTION_CALLS = 1_024
"""The HTTP/2 setting: a client holds back the calls beyond."""
MAX_CALLS = 16_384
RETRY_KEY = "grpc-retry-pushback-ms"
"""The trailer that clients with a retry policy obey (gRPC proposal A6)."""
Handler = Any
"""An `RpcMethodHandler`; grpcio has no types for it."""


def connection_options(connections: int) -> list[tuple[str, int]]:
    """Return the server options that limit connections."""
    return [
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.max_connection_idle_ms", IDLE_MS),
        ("grpc.max_concurrent_streams", MAX_CONNECTION_CALLS),
    ]


class Limits(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Begin each call within the limits of its caller, and count its replies until they are sent."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the method's handler within the limits; None for an unknown method."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        kind = f"{_way(handler.request_streaming)}_{_way(handler.response_streaming)}"
        method = getattr(handler, kind)
        is_stream = handler.request_streaming or handler.response_streaming
        if handler.response_streaming and not inspect.isasyncgenfunction(method):
            return handler._replace(**{kind: self._written(method)})
        wrap = self._streamed if handler.response_streaming else self._replied
        wrapped = wrap(method, handler.response_serializer or bytes, is_stream)
        return handler._replace(response_serializer=None, **{kind: wrapped})

    def _replied(self, method: Any, encode: Callable[[Any], bytes], is_stream: bool) -> Any:
        async def call(request: Any, context: Any) -> bytes:
            await self._begin(context, is_stream)
            reply = await method(request, context)
            async with errors_as_status(context):
                return self._sending(context, encode(reply))[0]

        return call

    def _streamed(self, method: Any, encode: Callable[[Any], bytes], is_stream: bool) -> Any:
        async def call(request: Any, context: Any) -> AsyncIterator[bytes]:
            await self._begin(context, is_stream)
            async for reply in method(request, context):
                async with errors_as_status(context):
                    data, read = self._sending(context, encode(reply), until_done=False)
                try:
                    yield data
                finally:
                    read()

        return call

    def _written(self, method: Any) -> Any:
        """Wrap a method that writes its replies itself (gRPC's health service): they are small."""

        async def call(request: Any, context: Any) -> Any:
            await self._begin(context, is_stream=True)
            return await method(request, context)

        return call

    async def _begin(self, context: Any, is_stream: bool) -> None:
        """Begin a call, which ends when its reply is sent; abort it beyond the limits."""
        name = caller_of(context)
        async with errors_as_status(context):
            try:
                end = self._callers.begin_stream(name) if is_stream else await self._callers.begin_call(name)
            except TooManyCallsError as refused:
                context.set_trailing_metadata(((RETRY_KEY, str(refused.after_ms)),))
                raise
        context.add_done_callback(lambda _: end())

    def _sending(self, context: Any, data: bytes, *, until_done: bool = True) -> tuple[bytes, Callable[[], None]]:
        """Count a reply as unread, and return it with what ends that: by default the end of the call."""
        read = self._callers.send(caller_of(context), len(data))
        if until_done:
            context.add_done_callback(lambda _: read())
        return data, read


def _way(is_streaming: bool) -> str:
    return "stream" if is_streaming else "unary"

"""Refuse requests whose bytes are no message of their type.

gRPC's own server would reply UNKNOWN and log a traceback for each.
"""

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from heddle.controller.access.call import current
from heddle.controller.access.wrapping import Handler, called, calling
from heddle.controller.api.errors import errors_as_status


class Decoding(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Decode each request within the method that it is for."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the method's handler, which takes the bytes of a request; None for an unknown method."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_deserializer is None:
            return handler
        method = called(handler)
        if handler.request_streaming:
            wrap = _both_streamed if handler.response_streaming else _read
        else:
            wrap = _streamed if inspect.isasyncgenfunction(method) else _called
        return calling(handler, wrap(method, handler.request_deserializer), request_deserializer=None)


def _called(method: Any, decode: Callable[[bytes], Any]) -> Any:
    async def call(data: bytes, context: Any) -> Any:
        async with errors_as_status(context):
            request = decode(data)
            current().concerns(request)
        return await method(request, context)

    return call


def _streamed(method: Any, decode: Callable[[bytes], Any]) -> Any:
    async def call(data: bytes, context: Any) -> AsyncIterator[Any]:
        async with errors_as_status(context):
            request = decode(data)
            current().concerns(request)
        async for reply in method(request, context):
            yield reply

    return call


def _read(method: Any, decode: Callable[[bytes], Any]) -> Any:
    async def call(messages: AsyncIterable[bytes], context: Any) -> Any:
        async with errors_as_status(context):
            return await method(_decoded(messages, decode), context)

    return call


def _both_streamed(method: Any, decode: Callable[[bytes], Any]) -> Any:
    async def call(messages: AsyncIterable[bytes], context: Any) -> AsyncIterator[Any]:
        async with errors_as_status(context):
            async for reply in method(_decoded(messages, decode), context):
                yield reply

    return call


async def _decoded(messages: AsyncIterable[bytes], decode: Callable[[bytes], Any]) -> AsyncIterator[Any]:
    async for data in messages:
        yield decode(data)

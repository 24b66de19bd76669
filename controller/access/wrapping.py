"""Wrap the handlers of gRPC methods, all four kinds alike: `Around` is an interceptor, and each call runs within it."""

import inspect
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import grpc

Handler = Any
"""An `RpcMethodHandler`; grpcio has no types for it."""
Context = Any
"""A `grpc.aio.ServicerContext`."""


class Around(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """An interceptor whose `around` begins before each call, and ends after its last reply."""

    @abstractmethod
    def around(self, method: str, handler: Handler, context: Context) -> AbstractAsyncContextManager[object]:
        """Return what a call of a method (`/SERVICE/NAME`) runs within; it may abort the call."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the wrapped handler of the method; None for an unknown method."""
        handler = await continuation(handler_call_details)
        return None if handler is None else self.wrapped(handler, handler_call_details.method)

    def wrapped(self, handler: Handler, name: str) -> Handler:
        """Return the handler of a method within `around`."""
        call = called(handler)

        async def replied(request: Any, context: Context) -> Any:
            async with self.around(name, handler, context):
                return await call(request, context)

        async def streamed(request: Any, context: Context) -> AsyncIterator[Any]:
            async with self.around(name, handler, context):
                async for reply in call(request, context):
                    yield reply

        return calling(handler, streamed if inspect.isasyncgenfunction(call) else replied)


def called(handler: Handler) -> Callable[..., Any]:
    """Return the function of a handler: it yields replies, returns one, or writes them itself and returns None."""
    return getattr(handler, _kind(handler))  # type: ignore[no-any-return]


def calling(handler: Handler, function: Callable[..., Any], **fields: Any) -> Handler:
    """Return a handler with another function, and with other `fields`."""
    return handler._replace(**{_kind(handler): function}, **fields)


def _kind(handler: Handler) -> str:
    streams = (handler.request_streaming, handler.response_streaming)
    return "_".join("stream" if each else "unary" for each in streams)

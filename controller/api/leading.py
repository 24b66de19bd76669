"""Serve calls on the leader alone; others reply UNAVAILABLE, with the leader's address in a trailer.

On the leader a unary call replies when all that it may have seen is in the journal: a change of the leader takes back
nothing that a caller has read.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from heddle.controller.api.errors import errors_as_status
from heddle.controller.runtime.journal.gate import Gate
from heddle.controller.runtime.leadership import Leadership
from heddle.foundation.leader_address import LEADER

SERVED = "/heddle."
Handler = Any
"""An `RpcMethodHandler`; grpcio has no types for it."""


class Leading(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Refuse calls of Heddle's services while this controller does not lead."""

    def __init__(self, leadership: Leadership, gate: Gate) -> None:
        self._leadership, self._gate = leadership, gate

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the method's handler behind the check; None for an unknown method."""
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(SERVED):
            return handler
        into = "stream" if handler.request_streaming else "unary"
        kind = f"{into}_stream" if handler.response_streaming else f"{into}_unary"
        method = getattr(handler, kind)
        wrap = self._streamed if inspect.isasyncgenfunction(method) else self._called
        return handler._replace(**{kind: wrap(method)})

    def _called(self, method: Any) -> Any:
        async def call(request: Any, context: Any) -> Any:
            await self._check(context)
            reply = await method(request, context)
            async with errors_as_status(context):
                await self._gate.settled()
            return reply

        return call

    def _streamed(self, method: Any) -> Any:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            await self._check(context)
            async for reply in method(request, context):
                yield reply

        return call

    async def _check(self, context: Any) -> None:
        leadership = self._leadership
        if not leadership.may_act():
            trailers = ((LEADER, leadership.leader),) if leadership.leader else ()
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(leadership.refusal()), trailers)

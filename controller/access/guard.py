"""Admit calls by the table, set the call that services read, and audit what changes something.

It is the first interceptor: a caller that may not call a method gets PERMISSION_DENIED before its request is decoded.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import grpc

from controller.access.audit import BEGUN, OK, Audit, Entry
from controller.access.call import Call, begin
from controller.access.caller import Caller, UnknownCallerError, caller_of
from controller.access.policy import Policy
from controller.access.scope import Scope, TenantScope
from controller.access.table import row_of
from controller.runtime.loop import Loop
from foundation.identity import Role

Handler = Any
"""An `RpcMethodHandler`; grpcio has no types for it."""
Context = Any
_KINDS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}


class Access:
    """Who calls a controller, what they may call, and where their calls are audited."""

    def __init__(self, loop: Loop, audit: Audit, policy: Policy | None = None) -> None:
        self._loop, self.audit, self._policy = loop, audit, policy or Policy()
        self._everything = Scope()
        self._scopes: dict[str, TenantScope] = {}

    def call_of(self, context: Context) -> Call:
        """Return the call of a connection; raises UnknownCallerError."""
        caller = caller_of(context.peer(), context.auth_context())
        return Call(caller=caller, scope=self._scope(caller), loop=self._loop)

    def refusal(self, method: str, caller: Caller) -> str | None:
        """Return why a caller may not call a method; None where it may."""
        roles = row_of(method).roles
        if caller.role not in roles:
            return f"{caller.who} may not call {method[1:]}: it is for {', '.join(sorted(roles)) or 'no one'}"
        if caller.role is Role.TENANT and caller.name not in self._policy.tenants:
            return f"{caller.who} is not in the policy file (config key policy)"
        return None

    def _scope(self, caller: Caller) -> Scope:
        policy = self._policy.tenants.get(caller.name) if caller.role is Role.TENANT else None
        if policy is None:
            return self._everything
        if caller.name not in self._scopes:
            self._scopes[caller.name] = TenantScope(caller.name, policy, self._loop.state.fabric)
        return self._scopes[caller.name]


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """A gRPC interceptor: refuses calls by the table of methods and roles, and audits those that change something."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the guarded handler of a method; None for an unknown method."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        kind = _KINDS[handler.request_streaming, handler.response_streaming]
        method = getattr(handler, kind)
        wrap = self._streamed if inspect.isasyncgenfunction(method) else self._called
        return handler._replace(**{kind: wrap(method, handler_call_details.method)})

    def _called(self, method: Any, name: str) -> Any:
        async def call(request: Any, context: Context) -> Any:
            with self._audited(await self._admitted(name, context), name, context):
                return await method(request, context)

        return call

    def _streamed(self, method: Any, name: str) -> Any:
        async def call(request: Any, context: Context) -> AsyncIterator[Any]:
            with self._audited(await self._admitted(name, context), name, context):
                async for reply in method(request, context):
                    yield reply

        return call

    async def _admitted(self, name: str, context: Context) -> Call:
        """Return the call, which the services of this task read from now on; ends one that is refused."""
        try:
            call = self._access.call_of(context)
        except UnknownCallerError as error:
            await self._refuse(Entry("unknown", context.peer(), name, "", "UNAUTHENTICATED", str(error)), context)
        why = self._access.refusal(name, call.caller)
        if why is not None:
            await self._refuse(Entry(call.caller.who, call.caller.peer, name, "", "PERMISSION_DENIED", why), context)
        call.on_begin = partial(self._record, call, name, BEGUN, "")
        begin(call)
        return call

    async def _refuse(self, entry: Entry, context: Context) -> NoReturn:
        self._access.audit.record(entry, is_event=row_of(entry.what).mutates)
        await context.abort(grpc.StatusCode[entry.outcome], entry.why)
        raise AssertionError("abort raises")

    @contextmanager
    def _audited(self, call: Call, name: str, context: Context) -> Iterator[None]:
        """Record the outcome of a call that changes something."""
        row = row_of(name)
        try:
            yield
        except BaseException as error:
            if row.mutates:
                self._record(call, name, *_outcome(error, context))
            raise
        if row.mutates:
            self._record(call, name, OK, "")

    def _record(self, call: Call, name: str, outcome: str, why: str) -> None:
        self._access.audit.record(Entry(call.caller.who, call.caller.peer, name, call.subject, outcome, why))


def _outcome(error: BaseException, context: Context) -> tuple[str, str]:
    """Return the status and details of a call that ended by an exception."""
    if isinstance(error, grpc.aio.AbortError):
        code = context.code()
        number = code.value[0] if isinstance(code, grpc.StatusCode) else code
        names = {status.value[0]: status.name for status in grpc.StatusCode}
        return names.get(number, "UNKNOWN"), str(context.details() or "")
    return ("UNKNOWN", type(error).__name__) if isinstance(error, Exception) else ("CANCELLED", "the caller left")

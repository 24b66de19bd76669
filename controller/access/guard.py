"""Admit calls by the table, set the call that services read, and audit what changes something.

It is the first interceptor: a caller that may not call a method gets PERMISSION_DENIED before its request is decoded.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NoReturn

import grpc

from heddle.controller.access.audit import BEGUN, OK, Audit, Entry
from heddle.controller.access.call import Call, begin
from heddle.controller.access.caller import Caller, UnknownCallerError, caller_of
from heddle.controller.access.policy import Policy
from heddle.controller.access.scope import Scope, TenantScope
from heddle.controller.access.table import row_of
from heddle.controller.access.wrapping import Around, Context, Handler
from heddle.controller.runtime.loop import Loop
from heddle.controller.runtime.owners import Owners
from heddle.foundation.identity import Role


class Access:
    """The access control of a controller: callers by their certificates, the policy, and the audit trail."""

    def __init__(self, loop: Loop, owners: Owners, audit: Audit, policy: Policy | None = None) -> None:
        self._loop, self._owners, self.audit, self.policy = loop, owners, audit, policy or Policy()
        self._everything = Scope()
        self._scopes: dict[str, TenantScope] = {}

    def use(self, policy: Policy) -> None:
        """Use another policy for calls that begin from now on."""
        self.policy = policy
        self._scopes.clear()

    def call_of(self, method: str, context: Context) -> Call:
        """Return the call of a method on a connection; raises UnknownCallerError."""
        caller = caller_of(context.peer(), context.auth_context())
        scope, object_ = self._scope(caller), row_of(method).object
        return Call(caller=caller, scope=scope, loop=self._loop, owners=self._owners, object=object_)

    def refusal(self, method: str, caller: Caller) -> str | None:
        """Return why a caller may not call a method; None where it may."""
        roles = row_of(method).roles
        if caller.role not in roles:
            return f"{caller.who} may not call {method[1:]}: it is for {', '.join(sorted(roles)) or 'no one'}"
        if caller.role is Role.TENANT and caller.name not in self.policy.tenants:
            return f"{caller.who} is not in the policy file (config key policy)"
        return None

    def _scope(self, caller: Caller) -> Scope:
        policy = self.policy.tenants.get(caller.name) if caller.role is Role.TENANT else None
        if policy is None:
            return self._everything
        if caller.name not in self._scopes:
            self._scopes[caller.name] = TenantScope(caller.name, policy, self._loop.state.fabric)
        return self._scopes[caller.name]


class Guard(Around):
    """A gRPC interceptor: refuses calls by the table of methods and roles, and audits those that change something."""

    def __init__(self, access: Access) -> None:
        self._access = access

    @asynccontextmanager
    async def around(self, method: str, handler: Handler, context: Context) -> AsyncIterator[None]:
        """Admit a call, and record the outcome of one that changes something."""
        call = await self._admitted(method, context)
        mutates = row_of(method).mutates
        try:
            yield
        except BaseException as error:
            if mutates:
                self._record(call, method, *_outcome(error, context))
            raise
        if mutates:
            self._record(call, method, OK, "")

    async def _admitted(self, name: str, context: Context) -> Call:
        """Return the call, which the services of this task read from now on; ends one that is refused."""
        try:
            call = self._access.call_of(name, context)
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

"""The call that a task serves, with its caller, its object and its scope; services read it as `current()`."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from operator import attrgetter

from google.protobuf.message import Message

from heddle.controller.access.caller import Caller
from heddle.controller.access.scope import Scope
from heddle.controller.model.admission import quoted
from heddle.controller.model.error import DeniedError
from heddle.controller.model.log_event import LogEvent
from heddle.controller.model.plan import JobPlan
from heddle.controller.model.tenant import Tenant
from heddle.controller.runtime.loop import Loop
from heddle.controller.runtime.owners import Owners
from heddle.foundation.identity import Role

MAX_SUBJECT_LENGTH = 300


@dataclass(slots=True, kw_only=True)
class Call:
    """One call; `subject` is what it is about, in the caller's words, as far as the audit log has it."""

    caller: Caller
    scope: Scope
    loop: Loop
    owners: Owners
    object: tuple[str, ...] = ()
    """The fields of a request that name what the call is about, as the table of methods has them."""
    subject: str = ""
    said: str = ""
    """All of it: names that the caller used itself are no secret to it."""
    on_begin: Callable[[], None] = lambda: None
    """Audits that a stream begins."""

    @property
    def tenant(self) -> Tenant | None:
        """The tenant whose objects alone the call concerns; None for all."""
        return self.scope.tenant

    def concerns(self, request: Message | str) -> None:
        """Record what the call is about: an id, or the ids in a request."""
        if isinstance(request, Message):
            names = [attrgetter(field)(request) for field in self.object]
            request = " ".join(filter(None, names))
        self.said, self.subject = request, request[:MAX_SUBJECT_LENGTH]

    def speaks_for(self, name: str) -> None:
        """Record that a stream begins, of the host or gateway of this name.

        Raises DeniedError for an agent or gateway of another name.
        """
        self.concerns(name)
        if self.caller.role in (Role.AGENT, Role.GATEWAY) and name != self.caller.name:
            raise DeniedError(f"{self.object[0]}: {quoted(name)} is not the caller, {self.caller.who}")
        self.on_begin()

    def text(self, text: str) -> str:
        """Return a text without the names of others."""
        return self.scope.text(text, self.loop.state, self.owners.owner, self.said)

    def plan(self, plan: JobPlan) -> JobPlan:
        """Return a plan without the names of others."""
        return self.scope.plan(plan, self.loop.state, self.owners.owner)

    def event(self, event: LogEvent) -> LogEvent | None:
        """Return an event without the names of others; None for one that is not the caller's."""
        return self.scope.event(event, self.loop.state, self.owners.owner)


_CURRENT: ContextVar[Call] = ContextVar("call")


def begin(call: Call) -> None:
    """Set the call that this task serves."""
    _CURRENT.set(call)


def without_others(text: str) -> str:
    """Return a text without the names of others; as it is where no call is admitted yet, as in a refusal by limits."""
    call = _CURRENT.get(None)
    return text if call is None else call.text(text)


def current() -> Call:
    """Return the call that this task serves; raises LookupError outside of one."""
    return _CURRENT.get()

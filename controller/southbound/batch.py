"""Match errors to the changes of one step for one switch."""

from collections.abc import Sequence

from heddle.controller.model.rule import Change, Cookie, CookieKind, FlowRule, Masked, Match
from heddle.controller.southbound.codec.decode import ErrorReply


class Batch:
    """Changes with consecutive transaction ids, so that an error identifies its change."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes
        self.first_xid = 0
        self.failure: str | None = None
        self.refused = 0

    def refuse(self, xid: int, error: ErrorReply) -> bool:
        """Record an error; False where it belongs to none of these changes."""
        index = xid - self.first_xid
        if not 0 <= index < len(self.changes):
            return False
        self.refused += 1
        self.fail(f"{error} for {_description(self.changes[index])}")
        return True

    @property
    def outcome(self) -> str | None:
        """Return why the changes failed, and how many were refused; None where they did not."""
        more = f" (and {self.refused - 1} more were refused)" if self.refused > 1 else ""
        return self.failure and self.failure + more

    def fail(self, reason: str) -> None:
        """Mark the batch as failed; the first reason is kept."""
        self.failure = self.failure or reason


def _description(change: Change) -> str:
    item = change.item
    if isinstance(item, FlowRule):
        place = f"table {item.table} priority {item.priority} cookie {item.cookie:#x}"
        return f"{change.op.name} {place}{_purpose(item)}"
    return f"{change.op.name} group {item.group_id}"


def _purpose(rule: FlowRule) -> str:
    """Return what a rule is for; of a pin only its job's number, as other tenants may read this."""
    cookie = Cookie.unpack(rule.cookie)
    if cookie is None:
        return ""
    if cookie.kind is CookieKind.PIN:
        return f" (PIN of job number {cookie.job_number})"
    fields = () if not isinstance(rule.match, Match) else rule.match.__slots__
    matched = ", ".join(f"{name} {_text(value)}" for name in fields if (value := getattr(rule.match, name)) is not None)
    return f" ({cookie.kind.name}, {matched or 'any packet'})"


def _text(value: int | Masked) -> str:
    return f"{value.value:#x}/{value.mask:#x}" if isinstance(value, Masked) else f"{value:#x}"

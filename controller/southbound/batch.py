"""Match errors to the changes of one step for one switch."""

from collections.abc import Sequence

from heddle.controller.model.rule import Change, FlowRule
from heddle.controller.southbound.codec.decode import ErrorReply


class Batch:
    """Changes with consecutive transaction ids, so that an error identifies its change."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes
        self.first_xid = 0
        self.failure: str | None = None

    def refuse(self, xid: int, error: ErrorReply) -> bool:
        """Record an error; False where it belongs to none of these changes."""
        index = xid - self.first_xid
        if not 0 <= index < len(self.changes):
            return False
        self.fail(f"{error} for {_description(self.changes[index])}")
        return True

    def fail(self, reason: str) -> None:
        """Mark the batch as failed; the first reason is kept."""
        self.failure = self.failure or reason


def _description(change: Change) -> str:
    item = change.item
    if isinstance(item, FlowRule):
        return f"{change.op.name} table {item.table} priority {item.priority} cookie {item.cookie:#x}"
    return f"{change.op.name} group {item.group_id}"

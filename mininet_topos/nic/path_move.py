"""A change of a running queue pair's path, make before break. Pure; time is an argument.

    modify, planned: drain ---- all acknowledged ----> apply, send from the new port
                       +------- the limit passes ----> apply, send again from the first unacknowledged PSN
    modify, failure: ---------------------------------> the same, at once

A planned move loses and reorders nothing: no packet is on the old path when the first one takes the new path. After a
failure what is on the old path counts as lost.
"""

from typing import Any, Final, NamedTuple

PLANNED: Final = "planned"
FAILURE: Final = "failure"
MOVES = (PLANNED, FAILURE)
DRAIN_TIMEOUTS = 2
"""The default limit of a drain in ACK timeouts: a packet that is lost meanwhile is retransmitted once."""

RECORDED_MOVES = 64


class PathMove(NamedTuple):
    """A change that waits for its queue pair to drain, until `limit_ns` at the latest."""

    change: dict[str, Any]
    requested_ns: int
    limit_ns: int

    @property
    def kind(self) -> str:
        """Return PLANNED or FAILURE."""
        return str(self.change.get("move", PLANNED))

    def then(self, change: dict[str, Any]) -> "PathMove":
        """Return the move with a later change: it overrides field by field, and the limit stays the first one's."""
        return self._replace(change=self.change | change)

    def is_due(self, unacknowledged: int, now_ns: int) -> bool:
        """Return whether the change applies now."""
        return not unacknowledged or self.kind == FAILURE or now_ns >= self.limit_ns


class MoveRecord(NamedTuple):
    """A move that has been made. `resent_packets` were unacknowledged: 0 if the queue pair had drained."""

    kind: str
    reason: str
    requested_ns: int
    moved_ns: int
    old_udp_source_port: int
    new_udp_source_port: int
    resent_packets: int


def begin(change: dict[str, Any], now_ns: int, timeout_ns: int) -> PathMove:
    """Return the move that a `modify` command requests; `timeout_ns` is the queue pair's ACK timeout."""
    return PathMove(change, now_ns, now_ns + change.get("drain_ns", DRAIN_TIMEOUTS * timeout_ns))

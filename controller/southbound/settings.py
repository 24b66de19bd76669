"""The southbound's times and limits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SouthboundSettings:
    """Times in seconds; the defaults are for switches on the same site.

    `generation_id` None asks for no role. A number asks for MASTER with it: it must grow with every controller
    that takes over (a revision of the store), for a switch refuses whoever comes with less than it has seen.
    """

    echo_period_s: float = 0.5
    suspect_after: int = 2
    close_after: int = 4
    silent_periods: int = 8
    """Echo periods without one whole message (bytes may come) after which a session is closed."""
    handshake_timeout_s: float = 5.0
    probe_timeout_s: float = 1.0
    request_timeout_s: float = 30.0
    max_connections: int = 4096
    messages_per_period: int = 10_000
    """What a switch may send in one echo period before it is read no further until the next."""
    generation_id: int | None = None

"""Timeouts and limits of the southbound."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SouthboundSettings:
    """Times in seconds; the defaults are for switches on the same site.

    `generation_id` None requests no role. A number requests MASTER with that generation (OpenFlow 1.3, 6.3.4): it must
    grow with every controller that takes over, because a switch refuses a lower one than it has seen.
    """

    echo_period_s: float = 0.5
    suspect_after: int = 2
    close_after: int = 4
    silent_periods: int = 8
    """Echo periods without one whole message (bytes may come) after which a session is closed."""
    handshake_timeout_s: float = 5.0
    probe_timeout_s: float = 1.0
    request_timeout_s: float = 30.0
    lag_s: float = 0.3
    """A switch that has not replied to a barrier for so long lags: what does not need it goes on without it."""
    barrier_timeout_s: float = 3.0
    """A barrier without reply for so long ends the session; more with outstanding rules and after each end."""
    max_barrier_timeout_s: float = 600.0
    max_connections: int = 4_096
    max_strangers_of_a_peer: int = 512
    """Connections of one address that have not been admitted as switches; the oldest silent one gives way."""
    max_strangers: int = 1_024
    """Such connections of all addresses."""
    messages_per_period: int = 10_000
    """Messages that a switch may send in one echo period; reading then stops until the next."""
    stranger_messages_per_period: int = 100
    """The same before it is admitted: a handshake has a few messages."""
    generation_id: int | None = None

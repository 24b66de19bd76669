"""Keepalive of gRPC connections: both ends probe a silent peer alike, and a server admits the probes of its clients.

A server of gRPC's defaults ends a connection with "Too many pings" when it is probed more than once in five minutes.
"""

KEEPALIVE_MS = 10_000
"""Time of silence after which a peer is probed, and then the time within which it has to respond."""


def client_options(interval_ms: int = KEEPALIVE_MS) -> list[tuple[str, int]]:
    """Return the channel options of a client; also a session that carries no data for hours is probed."""
    return [
        ("grpc.keepalive_time_ms", interval_ms),
        ("grpc.keepalive_timeout_ms", interval_ms),
        ("grpc.http2.ping_timeout_ms", interval_ms),  # the longer of both is in force, by default a minute
        ("grpc.http2.max_pings_without_data", 0),  # no limit
    ]


def server_options(interval_ms: int = KEEPALIVE_MS) -> list[tuple[str, int]]:
    """Return the options of a server whose clients probe at this interval or, by default, at KEEPALIVE_MS."""
    admitted_ms = min(interval_ms, KEEPALIVE_MS) // 2  # a client's timer may be early
    return [*client_options(interval_ms), ("grpc.http2.min_ping_interval_without_data_ms", admitted_ms)]

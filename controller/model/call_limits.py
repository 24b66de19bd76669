"""The limits of one caller of the gRPC API."""

from typing import NamedTuple


class CallLimits(NamedTuple):
    """The limits of one caller."""

    per_second: int = 1_000
    burst: int = 2_000
    in_progress: int = 8
    waiting: int = 1_024
    streams: int = 768
    unread_bytes: int = 64 << 20

"""The part of the controller's config that keeps callers and peers from taking the place of others."""

from pydantic import BaseModel, ConfigDict, Field

from heddle.controller.model.call_limits import CallLimits

_CALLS = CallLimits()


class LimitsConfig(BaseModel):
    """Limits of one caller of the gRPC API: an identity by TLS, else an address, on loopback a connection."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    calls_per_second: int = Field(
        default=_CALLS.per_second, ge=1, le=1_000_000, description="calls of one caller a second; more are refused"
    )
    calls_burst: int = Field(
        default=_CALLS.burst, ge=1, le=1_000_000, description="calls that a caller who was silent may make at once"
    )
    calls_in_progress: int = Field(
        default=_CALLS.in_progress,
        ge=1,
        le=16_384,
        description="calls of one caller that are in progress; the next ones wait",
    )
    calls_waiting: int = Field(
        default=_CALLS.waiting, ge=0, le=16_384, description="calls of one caller that wait; more are refused"
    )
    streams: int = Field(default=_CALLS.streams, ge=1, le=16_384, description="streams of one caller; more are refused")
    unread_megabytes: int = Field(
        default=_CALLS.unread_bytes >> 20,
        ge=1,
        le=4_096,
        description="replies that one caller has not read; more are refused",
    )
    grpc_connections: int = Field(
        default=4_096, ge=1, le=65_536, description="gRPC connections of all peers; more are closed at once"
    )

    def of_calls(self) -> CallLimits:
        """Return the limits of one caller."""
        return CallLimits(
            per_second=self.calls_per_second,
            burst=self.calls_burst,
            in_progress=self.calls_in_progress,
            waiting=self.calls_waiting,
            streams=self.streams,
            unread_bytes=self.unread_megabytes << 20,
        )

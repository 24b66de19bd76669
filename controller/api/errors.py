"""Errors of the core as gRPC status codes, by one table."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from controller.model.error import (
    AlreadyExistsError,
    BudgetExceededError,
    HeddleError,
    InputError,
    InUseError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)
from controller.runtime.watch import TooManyWatchersError

CODES: dict[type[Exception], grpc.StatusCode] = {
    InputError: grpc.StatusCode.INVALID_ARGUMENT,
    NotFoundError: grpc.StatusCode.NOT_FOUND,
    AlreadyExistsError: grpc.StatusCode.ALREADY_EXISTS,
    BudgetExceededError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    NoAdmissiblePlanError: grpc.StatusCode.FAILED_PRECONDITION,
    InUseError: grpc.StatusCode.FAILED_PRECONDITION,
    UnavailableError: grpc.StatusCode.UNAVAILABLE,
    TooManyWatchersError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HeddleError: grpc.StatusCode.INTERNAL,
}

MAX_LINES = 20
MAX_DETAILS_BYTES = 6_000
"""gRPC drops a call whose trailers pass 8 KiB, and its status with it."""
ROOM_BYTES = 60
"""Of these, for how many lines more there are, and for what shows a cut."""


@asynccontextmanager
async def told(context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[None]:
    """Turn an error of the core into the call's status, its details one line a problem."""
    try:
        yield
    except (HeddleError, TooManyWatchersError) as error:
        code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
        await context.abort(code, details_of(str(error)))


def details_of(text: str) -> str:
    """Return as many lines of a text as a person reads and a trailer holds, and how many more there are."""
    lines = text.splitlines()
    told: list[str] = []
    left = MAX_DETAILS_BYTES - ROOM_BYTES
    for line in lines[:MAX_LINES]:
        left -= _bytes_of(line) + 3
        if left < 0:
            break
        told.append(line)
    if lines and not told:
        told.append(lines[0].encode()[: (MAX_DETAILS_BYTES - ROOM_BYTES) // 3].decode(errors="ignore") + "...")
    if len(told) < len(lines):
        told.append(f"and {len(lines) - len(told)} more")
    return "\n".join(told)


def _bytes_of(line: str) -> int:
    """Return how long gRPC writes a line: other bytes than printable ASCII, and the percent sign, are three."""
    return sum(1 if 32 <= byte < 127 and byte != 37 else 3 for byte in line.encode())

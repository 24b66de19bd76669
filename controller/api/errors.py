"""Errors of the core as gRPC status codes, by one table."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from controller.model.error import (
    AlreadyExists,
    BudgetExceeded,
    HeddleError,
    InputError,
    InUse,
    NoAdmissiblePlan,
    NotFound,
    Unavailable,
)
from controller.runtime.watch import TooManyWatchers

CODES: dict[type[Exception], grpc.StatusCode] = {
    InputError: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    BudgetExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    NoAdmissiblePlan: grpc.StatusCode.FAILED_PRECONDITION,
    InUse: grpc.StatusCode.FAILED_PRECONDITION,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    TooManyWatchers: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HeddleError: grpc.StatusCode.INTERNAL,
}

MOST_DETAILS_BYTES = 6_000
"""gRPC drops a call whose trailers pass 8 KiB, and its status with it."""


@asynccontextmanager
async def told(context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[None]:
    """Turn an error of the core into the call's status, its lines joined by semicolons."""
    try:
        yield
    except (HeddleError, TooManyWatchers) as error:
        code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
        await context.abort(code, _details("; ".join(str(error).splitlines())))


def _details(text: str) -> str:
    """Cut a text to what a trailer holds: gRPC writes other bytes than printable ASCII as three."""
    encoded = text.encode()
    if sum(1 if 32 <= byte < 127 else 3 for byte in encoded) <= MOST_DETAILS_BYTES:
        return text
    return encoded[: MOST_DETAILS_BYTES // 3].decode(errors="ignore") + "..."

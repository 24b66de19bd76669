"""Map errors of the core to gRPC status codes, by one table."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from heddle.controller.access.call import without_others
from heddle.controller.model.error import (
    AlreadyExistsError,
    BudgetExceededError,
    DeadlineError,
    DeniedError,
    HeddleError,
    InputError,
    InUseError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)
from heddle.controller.runtime.watch import TooManyWatchersError

CODES: dict[type[Exception], grpc.StatusCode] = {
    InputError: grpc.StatusCode.INVALID_ARGUMENT,
    DeniedError: grpc.StatusCode.PERMISSION_DENIED,
    NotFoundError: grpc.StatusCode.NOT_FOUND,
    AlreadyExistsError: grpc.StatusCode.ALREADY_EXISTS,
    BudgetExceededError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    NoAdmissiblePlanError: grpc.StatusCode.FAILED_PRECONDITION,
    InUseError: grpc.StatusCode.FAILED_PRECONDITION,
    DeadlineError: grpc.StatusCode.DEADLINE_EXCEEDED,
    UnavailableError: grpc.StatusCode.UNAVAILABLE,
    TooManyWatchersError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    DecodeError: grpc.StatusCode.INVALID_ARGUMENT,
    HeddleError: grpc.StatusCode.INTERNAL,
}

MAX_LINES = 20
MAX_DETAILS_BYTES = 6_000
"""gRPC fails a call whose trailers exceed 8 KiB, and its status is lost."""
RESERVED_BYTES = 60
"""Part of MAX_DETAILS_BYTES for the count of omitted lines and the mark of a cut line."""


@asynccontextmanager
async def errors_as_status(context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[None]:
    """Turn an error of the core into the call's status; its details hold one line for each problem.

    A tenant does not see the names of others in it.
    """
    try:
        yield
    except (HeddleError, TooManyWatchersError, DecodeError) as error:
        code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
        await context.abort(code, details_of(without_others(str(error))))


def details_of(text: str) -> str:
    """Return the first lines of a text that fit a trailer, and the number of lines left out."""
    lines = text.splitlines()
    shown: list[str] = []
    left = MAX_DETAILS_BYTES - RESERVED_BYTES
    for line in lines[:MAX_LINES]:
        left -= _bytes_of(line) + 3
        if left < 0:
            break
        shown.append(line)
    if lines and not shown:
        shown.append(lines[0].encode()[: (MAX_DETAILS_BYTES - RESERVED_BYTES) // 3].decode(errors="ignore") + "...")
    if len(shown) < len(lines):
        shown.append(f"and {len(lines) - len(shown)} more")
    return "\n".join(shown)


def _bytes_of(line: str) -> int:
    """Return the length of a line in a trailer: all bytes but printable ASCII, and the percent sign, take three."""
    return sum(1 if 32 <= byte < 127 and byte != 37 else 3 for byte in line.encode())

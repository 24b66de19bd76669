"""Read the JSON body of a request: bounded, of one shape."""

from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request

from heddle.controller.model.error import InputError

MAX_BODY_BYTES = 1 << 20
Shape = TypeVar("Shape")
_STRICT = ConfigDict(extra="forbid", strict=True)


async def body_of(request: Request, shape: type[Shape]) -> Shape:
    """Return the body of a request; raises InputError where it is too long, or not of this shape."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise InputError("the body has to be application/json")
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise InputError(f"the body has more than {MAX_BODY_BYTES:,} bytes")
    except ClientDisconnect:
        raise InputError("the connection ended before the body") from None
    try:
        found: Shape = _adapter(shape).validate_json(bytes(body))
    except ValidationError as errors:
        raise InputError(*(_line(dict(error)) for error in errors.errors(include_url=False)[:20])) from None
    return found


def _adapter(shape: Any) -> TypeAdapter[Any]:
    shape.__pydantic_config__ = _STRICT
    return TypeAdapter(shape)


def _line(error: dict[str, Any]) -> str:
    place = ".".join(map(str, error["loc"]))
    return f"{place}: {error['msg']}" if place else str(error["msg"])

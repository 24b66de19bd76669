"""Turn declared documents into routes: parameters in, JSON out, errors as JSON with their status."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from heddle.controller.dashboard.documents.text import document_text, json_text
from heddle.controller.dashboard.parameters import Parameter, values_of
from heddle.controller.dashboard.pieces import PiecedResponse
from heddle.controller.model.error import (
    AlreadyExistsError,
    BudgetExceededError,
    DeniedError,
    HeddleError,
    InputError,
    InUseError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)

STATUSES: dict[type[Exception], int] = {
    InputError: 400,
    DeniedError: 403,
    NotFoundError: 404,
    AlreadyExistsError: 409,
    InUseError: 409,
    NoAdmissiblePlanError: 409,
    BudgetExceededError: 429,
    UnavailableError: 503,
    HeddleError: 500,
}
"""The status of each error; the gRPC API has codes for the same errors."""
MEDIA_TYPE = "application/json"
Found = TypeVar("Found")


class Document(NamedTuple):
    """One JSON document: its path, what it is, its shape, and the function that derives it in a thread."""

    path: str
    summary: str
    shape: Any
    render: Callable[..., Mapping[str, object] | str]
    in_path: tuple[Parameter, ...] = ()
    in_query: tuple[Parameter, ...] = ()
    moment: Callable[[], object] | None = None
    """Returns the values that the document is derived from; called in the event loop."""


class Renderer:
    """Derives documents one after the other in one thread: each that computes delays the event loop."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="documents")

    def routes(self, documents: Sequence[Document]) -> list[Route]:
        """Return the routes of documents."""
        return [Route(_route(each), partial(self._respond, each), methods=["GET"]) for each in documents]

    async def run(self, work: Callable[..., Found], *values: object) -> Found:
        """Call `work` in the thread; it may read frozen values only."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *values))

    def close(self) -> None:
        """End the thread after the document that it derives."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _respond(self, document: Document, request: Request) -> Response:
        try:
            values = values_of(request, document.in_path, document.in_query)
            values = {**values, "moment": document.moment()} if document.moment is not None else values
            text, tag = await self.run(_rendered, document.render, values)
        except HeddleError as error:
            return refused(error)
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return PiecedResponse(text, headers=headers, media_type=MEDIA_TYPE)


def _route(document: Document) -> str:
    """Return the path as routes read it: an id at its end may have slashes, as h1-n0/p0 of a NIC with several ports."""
    return document.path.replace("{nic}", "{nic:path}")


def _rendered(render: Callable[..., Mapping[str, object] | str], values: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return a document's text and its entity tag (RFC 9110, 8.8.3)."""
    found = render(**values)
    text = (found if isinstance(found, str) else document_text(found)).encode()
    return text, f'"{blake2b(text, digest_size=12).hexdigest()}"'


def refused(error: HeddleError) -> Response:
    """Return an error as JSON."""
    status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    return error_response(status, str(error))


def error_response(status: int, text: str) -> Response:
    """Return a refusal as JSON."""
    return Response(json_text({"error": text}), status, {"cache-control": "no-store"}, MEDIA_TYPE)

"""The HTTP interface of `heddle run`: the page, its JSON documents and its stream, metrics and a health check."""

from collections.abc import Mapping
from functools import cached_property

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from controller.dashboard import metrics
from controller.dashboard.documents import shapes
from controller.dashboard.documents.fabric import fabric_document
from controller.dashboard.documents.text import document_text
from controller.dashboard.exposition import CONTENT_TYPE
from controller.dashboard.http import HttpServer, Page, Render
from controller.dashboard.pages import page_routes, refuse
from controller.dashboard.publisher import Publisher
from controller.dashboard.routes import MEDIA_TYPE, Document, Renderer
from controller.dashboard.stream import Streams
from controller.runtime.loop import Loop


class Dashboard:
    """The HTTP interface of one control loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._publisher = Publisher(loop)
        self._streams = Streams(self._publisher)
        self._renderer = Renderer()
        self.http = HttpServer(self._pages(), self._routes(), refuse=refuse)

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port; raises OSError where the address is taken."""
        bound = await self.http.start(host, port)
        self._publisher.start()
        return bound

    async def close(self) -> None:
        """Stop listening, and end every stream."""
        await self.http.close()
        await self._publisher.close()
        self._renderer.close()

    def _routes(self) -> list[BaseRoute]:
        return [
            *page_routes(),
            *self._renderer.routes(self._documents()),
            Route("/api/state", self._state, methods=["GET"]),
            Route("/api/stream", self._streams.endpoint, methods=["GET"]),
        ]

    def _documents(self) -> tuple[Document, ...]:
        return (Document("/api/fabric", "The fabric as built", shapes.Fabric, lambda: self._fabric_text),)

    @cached_property
    def _fabric_text(self) -> str:
        """The fabric's document, which never changes."""
        return document_text(fabric_document(self._loop.state.fabric))

    async def _state(self, request: Request) -> Response:
        update = await self._publisher.current()
        return Response(update.text, headers={"cache-control": "no-store"}, media_type=MEDIA_TYPE)

    def _pages(self) -> Mapping[str, Render]:
        return {"/metrics": self._metrics, "/healthz": self._health}

    async def _metrics(self) -> Page:
        loop = self._loop
        text = metrics.metrics_text(
            loop.state, loop.telemetry, loop.refused_events, loop.previews, loop.unrecorded, loop.reported
        )
        return Page(CONTENT_TYPE, text)

    async def _health(self) -> Page:
        return Page("text/plain", "ok\n")

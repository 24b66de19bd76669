"""The HTTP interface of `heddle run`: the page, its documents, stream and actions, metrics and a health check."""

import time
from collections import Counter
from collections.abc import Mapping
from itertools import chain

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from heddle.controller.access.audit import Audit
from heddle.controller.dashboard import metrics
from heddle.controller.dashboard.access.guard import Guard
from heddle.controller.dashboard.access.login import AccessRules, Logins
from heddle.controller.dashboard.access.session import SessionRoutes
from heddle.controller.dashboard.actions import Actions, ReadJobs
from heddle.controller.dashboard.documents.shapes.site import HttpCounts
from heddle.controller.dashboard.exposition import CONTENT_TYPE
from heddle.controller.dashboard.http import NO_STORE, HttpServer, Page, Render
from heddle.controller.dashboard.interface import Interface
from heddle.controller.dashboard.isolation_metrics import isolation_lines
from heddle.controller.dashboard.leader_metrics import Cluster, cluster_lines, health_page, while_waiting
from heddle.controller.dashboard.openapi import openapi_text
from heddle.controller.dashboard.page_tls import PageTls
from heddle.controller.dashboard.pages import page_routes, refuse
from heddle.controller.dashboard.pieces import PiecedResponse
from heddle.controller.dashboard.publisher import Publisher
from heddle.controller.dashboard.pulse import Pulse
from heddle.controller.dashboard.recent import Recent
from heddle.controller.dashboard.routes import MEDIA_TYPE, Renderer
from heddle.controller.dashboard.sources import Sources
from heddle.controller.dashboard.stream import Streams
from heddle.controller.runtime.limits.limited import Limit


class Dashboard:
    """The HTTP interface of one control loop."""

    def __init__(
        self,
        sources: Sources,
        read_jobs: ReadJobs,
        rules: AccessRules | None = None,
        tls: PageTls | None = None,
        audit: Audit | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """Serve to callers within `rules`, by default to anyone on loopback; `read_jobs` reads a jobs file's text.

        One of several controllers, in a `cluster`, serves metrics and health alone while it waits.
        """
        self._audit = audit or Audit(sources.feeds.telemetry, time.time_ns)
        self._sources, self._tls = sources, tls
        self._logins = Logins(rules or AccessRules(), time.monotonic)
        self._publisher, self._pulse = Publisher(sources), Pulse(sources.loop)
        self._recent = Recent(sources.feeds.telemetry)
        self._streams = Streams(self._publisher)
        self._renderer = Renderer()
        self._actions = Actions(sources, self._renderer, read_jobs, self._audit)
        self._documents = Interface(
            sources, self._pulse, self._recent, self._publisher.boot, self._http_counts
        ).documents()
        self._cluster = cluster
        self.http = HttpServer(self._pages(), self._routes(), guard=self._guarded, refuse=refuse)

    def _guarded(self, application: ASGIApp) -> ASGIApp:
        if self._cluster is not None:
            application = while_waiting(application, self._cluster.leadership)
        return Guard(application, self._logins)

    async def listen(self, host: str, port: int) -> int:
        """Listen and return the port; raises OSError where the address is taken."""
        return await self.http.start(host, port, self._tls)

    def begin(self) -> None:
        """Follow the loop, which runs now."""
        for part in (self._publisher, self._pulse, self._recent):
            part.start()

    async def start(self, host: str, port: int) -> int:
        """Listen, follow the loop, and return the port; raises OSError where the address is taken."""
        bound = await self.listen(host, port)
        self.begin()
        return bound

    async def close(self) -> None:
        """Stop listening, and end every stream."""
        for part in (self._publisher, self._pulse, self._recent):
            await part.close()
        await self.http.close()
        self._renderer.close()

    def _routes(self) -> list[BaseRoute]:
        return [
            *page_routes(),
            *self._renderer.routes(self._documents),
            *SessionRoutes(self._logins).routes(),
            *self._actions.routes(),
            Route("/api/state", self._state, methods=["GET"]),
            Route("/api/stream", self._streams.endpoint, methods=["GET"]),
            Route("/api/openapi.json", self._openapi, methods=["GET"]),
        ]

    async def _state(self, request: Request) -> Response:
        update = await self._publisher.current()
        return PiecedResponse(update.text, headers=NO_STORE, media_type=MEDIA_TYPE)

    async def _openapi(self, request: Request) -> Response:
        text = await self._renderer.run(openapi_text, self._documents)
        return Response(text, headers=NO_STORE, media_type=MEDIA_TYPE)

    def _http_counts(self) -> HttpCounts:
        refused = self.http.counts["refused_connections"] + self._streams.counts["refused_streams"]
        return {"clients": self._publisher.readers, "refused": refused}

    def _http_limited(self) -> Counter[Limit]:
        counts = self.http.counts
        return Counter({
            Limit.WEB_CONNECTIONS: counts["refused_connections"] + self._streams.counts["refused_streams"],
            Limit.WEB_GAVE_WAY: counts["gave_way"],
            Limit.WEB_TIMEOUT: counts["timeouts"],
        })  # fmt: skip

    def _pages(self) -> Mapping[str, Render]:
        return {"/metrics": self._metrics, "/healthz": self._health}

    async def _metrics(self) -> Page:
        cluster = self._cluster
        of_cluster = cluster_lines(cluster) if cluster is not None else ()
        if cluster is not None and not cluster.leadership.may_act():  # what it knows of the fabric is of no use
            return Page(CONTENT_TYPE, "".join(of_cluster))
        loop, checked = self._sources.loop, dict(self._sources.attached.gateways.checked)
        text = metrics.metrics_text(self._sources, self._http_limited(), self._audit.lost)
        isolation = isolation_lines(loop.state.networks, checked, loop.now_unix_ms())
        return Page(CONTENT_TYPE, chain(of_cluster, text, isolation))

    async def _health(self) -> Page:
        return health_page(self._cluster.leadership) if self._cluster is not None else Page("text/plain", "ok\n")

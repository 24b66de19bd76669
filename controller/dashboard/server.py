"""The pages of `heddle run`: what one loop's state looks like over HTTP."""

from collections.abc import Mapping
from http import HTTPStatus

from controller.dashboard import metrics, page
from controller.dashboard.exposition import CONTENT_TYPE
from controller.dashboard.http import Answer, Page
from controller.runtime.loop import Loop


class Dashboard:
    """Writes a loop's pages as they are asked for."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def pages(self) -> Mapping[str, Page]:
        """Return what is served, by path."""
        return {"/": self._page, "/metrics": self._metrics, "/healthz": self._health}

    async def _page(self) -> Answer:
        return Answer(HTTPStatus.OK, page.CONTENT_TYPE, page.page_text(self._loop.state))

    async def _metrics(self) -> Answer:
        loop = self._loop
        return Answer(
            HTTPStatus.OK, CONTENT_TYPE, metrics.metrics_text(loop.state, loop.telemetry, loop.refused_events)
        )

    async def _health(self) -> Answer:
        return Answer(HTTPStatus.OK, "text/plain", "ok\n")

"""The pages of `heddle run`: what one loop's state looks like over HTTP."""

import asyncio
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
        self._scraping = asyncio.Lock()

    def pages(self) -> Mapping[str, Page]:
        """Return what is served, by path."""
        return {"/": self._page, "/metrics": self._metrics, "/healthz": self._health}

    async def _page(self) -> Answer:
        return Answer(HTTPStatus.OK, page.CONTENT_TYPE, page.page_text(self._loop.state))

    async def _metrics(self) -> Answer:
        """Write the metrics in a thread, one scrape at a time: those of 10,000 ports are tens of megabytes."""
        loop = self._loop
        async with self._scraping:
            text = await asyncio.to_thread(metrics.metrics_text, loop.state, loop.telemetry, loop.refused_events)
        return Answer(HTTPStatus.OK, CONTENT_TYPE, text)

    async def _health(self) -> Answer:
        return Answer(HTTPStatus.OK, "text/plain", "ok\n")

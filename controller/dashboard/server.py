"""The pages of `heddle run`: an overview, the metrics and a health check."""

from collections.abc import Mapping

from controller.dashboard import metrics, page
from controller.dashboard.exposition import CONTENT_TYPE
from controller.dashboard.http import Page, Render
from controller.runtime.loop import Loop


class Dashboard:
    """Renders the state of one control loop as pages."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def pages(self) -> Mapping[str, Render]:
        """Return the function that renders each path."""
        return {"/": self._page, "/metrics": self._metrics, "/healthz": self._health}

    async def _page(self) -> Page:
        return Page(page.CONTENT_TYPE, page.page_text(self._loop.state))

    async def _metrics(self) -> Page:
        loop = self._loop
        text = metrics.metrics_text(
            loop.state, loop.telemetry, loop.refused_events, loop.previews, loop.unrecorded, loop.reported
        )
        return Page(CONTENT_TYPE, text)

    async def _health(self) -> Page:
        return Page("text/plain", "ok\n")

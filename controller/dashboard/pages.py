"""Serve the page: one HTML file for the URL of every view, and its style and modules under /static."""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from heddle.controller.dashboard.routes import error_response

STATIC = Path(__file__).parent / "static"
VIEWS = (
    "/",
    "/fabric",
    "/matrix",
    "/jobs",
    "/jobs/{job_id}",
    "/congestion",
    "/timeline",
    "/networks",
    "/health",
    "/login",
)
"""The URLs of the views: the page's own code reads which it is, and what it shows, from the address."""


def page_routes() -> list[BaseRoute]:
    """Return the routes of the page and its files."""
    files = StaticFiles(directory=STATIC, check_dir=False)
    return [*(Route(path, _page, methods=["GET"]) for path in VIEWS), Mount("/static", files)]


async def _page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})


async def refuse(request: Request, error: Exception) -> Response:
    """Refuse what no route serves: as JSON under /api, else as a short page."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    path = request.url.path
    if path.startswith("/api/"):
        what = (
            "there is no such document; /api/openapi.json lists all"
            if status == 404
            else f"{request.method} is not for this"
        )
        return error_response(status, what)
    text = (STATIC / "missing.html").read_text() if (STATIC / "missing.html").exists() else _MISSING
    return Response(text, status, {"cache-control": "no-store"}, "text/html")


_MISSING = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Heddle: no such page</title>\
<h1>No such page</h1><p>There is nothing under this address. <a href="/fabric">The fabric</a></p></html>\n'

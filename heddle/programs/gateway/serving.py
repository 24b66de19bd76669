"""Run a gateway or a balancer until its process is to end."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from heddle.controller.config.access import is_loopback
from heddle.controller.dashboard.exposition import CONTENT_TYPE
from heddle.controller.dashboard.http import HttpServer, Page
from heddle.controller.model.error import PrerequisiteError
from heddle.controller.model.server_address import address_text
from heddle.controller.runtime.limits.exposure import warned
from heddle.dataplane.control.gateway import Gateway
from heddle.dataplane.control.heartbeats import address_of
from heddle.dataplane.control.status_socket import StatusServer, socket_path
from heddle.dataplane.control.supervisor import DataProcessError


async def serve(
    gateway: Gateway, kind: str, edges: Callable[[], AbstractAsyncContextManager[dict[str, str]]],
    work: Callable[[], Coroutine[Any, Any, None]], ended: asyncio.Event,
) -> None:  # fmt: skip
    """Start the data process, print the ready line, and run until `ended` is set.

    `kind` is gateway or balancer. `edges` opens the sockets that others connect to and yields their addresses; `work`
    runs while packets are forwarded. Raises PrerequisiteError where the data process cannot start.
    """
    name = gateway.local.gateway_id
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(gateway.stop)
        starting = asyncio.create_task(gateway.start())
        await _first(starting, ended)
        if not starting.done():
            await _cancel(starting)
            return
        try:
            ready = starting.result()
        except DataProcessError as error:
            raise PrerequisiteError(f"{kind} {name}: {error}") from None
        addresses = await stack.enter_async_context(edges())
        working = asyncio.create_task(work())
        stack.push_async_callback(_cancel, working)
        print(json.dumps({"ready": True, f"{kind}_id": name, "backend": ready.backend, **addresses}), flush=True)
        await _first(working, ended)
        if working.done():
            working.result()


@contextlib.asynccontextmanager
async def status_edges(
    kind: str, name: str, runtime_dir: Path, metrics: str, status: Callable[[], dict[str, Any]],
    metrics_text: Callable[[dict[str, Any]], str],
) -> AsyncIterator[dict[str, str]]:  # fmt: skip
    """Open the metrics endpoint and the status socket; yield their addresses for the ready line.

    `kind` is gateway or balancer, `metrics` the endpoint's address. Raises PrerequisiteError that names the key of the
    file whose address or directory cannot be used.
    """

    async def page() -> Page:
        return Page(CONTENT_TYPE, metrics_text(status()))

    path = socket_path(runtime_dir, name)
    http, socket = HttpServer({"/metrics": page}), StatusServer(path, status)
    host, port = address_of(metrics)
    place = f"metrics: {metrics}"
    try:
        bound = await http.start(host, port)
        place = f"runtime_dir: {runtime_dir}"
        await socket.open()
    except OSError as error:
        await http.close()
        raise PrerequisiteError(f"{kind} {name}: {place}: {error.strerror or error}") from None
    try:
        with warned({} if is_loopback(host) else {"metrics": metrics}):
            yield {"metrics": address_text(host, bound), "window": str(path)}
    finally:
        await socket.close()
        await http.close()


async def _first(task: "asyncio.Task[Any]", ended: asyncio.Event) -> None:
    """Wait until the task is done or the service is to end."""
    waiting = asyncio.create_task(ended.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    await _cancel(waiting)


async def _cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

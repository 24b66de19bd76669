"""Run a gateway or a balancer until its process is to end: what the two programs have in common."""

import asyncio
import contextlib
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from heddle.controller.config.access import is_loopback
from heddle.controller.config.gateways.gateway_file import GatewayConfig
from heddle.controller.dashboard.exposition import CONTENT_TYPE
from heddle.controller.dashboard.http import HttpServer, Page
from heddle.controller.model.error import HeddleError, InputError, PrerequisiteError
from heddle.controller.model.server_address import address_text
from heddle.controller.runtime.limits.exposure import warned
from heddle.dataplane.control.gateway import Gateway
from heddle.dataplane.control.heartbeats import address_of
from heddle.dataplane.control.pair.duties import ALONE, PairWork, work_of
from heddle.dataplane.control.pairing import Pairing
from heddle.dataplane.control.process.messages import Options
from heddle.dataplane.control.process.supervisor import DataProcessError
from heddle.dataplane.control.session.attachment import Apply, Attachment, Sources
from heddle.dataplane.control.status_socket import StatusServer, socket_path
from heddle.programs.ending import end_service
from heddle.v1 import heddle_pb2 as pb

Made = TypeVar("Made", bound=Gateway)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Generic[Made]):
    """What differs between the two programs."""

    kind: str
    """gateway or balancer, in messages and names."""
    make: Callable[[Options, PairWork], Made]
    """Raises ValueError for a configuration that is not valid."""
    status: Callable[[Made], dict[str, Any]]
    metrics_text: Callable[[Mapping[str, Any]], str]
    session: Callable[[Made], tuple[pb.GatewayHello, Apply, Sources]]
    """Of the session with a controller."""
    file: Path | None
    """The file that SIGHUP reads again; None: none."""
    reread: Callable[[Made, Path], Awaitable[int | None]]
    """Serve by the file as it is; return the generation, or None where it was refused and logged."""


def run_service(service: Service[Made], config: GatewayConfig) -> None:
    """Run a program until SIGINT or SIGTERM; raises HeddleError if it cannot start.

    SIGHUP re-reads the service's file; an invalid one changes nothing and is reported on standard error.
    """
    logging.basicConfig(
        stream=sys.stderr, level=config.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    asyncio.run(_serve(service, config))
    end_service()


async def _serve(service: Service[Made], config: GatewayConfig) -> None:
    """Start the data process, print the ready line, and run until a signal; raises PrerequisiteError."""
    ended, reread = asyncio.Event(), asyncio.Event()
    running = asyncio.get_running_loop()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(wanted, ended.set)
    running.add_signal_handler(signal.SIGHUP, reread.set)
    options = Options(backend=config.backend, busy_poll=config.busy_poll, cpu=config.cpu)
    try:
        pair = config.partner
        made = service.make(options, ALONE if pair is None else work_of(config.local, pair, frozenset()))
    except ValueError as error:
        raise InputError(*str(error).splitlines()) from None
    name = config.local.gateway_id
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(made.stop)
        starting = asyncio.create_task(made.start())
        await _first(starting, ended)
        if not starting.done():
            await _cancel(starting)
            return
        try:
            ready = starting.result()
        except DataProcessError as error:
            raise PrerequisiteError(f"{service.kind} {name}: {error}") from None
        addresses = await stack.enter_async_context(_status_edges(service, config, made))
        working = asyncio.create_task(_work(service, config, made, reread))
        stack.push_async_callback(_cancel, working)
        ready_line = {"ready": True, f"{service.kind}_id": name, "backend": ready.backend, **addresses}
        print(json.dumps(ready_line), flush=True)
        await _first(working, ended)
        if working.done():
            working.result()


async def _work(service: Service[Made], config: GatewayConfig, made: Made, reread: asyncio.Event) -> None:
    """Run the control process's tasks while the data process forwards."""
    place = f"{service.kind} {config.local.gateway_id}"
    try:
        pairing = Pairing(made, config.partner) if config.partner is not None else None
    except OSError as error:
        raise PrerequisiteError(f"{place}: partner.paths: {error.strerror or error}") from None
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(made.run())
            if pairing is not None:
                tasks.create_task(pairing.run())
            if service.file is not None:
                tasks.create_task(_reload(service, made, service.file, reread))
            if config.controller is not None:
                session = Attachment(config.controller, *service.session(made), tls=config.tls)
                tasks.create_task(session.run())
    except* OSError as faults:
        raise PrerequisiteError(f"{place}: {faults.exceptions[0]}") from None
    finally:
        if pairing is not None:
            await pairing.leave()


async def _reload(service: Service[Made], made: Made, file: Path, reread: asyncio.Event) -> None:
    """Re-read the file and apply it whenever `reread` is set."""
    log = logging.getLogger(f"heddle.{service.kind}")
    while True:
        await reread.wait()
        reread.clear()
        try:
            generation = await service.reread(made, file)
            if generation is not None:
                await made.in_use(generation)
                log.info("%s is served as read anew: generation %d", file, generation)
        except (HeddleError, ValueError) as error:
            for line in str(error).splitlines():
                log.error("%s; what was served before goes on", line)


@contextlib.asynccontextmanager
async def _status_edges(service: Service[Made], config: GatewayConfig, made: Made) -> AsyncIterator[dict[str, str]]:
    """Open the metrics endpoint and the status socket; yield their addresses for the ready line.

    Raises PrerequisiteError that names the key of the file whose address or directory cannot be used.
    """

    async def page() -> Page:
        return Page(CONTENT_TYPE, service.metrics_text(service.status(made)))

    path = socket_path(config.runtime_dir, config.local.gateway_id)
    http, socket = HttpServer({"/metrics": page}), StatusServer(path, lambda: service.status(made))
    host, port = address_of(config.metrics)
    place = f"metrics: {config.metrics}"
    try:
        bound = await http.start(host, port)
        place = f"runtime_dir: {config.runtime_dir}"
        await socket.open()
    except OSError as error:
        await http.close()
        fault = f"{service.kind} {config.local.gateway_id}: {place}: {error.strerror or error}"
        raise PrerequisiteError(fault) from None
    try:
        with warned({} if is_loopback(host) else {"metrics": config.metrics}):
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

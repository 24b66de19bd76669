"""`heddle run`: the controller as a service."""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from heddle.controller.app import Application
from heddle.controller.config import load_fabric
from heddle.controller.config.service import ServiceConfig, load_service, printed
from heddle.controller.model.cabling import CablingPolicy
from heddle.controller.model.error import InputError, SteppedDownError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.found_cabling import as_described
from heddle.controller.runtime.fabric_apply import FabricChangedError, Life
from heddle.controller.runtime.interpreter import shorten_pauses
from heddle.controller.runtime.journal.fitting import check_jobs, in_force
from heddle.controller.runtime.leadership import ClusterCounts
from heddle.controller.runtime.limits.log_limit import SUMMARY_S, LogLimit
from heddle.controller.store.etcd.identity.memory import Memory, file_in
from heddle.controller.store.state_directory import NONE, default_directory, has_journal, read
from heddle.programs.ending import end_service

_LOG = logging.getLogger("heddle.controller")


def run_controller(
    fabric_path: Path | None,
    config_path: Path | None,
    *,
    openflow: str | None,
    grpc: str | None,
    http: str | None,
    state: str | None,
    insecure: bool,
    print_config: bool,
) -> None:
    """Run until SIGINT or SIGTERM (SIGHUP where there is no policy file); raises HeddleError where it cannot start."""
    if print_config:
        sys.stdout.write(printed())
        return
    config = load_service(config_path, openflow=openflow, grpc=grpc, http=http, state=state, insecure=insecure)
    if config.state is None and not config.cluster.is_on:
        config = config.model_copy(update={"state": str(default_directory())})
    logging.basicConfig(
        stream=sys.stderr, level=config.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    with _limited_log() as limit:
        first, counts = _first_fabric(fabric_path, config), ClusterCounts()
        memory = _memory(config, first.name)

        def made(config: ServiceConfig, life: Life) -> Application:
            application = Application(
                life.fabric, config, planner=life.planner, compiler=life.compiler, counts=counts, memory=memory,
                initial=life.initial,
            )  # fmt: skip
            application.suppressed_lines = lambda: limit.suppressed
            return application

        asyncio.run(_serve(made, config, limit, Life(fabric=first)))
    end_service()


def _first_fabric(path: Path | None, config: ServiceConfig) -> Fabric:
    """Return the fabric to begin with: that of the file, which is to be the one in force where jobs run on that.

    Without a file it is the one in force, with which the journal was written last. That has cables as they were found
    where these are followed, or jobs use them. Raises InputError.
    """
    directory = Path(config.state) if config.state not in (None, NONE) else None
    stored = read(directory) if directory is not None and has_journal(directory) else {}
    try:
        kept = in_force(stored)
    except ValueError as wrong:
        raise InputError(f"{directory}: {wrong}: `heddle state restore`") from None
    if path is None:
        if kept is None:
            raise InputError("FABRIC is missing: heddle run FABRIC (or --print-config)")
        return kept
    fabric = load_fabric(path)
    if kept is None or as_described(kept) != fabric:
        if kept is not None:
            check_jobs(str(path), stored)
            _LOG.info("%s is not the fabric of the last start; no job runs, so it is in force", path)
        return fabric
    follows = config.cabling == CablingPolicy.FOLLOW or any(kind == "job" for kind, _ in stored)
    return kept if follows else fabric


def _memory(config: ServiceConfig, fabric: str) -> Memory:
    """Return what one of several controllers remembers of its etcd; raises HeddleError."""
    wanted = config.cluster.memory
    if config.cluster.name is None or wanted == NONE:
        return Memory()
    return Memory(file_in(Path(wanted) if wanted else default_directory(), fabric, config.cluster.name))


@contextmanager
def _limited_log() -> Iterator[LogLimit]:
    """Limit the lines of each handler of the log, until the controller ends: a program may run several in turn."""
    limit, handlers = LogLimit(), list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(limit)
    try:
        yield limit
    finally:
        limit.summarise()
        for handler in handlers:
            handler.removeFilter(limit)


async def _serve(
    made: Callable[[ServiceConfig, Life], Application], config: ServiceConfig, limit: LogLimit, life: Life
) -> None:
    ended, reload = asyncio.Event(), asyncio.Event()
    running = asyncio.get_running_loop()

    def end(wanted: signal.Signals) -> None:
        _LOG.info("%s: ending", wanted.name)
        ended.set()

    for wanted in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if wanted is not signal.SIGHUP or signal.getsignal(wanted) is not signal.SIG_IGN:  # nohup ignores it
            running.add_signal_handler(wanted, end, wanted)
    if config.policy is not None:
        running.add_signal_handler(signal.SIGHUP, reload.set)
    waiting, summing = asyncio.create_task(ended.wait()), asyncio.create_task(_summarise(limit))
    is_first = True
    former: Application | None = None
    try:
        while not ended.is_set():
            application, life = made(config, life), Life(fabric=life.fabric)
            async with application.started(hands_over=True) as addresses:
                if former is not None:
                    await former.end_calls()
                    former = None
                shorten_pauses(collects=is_first)
                if is_first:
                    print(json.dumps({"ready": True, **addresses}), flush=True)
                    config, is_first = config.model_copy(update=addresses), False
                life = await _until_the_next(application, life, waiting, reload)
            former = application if application.left_open else None
    finally:
        if former is not None:
            await former.end_calls()
    waiting.cancel()
    summing.cancel()


async def _until_the_next(
    application: Application, life: Life, ended: asyncio.Task[bool], reload: asyncio.Event
) -> Life:
    """Wait for the end of a life, or of all; return what the next one begins with. Raises what ends the controller."""
    failing = asyncio.create_task(application.failed())
    reloading = asyncio.create_task(_reload(application, reload))
    await asyncio.wait({ended, failing, reloading}, return_when=asyncio.FIRST_COMPLETED)
    if not reloading.cancel():
        reloading.result()  # a fault of the controller
    if not failing.done():
        failing.cancel()
    try:
        await failing
    except asyncio.CancelledError:
        pass
    except FabricChangedError as changed:
        _LOG.info("%s: the next life of this controller begins", changed)
        return changed.life
    except SteppedDownError as why:  # of several controllers: it waits again, with nothing of before
        _LOG.warning("this controller leads no longer: %s", why)
    return life


async def _summarise(limit: LogLimit) -> None:
    """Log once a minute what the limit of log lines has left out."""
    while True:
        await asyncio.sleep(SUMMARY_S)
        limit.summarise()


async def _reload(application: Application, wanted: asyncio.Event) -> None:
    """Read the policy file again whenever `wanted` is set."""
    while await wanted.wait():
        wanted.clear()
        await application.reload_policy()

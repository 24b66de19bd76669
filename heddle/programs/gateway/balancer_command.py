"""The program `heddle balancer`: run one balancer, and show the status of a running one."""

import asyncio
import json
import logging
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from heddle.controller.model.error import HeddleError, InputError, NotFoundError, PrerequisiteError
from heddle.dataplane.balancer.compiler.archive import packed
from heddle.dataplane.control.balancer import Balancer
from heddle.dataplane.control.messages import Options
from heddle.dataplane.control.pair.duties import ALONE, work_of
from heddle.dataplane.control.pairing import Pairing
from heddle.dataplane.control.session.attachment import Attachment
from heddle.dataplane.control.session.membership import (
    balancer_applier_for,
    balancer_hello_of,
    counters_of,
    tables_reader_for,
)
from heddle.dataplane.control.status_socket import StatusSocketError, read_status, socket_path
from heddle.programs.console import show as screen
from heddle.programs.gateway.balancer_file import BalancerFile, load_balancer_file
from heddle.programs.gateway.balancer_metrics import balancer_text
from heddle.programs.gateway.serving import serve, status_edges

log = logging.getLogger("heddle.balancer")


def run_balancer(config: BalancerFile, path: Path) -> None:
    """Run a balancer until SIGINT or SIGTERM; raises HeddleError if it cannot start.

    SIGHUP re-reads the file's VPCs and load balancers; an invalid file changes nothing and is reported.
    """
    logging.basicConfig(
        stream=sys.stderr, level=config.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    asyncio.run(_serve(config, path))
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


async def _serve(config: BalancerFile, path: Path) -> None:
    ended, reread = asyncio.Event(), asyncio.Event()
    running = asyncio.get_running_loop()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(wanted, ended.set)
    running.add_signal_handler(signal.SIGHUP, reread.set)
    options = Options(backend=config.backend, busy_poll=config.busy_poll, cpu=config.cpu)
    try:
        work = ALONE if config.partner is None else work_of(config.local, config.partner, frozenset())
        balancer = Balancer(config.local, options, config.services, work=work, paired=config.partner is not None)
    except ValueError as error:
        raise InputError(*str(error).splitlines()) from None
    edges = partial(
        status_edges, "balancer", config.local.gateway_id, config.runtime_dir, config.metrics,
        partial(status_of, balancer), balancer_text,
    )  # fmt: skip
    await serve(balancer, "balancer", edges, lambda: _work(config, balancer, path, reread), ended)


async def _work(config: BalancerFile, balancer: Balancer, path: Path, reread: asyncio.Event) -> None:
    """Run the control process's tasks while the data process forwards."""
    try:
        pairing = Pairing(balancer, config.partner) if config.partner is not None else None
    except OSError as error:
        raise PrerequisiteError(f"balancer {config.local.gateway_id}: partner.paths: {error.strerror}") from None
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(balancer.run())
            tasks.create_task(_reload(balancer, path, reread))
            if pairing is not None:
                tasks.create_task(pairing.run())
            if config.controller is not None:
                tasks.create_task(_attachment(config, config.controller, balancer).run())
    finally:
        if pairing is not None:
            await pairing.leave()


def _attachment(config: BalancerFile, server: str, balancer: Balancer) -> Attachment:
    """Return the session with the controller."""

    def counters() -> Any:
        found = counters_of(config.local, balancer.status(), balancer.wanted.work.active)
        found.balancer.update(balancer.counts())
        return found

    return Attachment(
        server,
        balancer_hello_of(config.local, config.partner, config.sites),
        balancer_applier_for(balancer, config.sites),
        counters,
        tables_reader_for(balancer, packed),
        notices=balancer.notices,
        health=balancer.health,
        tls=config.tls,
    )


async def _reload(balancer: Balancer, path: Path, reread: asyncio.Event) -> None:
    """Re-read the file and apply it whenever `reread` is set."""
    while True:
        await reread.wait()
        reread.clear()
        try:
            newer = await asyncio.to_thread(load_balancer_file, path)
            if newer.controller is not None:
                log.error("%s: vpcs and load_balancers come from the controller; nothing is read anew", path)
                continue
            if newer.local != balancer.local:
                log.error("%s: only vpcs, load_balancers, sites and gateways can change while it runs", path)
                continue
            generation = await balancer.serve_services(newer.services)
            await balancer.in_use(generation)
            log.info("%s is served as read anew: generation %d", path, generation)
        except (HeddleError, ValueError) as error:
            for line in str(error).splitlines():
                log.error("%s; what was served before goes on", line)


def status_of(balancer: Balancer) -> dict[str, Any]:
    """Return the whole status as JSON values."""
    return {**balancer.status().as_json(), **balancer.services_status()}


def show_balancer(balancer_id: str, runtime_dir: Path, *, as_json: bool) -> None:
    """Print the status of a running balancer; raises NotFoundError if it does not reply."""
    try:
        found = read_status(socket_path(runtime_dir, balancer_id))
    except StatusSocketError as error:
        raise NotFoundError(str(error)) from None
    if as_json:
        print(json.dumps(found))
        return
    console, counts = screen.console(), found["balancer"]
    backend = found["backend"] or "no data process"
    console.print(
        f"{balancer_id}: {backend}, generation {found['generation_in_use']} of {found['generation_offered']}, "
        f"{found['restarts']} restarts"
    )
    for service in counts["services"]:
        where = f"{service['vpc']} {service['vip']} port {service['port']} {service['protocol']}, {service['mode']}"
        console.print(f"{service['id']}: {where}")
        for end in service["back_ends"]:
            state = "up" if end["up"] else "down"
            draining = ", draining" if end["draining"] else ""
            console.print(f"  {end['ip']} port {end['port']}: {state}, weight {end['weight']}{draining}")
    for name, table in found["tables"].items():
        console.print(f"{name.replace('_', ' ')}: {table['used']:,} of {table['room']:,}")
    for name in ("new", "refused", "untracked", "displaced", "moved", "expired", "echoed"):
        console.print(f"{name}: {counts[name]:,}")
    for title, rows in (("dropped", found["drops"]), ("punted", found["punts"]), ("slow path", found["slow_path"])):
        for name, count in rows.items():
            console.print(f"{title}: {name.replace('_', ' ')} {count:,}")
    console.print(f"received and injected {found['received']:,}, sent, dropped and punted {found['ended']:,}")

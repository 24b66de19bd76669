"""The program `heddle gateway`: run one VPC gateway, and show the status of a running one."""

import asyncio
import json
import logging
import os
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from heddle.controller.config.network_file import load_network
from heddle.controller.model.error import HeddleError, InputError, NotFoundError, PrerequisiteError
from heddle.dataplane.config.network import NetworkConfig
from heddle.dataplane.control.gateway import Gateway, Wanted
from heddle.dataplane.control.messages import Options
from heddle.dataplane.control.pair.duties import ALONE, work_of
from heddle.dataplane.control.pairing import Pairing
from heddle.dataplane.control.session.attachment import Attachment
from heddle.dataplane.control.session.membership import applier_for, counters_of, hello_of, tables_reader_for
from heddle.dataplane.control.status_socket import StatusSocketError, read_status, socket_path
from heddle.programs.console import show as screen
from heddle.programs.gateway.gateway_file import GatewayConfig
from heddle.programs.gateway.gateway_metrics import gateway_text
from heddle.programs.gateway.serving import serve, status_edges

log = logging.getLogger("heddle.gateway")


def run_gateway(config: GatewayConfig, network_file: Path | None) -> None:
    """Run a gateway until SIGINT or SIGTERM; raises HeddleError if it cannot start.

    SIGHUP re-reads the network file; an invalid one changes nothing and is reported on standard error.
    """
    network = NetworkConfig() if network_file is None else load_network(network_file)
    logging.basicConfig(
        stream=sys.stderr, level=config.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    asyncio.run(_serve(config, network, network_file))
    # Everything is closed and logged. Interpreter shutdown would take 0.5 s to free compiled code page by page.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


async def _serve(config: GatewayConfig, network: NetworkConfig, network_file: Path | None) -> None:
    ended, reread = asyncio.Event(), asyncio.Event()
    running = asyncio.get_running_loop()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(wanted, ended.set)
    running.add_signal_handler(signal.SIGHUP, reread.set)
    options = Options(backend=config.backend, busy_poll=config.busy_poll, cpu=config.cpu)
    pair = config.partner
    work = ALONE if pair is None else work_of(config.local, pair, frozenset())
    try:
        gateway = Gateway(config.local, options, Wanted(network=network, work=work), paired=pair is not None)
    except ValueError as error:
        raise InputError(*str(error).splitlines()) from None
    edges = partial(
        status_edges, "gateway", config.local.gateway_id, config.runtime_dir, config.metrics,
        lambda: gateway.status().as_json(), gateway_text,
    )  # fmt: skip
    await serve(gateway, "gateway", edges, lambda: _work(config, gateway, network_file, reread), ended)


async def _work(config: GatewayConfig, gateway: Gateway, network_file: Path | None, reread: asyncio.Event) -> None:
    """Run the control process's tasks while the data process forwards."""
    local, pair = config.local, config.partner
    try:
        pairing = Pairing(gateway, pair) if pair is not None else None
    except OSError as error:
        raise PrerequisiteError(f"gateway {local.gateway_id}: partner.paths: {error.strerror or error}") from None
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(gateway.run())
            if pairing is not None:
                tasks.create_task(pairing.run())
            if network_file is not None:
                tasks.create_task(_reload(gateway, network_file, reread))
            if config.controller is not None:
                attachment = Attachment(
                    config.controller,
                    hello_of(local, pair),
                    applier_for(gateway),
                    lambda: counters_of(local, gateway.status(), gateway.wanted.work.active),
                    tables_reader_for(gateway),
                    notices=gateway.notices,
                    tls=config.tls,
                )
                tasks.create_task(attachment.run())
    except* OSError as faults:
        raise PrerequisiteError(f"gateway {local.gateway_id}: {faults.exceptions[0]}") from None
    finally:
        if pairing is not None:
            await pairing.leave()


async def _reload(gateway: Gateway, network_file: Path, reread: asyncio.Event) -> None:
    """Re-read the network file and apply it whenever `reread` is set."""
    while True:
        await reread.wait()
        reread.clear()
        try:
            network = await asyncio.to_thread(load_network, network_file)
            newer = replace(network, generation=gateway.wanted.network.generation + 1)
            generation = await gateway.serve(partial(replace, network=newer))
            await gateway.in_use(generation)
            log.info("%s is served as read anew: generation %d", network_file, generation)
        except (HeddleError, ValueError) as error:
            for line in str(error).splitlines():
                log.error("%s; what was served before goes on", line)


def show_gateway(gateway_id: str, runtime_dir: Path, *, as_json: bool) -> None:
    """Print the status of a running gateway; raises NotFoundError if it does not reply."""
    try:
        found = read_status(socket_path(runtime_dir, gateway_id))
    except StatusSocketError as error:
        raise NotFoundError(str(error)) from None
    if as_json:
        print(json.dumps(found))
        return
    console = screen.console()
    generations = f"generation {found['generation_in_use']} of {found['generation_offered']}"
    backend = found["backend"] or "no data process"
    ports = Table(title=f"{found['gateway_id']}: {backend}, {generations}, {found['restarts']} restarts")
    names = ("rx_packets", "rx_injected", "rx_fragments", "rx_missed", "tx_packets", "tx_failed", "dropped", "punted")
    for name in ("port", *names):
        ports.add_column(name.replace("_", " "), justify="left" if name == "port" else "right")
    for port, row in found["ports"].items():
        ports.add_row(port, *(f"{row[name]:,}" for name in names))
    console.print(ports)
    for title, rows in (("dropped", found["drops"]), ("punted", found["punts"]), ("slow path", found["slow_path"])):
        for name, count in rows.items():
            console.print(f"{title}: {name.replace('_', ' ')} {count:,}")
    for name, table in found["tables"].items():
        console.print(f"{name.replace('_', ' ')}: {table['used']:,} of {table['room']:,}")
    console.print(f"received, injected and made {found['received']:,}, sent, dropped and punted {found['ended']:,}")
    for line in _pair_lines(found["pair"]) if found["pair"] else ():
        console.print(line)


def _pair_lines(pair: dict[str, Any]) -> list[str]:
    """Return the status of a pair as text lines."""
    mine, its = (", ".join(pair[key]) or "nothing" for key in ("serves", "partner_serves"))
    heard = f"is heard and serves {its}" if pair["hears_partner"] else "is not heard"
    copies = [f"{'complete' if pair[key] else 'not complete'} {where}"
              for key, where in (("has_copy", "here"), ("partner_has_copy", "there"))]  # fmt: skip
    sent, received, refused = (pair[f"records_{what}"] for what in ("sent", "received", "refused"))
    return [
        f"{pair['mode']} with {pair['partner_id']}: serves {mine}; the partner {heard}",
        f"copies of connections: {copies[0]}, {copies[1]}; records sent {sent:,}, received {received:,}, refused "
        f"{refused:,}; begun {pair['copies_begun']:,}, anew {pair['copies_anew']:,}, stalls {pair['stalls']:,}, "
        f"faults {pair['faults']:,}",
        f"takeovers {pair['takeovers']:,}, conflicts {pair['conflicts']:,}; heartbeats ignored "
        f"{pair['heartbeats_ignored']:,}, refused {pair['heartbeats_refused']:,}",
    ]

"""The program `heddle gateway`: run one VPC gateway, and show the status of a running one."""

import asyncio
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from heddle.controller.config.gateways.gateway_file import GatewayConfig
from heddle.controller.config.network_file import load_network
from heddle.dataplane.config.network import NetworkConfig
from heddle.dataplane.control.gateway import Gateway, Wanted
from heddle.dataplane.control.session.attachment import Sources
from heddle.dataplane.control.session.membership import applier_for, counters_of, hello_of, tables_reader_for
from heddle.programs.console import show as screen
from heddle.programs.gateway.gateway_metrics import gateway_text
from heddle.programs.gateway.serving import Service, run_service
from heddle.programs.gateway.status_lines import deviation_lines, fate_lines, status_of, table_lines


def run_gateway(config: GatewayConfig, network_file: Path | None) -> None:
    """Run a gateway until SIGINT or SIGTERM; raises HeddleError if it cannot start. SIGHUP re-reads the network."""
    local, pair = config.local, config.partner
    network = NetworkConfig() if network_file is None else load_network(network_file)
    service: Service[Gateway] = Service(
        kind="gateway",
        make=lambda options, work: Gateway(local, options, Wanted(network=network, work=work), paired=pair is not None),
        status=lambda gateway: gateway.status().as_json(),
        metrics_text=gateway_text,
        session=lambda gateway: (
            hello_of(local, pair),
            applier_for(gateway, pair),
            Sources(
                counters=lambda: counters_of(local, gateway.status(), gateway.wanted.work.active),
                tables=tables_reader_for(gateway),
                notices=gateway.notices,
            ),
        ),
        file=network_file,
        reread=_reread,
    )
    run_service(service, config)


async def _reread(gateway: Gateway, network_file: Path) -> int:
    """Serve the network of the file; return the generation."""
    network = await asyncio.to_thread(load_network, network_file)
    newer = replace(network, generation=gateway.wanted.network.generation + 1)
    return await gateway.serve(partial(replace, network=newer))


def show_gateway(gateway_id: str, runtime_dir: Path, *, as_json: bool) -> None:
    """Print the status of a running gateway; raises NotFoundError if it does not reply."""
    found = status_of(gateway_id, runtime_dir)
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
    for line in (*deviation_lines(found), *fate_lines(found), *table_lines(found)):
        console.print(line)
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

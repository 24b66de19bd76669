"""The program `heddle balancer`: run one balancer, and show the status of a running one."""

import asyncio
import json
import logging
from pathlib import Path

from heddle.controller.config.gateways.balancer_file import BalancerFile, load_balancer_file
from heddle.dataplane.balancer.compiler.archive import packed
from heddle.dataplane.control.balancer import Balancer
from heddle.dataplane.control.session.attachment import Apply, Sources
from heddle.dataplane.control.session.membership import (
    balancer_applier_for,
    balancer_hello_of,
    counters_of,
    tables_reader_for,
)
from heddle.programs.console import show as screen
from heddle.programs.gateway.balancer_metrics import balancer_text
from heddle.programs.gateway.serving import Service, run_service
from heddle.programs.gateway.status_lines import deviation_lines, fate_lines, status_of, table_lines
from heddle.v1 import heddle_pb2 as pb

log = logging.getLogger("heddle.balancer")


def run_balancer(config: BalancerFile, path: Path) -> None:
    """Run a balancer until SIGINT or SIGTERM; raises HeddleError if it cannot start.

    SIGHUP re-reads the file's VPCs and load balancers.
    """
    paired = config.partner is not None
    service: Service[Balancer] = Service(
        kind="balancer",
        make=lambda options, work: Balancer(config.local, options, config.services, work=work, paired=paired),
        status=lambda balancer: {**balancer.status().as_json(), **balancer.services_status()},
        metrics_text=balancer_text,
        session=lambda balancer: _session(config, balancer),
        file=path,
        reread=_reread,
    )
    run_service(service, config)


def _session(config: BalancerFile, balancer: Balancer) -> tuple[pb.GatewayHello, Apply, Sources]:
    """Return what the session with the controller says and does."""

    def counters() -> pb.GatewayCounters:
        found = counters_of(config.local, balancer.status(), balancer.wanted.work.active)
        found.balancer.update(balancer.counts())
        return found

    return (
        balancer_hello_of(config.local, config.partner, config.sites),
        balancer_applier_for(balancer, config.sites),
        Sources(
            counters=counters,
            tables=tables_reader_for(balancer, packed),
            notices=balancer.notices,
            health=balancer.health,
        ),
    )


async def _reread(balancer: Balancer, path: Path) -> int | None:
    """Serve what the file says; return the generation, or None if something else in it has changed."""
    newer = await asyncio.to_thread(load_balancer_file, path)
    if newer.controller is not None:
        log.error("%s: vpcs and load_balancers come from the controller; nothing is read anew", path)
    elif newer.local != balancer.local:
        log.error("%s: only vpcs, load_balancers, sites and gateways can change while it runs", path)
    else:
        return await balancer.serve_services(newer.services)
    return None


def show_balancer(balancer_id: str, runtime_dir: Path, *, as_json: bool) -> None:
    """Print the status of a running balancer; raises NotFoundError if it does not reply."""
    found = status_of(balancer_id, runtime_dir)
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
            state = "up" if end["up"] else "closed, it answers no connection" if end["silent"] else "down"
            draining = ", draining" if end["draining"] else ""
            console.print(f"  {end['ip']} port {end['port']}: {state}, weight {end['weight']}{draining}")
    for line in table_lines(found):
        console.print(line)
    for name in ("new", "refused", "untracked", "displaced", "moved", "expired", "echoed"):
        console.print(f"{name}: {counts[name]:,}")
    for line in (*deviation_lines(found), *fate_lines(found)):
        console.print(line)
    console.print(f"received and injected {found['received']:,}, sent, dropped and punted {found['ended']:,}")

"""The program `heddle lab vpc`: build the lab, probe reachability, print the result, and run until Ctrl-C."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from heddle.controller.config.network_file import Network, load_network_file
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.dataplane.verify.report import Report
from heddle.mininet_topos.host.node_access import command_prefix_of, write_nodes
from heddle.mininet_topos.vpc.balanced import PORT, VIP, Requested, balanced, may_spread, request_all
from heddle.mininet_topos.vpc.description import MACHINES, NODES, VTEP_KINDS, network
from heddle.mininet_topos.vpc.reach import Row
from heddle.mininet_topos.vpc.served import ServedLab
from heddle.mininet_topos.vpc.table import (
    LEGEND,
    PIPED_WIDTH,
    UNSAFE,
    as_json,
    requests_as_json,
    requests_table,
    tables,
)

POLL_S = 0.5
MAX_DIFFERENCES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VpcLabOptions:
    """Options of the command line."""

    vteps: str
    gateways: int
    network: Network
    commands: tuple[tuple[str, ...], ...]
    """Node and command words of each --run."""
    once: bool
    as_json: bool


def options_of(
    *, vteps: str, gateways: int, file: Path | None, run: list[str], once: bool, as_json: bool
) -> VpcLabOptions:
    """Check the command line as a whole; raises InputError."""
    if vteps not in VTEP_KINDS:
        raise InputError(f"--vtep: {vteps!r} is none of {', '.join(VTEP_KINDS)}")
    names = [*NODES, *(machine.name for machine in MACHINES)]
    commands = []
    for text in run:
        words = tuple(text.split())
        if len(words) < 2 or words[0] not in names:
            raise InputError(f"--run: {text!r} is not a node and a command; the nodes are {', '.join(names)}")
        commands.append(words)
    if file is not None:
        wanted = load_network_file(file)
    else:
        wanted = balanced() if may_spread(VTEP_KINDS[vteps]) else Network(network(), ())
    return VpcLabOptions(
        vteps=vteps, gateways=gateways, network=wanted, commands=tuple(commands), once=once, as_json=as_json
    )


def run_vpc_lab(options: VpcLabOptions) -> bool:
    """Run the lab; return whether packets, tables and intents agree."""
    # A shell starts background processes with SIGINT ignored; the lab must end on it all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with _progress() as progress:
        lab = ServedLab(options.vteps, options.gateways, progress)
        begun = time.monotonic()
        with lab:
            if options.network.load_balancers:
                progress("web servers and the load balancer")
                lab.serve_web()
            progress("applying the tenants' VPCs")
            lab.apply(options.network.config, options.network.load_balancers)
            built_s = time.monotonic() - begun
            write_nodes(lab.lab.entry, {name: lab.lab.net.host(name).pid for name in _names(lab)})
            rows, asked_s = _probe(lab, progress)
            requests = _request(lab, options.network, progress)
            report = lab.verdict(options.network.config)
            progress("")
            agree = report.is_sound and _agree(rows, requests)
            _print(lab, options, rows, requests, report, {"built_s": built_s, "asked_s": asked_s})
            for node, *command in options.commands:
                _run_in(lab, node, command, options.as_json)
            if not options.once:
                _stay(lab, options.as_json)
            progress("removing the lab")
    return agree


def _names(lab: ServedLab) -> list[str]:
    return [host.name for host in lab.lab.net.mininet.hosts]


def _probe(lab: ServedLab, progress: Callable[[str], None]) -> tuple[list[Row], float]:
    progress("probing reachability")
    begun = time.monotonic()
    rows = lab.reach()
    return rows, time.monotonic() - begun


def _request(lab: ServedLab, network: Network, progress: Callable[[str], None]) -> list[Requested]:
    """Let clients send requests to the virtual IPs of the lab's own load balancers."""
    if not network.load_balancers:
        return []
    progress("requests by the load balancers")
    lab.await_healthy()
    return request_all(lab.lab, lab.tables("gw1"), network.load_balancers)


def _agree(rows: list[Row], requests: list[Requested]) -> bool:
    return all(row.agrees for row in rows) and all(each.agrees for each in requests)


def _print(
    lab: ServedLab, options: VpcLabOptions, rows: list[Row], requests: list[Requested], report: Report,
    seconds: Mapping[str, float],
) -> None:  # fmt: skip
    """Print the result as tables or as one JSON object."""
    if options.as_json:
        found: dict[str, Any] = {
            "lab": lab.lab.entry.id, "server": lab.server, "url": lab.url, "directory": str(lab.directory),
            "vteps": dict(lab.lab.vteps),
            "gateways": list(lab.gateway_ids), "agree": _agree(rows, requests),
            "isolation": {"sound": report.is_sound, "findings": [str(finding) for finding in report.findings]},
            **{name: round(value, 2) for name, value in seconds.items()}, "questions": as_json(rows),
            "requests": requests_as_json(requests),
        }  # fmt: skip
        print(json.dumps(found), flush=True)
        return
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)
    for table in tables(rows):
        console.print(table)
        console.print()
    console.print(LEGEND, style="dim", soft_wrap=True)
    if requests:
        console.print()
        console.print(requests_table(requests))
        console.print()
    elif options.network.load_balancers == () and not may_spread(lab.lab.vteps):
        console.print(UNSAFE, style="dim", soft_wrap=True)
    for line in summary(rows, report, seconds):
        console.print(line, markup=False, style="bold red" if "DIFFER" in line else "")
    if not options.once:
        _print_hints(lab, console)


def summary(rows: list[Row], report: Report, seconds: Mapping[str, float]) -> list[str]:
    """Return the summary lines below the tables."""
    differing = [row for row in rows if not row.agrees]
    reached = sum(1 for row in rows if row.packets)
    lines = [
        f"lab up in {seconds['built_s']:.1f} s; {len(rows)} probes by real packets in {seconds['asked_s']:.1f} s:"
        f" {reached} got a reply, {len(rows) - reached} none",
        f"packets and the gateway's tables {'DIFFER' if differing else 'agree'}"
        + (f" in {len(differing)} of them" if differing else " in all of them"),
        *(f"  {row}" for row in differing[:MAX_DIFFERENCES]),
        f"verify isolation: {report.vpcs} VPCs, {report.endpoints} endpoints: "
        + ("exactly the intended paths" if report.is_sound else f"{len(report.findings)} PATHS DIFFER"),
        *(f"  {finding}" for finding in report.findings[:MAX_DIFFERENCES]),
    ]
    return lines


def _print_hints(lab: ServedLab, console: Console) -> None:
    """Print commands with which to inspect the running lab."""
    lines = (
        ("a shell in a machine", "heddle lab exec red1 bash"),
        ("a host with Open vSwitch", "heddle lab exec h2 ovs-ofctl -O OpenFlow14 dump-flows vpc"),
        ("the page with its networks", f"{lab.url}networks"),
        ("the controller's VPCs", f"heddle vpc list --server {lab.server}"),
        ("a gateway's counters", f"heddle gateway show gw1 --runtime-dir {lab.directory}"),
        ("apply a network", f"heddle vpc apply FILE --server {lab.server}"),
        ("load balancers", f"heddle vpc balancers --server {lab.server}"),
        ("why a back end", f"heddle explain --vip red/{VIP}:{PORT} --from 10.0.1.3:40000 --server {lab.server}"),
    )
    console.print(f"\nlab {lab.lab.entry.id} runs until Ctrl-C; in another terminal:", markup=False)
    for what, command in lines:
        if lab.lab.switches or "ovs" not in command:
            console.print(f"  {what + ':':<27}{command}", markup=False, soft_wrap=True)


def _run_in(lab: ServedLab, node: str, command: list[str], quiet: bool) -> None:
    """Run a command in a node on this terminal; with --json its output goes to standard error."""
    entrance, environment = command_prefix_of(lab.lab.entry, lab.lab.net.host(node).pid, node)
    try:
        done = subprocess.run([*entrance, *command], env=environment, stdout=sys.stderr if quiet else None, check=False)
    except OSError as error:
        raise PrerequisiteError(f"--run: {error}") from None
    if done.returncode:
        print(f"heddle: {node} {' '.join(command)}: exit status {done.returncode}", file=sys.stderr)


def _stay(lab: ServedLab, quiet: bool) -> None:
    """Wait for Ctrl-C or SIGTERM; report each process of the lab that ends before, once."""
    reported: set[str] = set()
    if not quiet:
        sys.stdout.flush()
    try:
        while True:
            time.sleep(POLL_S)
            for name, process in lab.processes.items():
                if not process.is_running and name not in reported:
                    reported.add(name)
                    print(f"heddle: {name} has ended: {process.last_log_line()}", file=sys.stderr)
    except KeyboardInterrupt:
        return


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the present step on standard error if that is a terminal; "" clears it."""
    if not sys.stderr.isatty():
        yield lambda line: None
        return
    status = Console(stderr=True, highlight=False).status("")

    def show(line: str) -> None:
        if line:
            status.update(line)
            status.start()
        else:
            status.stop()

    try:
        yield show
    finally:
        status.stop()

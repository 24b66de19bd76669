"""`heddle lab vpc` at work: build the lab, ask who reaches whom, tell it, and stay until it is ended."""

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

from controller.config.network_file import load_network
from controller.model.error import InputError, PrerequisiteError
from dataplane.config.network import NetworkConfig
from dataplane.verify.report import Report
from mininet_topos.host.node_access import command_prefix_of, write_nodes
from mininet_topos.vpc.description import MACHINES, NODES, VTEP_KINDS, network
from mininet_topos.vpc.reach import Row
from mininet_topos.vpc.served import ServedLab
from mininet_topos.vpc.table import LEGEND, PIPED_WIDTH, as_json, tables

LOOK_S = 0.5
MAX_DIFFERENCES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VpcLabOptions:
    """What the command line asks for."""

    vteps: str
    gateways: int
    network: NetworkConfig
    commands: tuple[tuple[str, ...], ...]
    """Each a node and a command."""
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
    told = network() if file is None else load_network(file)
    return VpcLabOptions(
        vteps=vteps, gateways=gateways, network=told, commands=tuple(commands), once=once, as_json=as_json
    )


def run_vpc_lab(options: VpcLabOptions) -> bool:
    """Build, ask, tell and stay; say whether packets, tables and intents agree."""
    # A shell starts what it puts in the background with SIGINT ignored; a lab must end on it all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with _steps() as say:
        lab = ServedLab(options.vteps, options.gateways, say)
        begun = time.monotonic()
        with lab:
            say("telling the controller of the tenants")
            lab.apply(options.network)
            built_s = time.monotonic() - begun
            write_nodes(lab.lab.entry, {name: lab.lab.net.host(name).pid for name in _names(lab)})
            rows, asked_s = _ask(lab, say)
            report = lab.verdict(options.network)
            say("")
            agree = report.is_sound and all(row.agrees for row in rows)
            _tell(lab, options, rows, report, {"built_s": built_s, "asked_s": asked_s})
            for node, *command in options.commands:
                _run_in(lab, node, command, options.as_json)
            if not options.once:
                _stay(lab, options.as_json)
            say("removing the lab")
    return agree


def _names(lab: ServedLab) -> list[str]:
    return [host.name for host in lab.lab.net.mininet.hosts]


def _ask(lab: ServedLab, say: Callable[[str], None]) -> tuple[list[Row], float]:
    say("asking who reaches whom")
    begun = time.monotonic()
    rows = lab.reach()
    return rows, time.monotonic() - begun


def _tell(
    lab: ServedLab, options: VpcLabOptions, rows: list[Row], report: Report, seconds: Mapping[str, float]
) -> None:
    """Print what was found: tables for people, or one JSON object."""
    if options.as_json:
        found: dict[str, Any] = {
            "lab": lab.lab.entry.id, "server": lab.server, "directory": str(lab.directory),
            "vteps": dict(lab.lab.vteps),
            "gateways": list(lab.gateway_ids), "agree": all(row.agrees for row in rows),
            "isolation": {"sound": report.is_sound, "findings": [str(finding) for finding in report.findings]},
            **{name: round(value, 2) for name, value in seconds.items()}, "questions": as_json(rows),
        }  # fmt: skip
        print(json.dumps(found), flush=True)
        return
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)
    for table in tables(rows):
        console.print(table)
        console.print()
    console.print(LEGEND, style="dim", soft_wrap=True)
    for line in summary(rows, report, seconds):
        console.print(line, markup=False, style="bold red" if "DIFFER" in line else "")
    if not options.once:
        _invite(lab, console)


def summary(rows: list[Row], report: Report, seconds: Mapping[str, float]) -> list[str]:
    """Return the lines under the tables."""
    differing = [row for row in rows if not row.agrees]
    reached = sum(1 for row in rows if row.packets)
    lines = [
        f"lab up in {seconds['built_s']:.1f} s; {len(rows)} questions by real packets in {seconds['asked_s']:.1f} s:"
        f" {reached} reached somebody, {len(rows) - reached} nobody",
        f"packets and the gateway's tables {'DIFFER' if differing else 'agree'}"
        + (f" in {len(differing)} of them" if differing else " in all of them"),
        *(f"  {row}" for row in differing[:MAX_DIFFERENCES]),
        f"verify isolation: {report.vpcs} VPCs, {report.endpoints} endpoints: "
        + ("exactly the intended paths" if report.is_sound else f"{len(report.findings)} PATHS DIFFER"),
        *(f"  {finding}" for finding in report.findings[:MAX_DIFFERENCES]),
    ]
    return lines


def _invite(lab: ServedLab, console: Console) -> None:
    """Say how to look inside."""
    lines = (
        ("a shell in a machine", "heddle lab exec red1 bash"),
        ("a host with Open vSwitch", "heddle lab exec h2 ovs-ofctl -O OpenFlow14 dump-flows vpc"),
        ("what the controller knows", f"heddle vpc list --server {lab.server}"),
        ("what a gateway counts", f"heddle gateway show gw1 --runtime-dir {lab.directory}"),
        ("change it", f"heddle vpc apply FILE --server {lab.server}"),
    )
    console.print(f"\nlab {lab.lab.entry.id} runs until Ctrl-C; in another terminal:", markup=False)
    for what, command in lines:
        if lab.lab.switches or "ovs" not in command:
            console.print(f"  {what + ':':<27}{command}", markup=False, soft_wrap=True)


def _run_in(lab: ServedLab, node: str, command: list[str], quiet: bool) -> None:
    """Run a command in a node, where the terminal sees it; with JSON its output goes to standard error."""
    entrance, environment = command_prefix_of(lab.lab.entry, lab.lab.net.host(node).pid, node)
    try:
        done = subprocess.run([*entrance, *command], env=environment, stdout=sys.stderr if quiet else None, check=False)
    except OSError as error:
        raise PrerequisiteError(f"--run: {error}") from None
    if done.returncode:
        print(f"heddle: {node} {' '.join(command)}: exit status {done.returncode}", file=sys.stderr)


def _stay(lab: ServedLab, quiet: bool) -> None:
    """Wait for Ctrl-C or SIGTERM; say so once where a process of the lab ends before."""
    told: set[str] = set()
    if not quiet:
        sys.stdout.flush()
    try:
        while True:
            time.sleep(LOOK_S)
            for name, process in lab.processes.items():
                if not process.is_running and name not in told:
                    told.add(name)
                    print(f"heddle: {name} has ended: {process.last_words()}", file=sys.stderr)
    except KeyboardInterrupt:
        return


@contextmanager
def _steps() -> Iterator[Callable[[str], None]]:
    """Show on standard error what is being done, where that is a terminal; "" takes it away."""
    if not sys.stderr.isatty():
        yield lambda line: None
        return
    status = Console(stderr=True, highlight=False).status("")

    def say(line: str) -> None:
        if line:
            status.update(line)
            status.start()
        else:
            status.stop()

    try:
        yield say
    finally:
        status.stop()

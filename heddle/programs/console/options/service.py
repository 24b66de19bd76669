"""`heddle run`, and the commands that show a running controller's fabric: their options."""

from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import DEFAULT_SERVER, Json, Server


def run(
    fabric: Annotated[Path | None, typer.Argument(metavar="FABRIC", help="The fabric file.")] = None,
    config: Annotated[Path | None, typer.Option(help="A config file; see --print-config.")] = None,
    openflow: Annotated[
        str | None, typer.Option(metavar="ADDR:PORT", help="The address that switches connect to.")
    ] = None,
    grpc: Annotated[
        str | None,
        typer.Option(metavar="ADDR:PORT", help="The address that clients connect to; unix:/PATH for a socket."),
    ] = None,
    http: Annotated[
        str | None, typer.Option(metavar="ADDR:PORT", help="The address of the status page and /metrics.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            envvar="HEDDLE_STATE",
            help="The directory of what survives a restart, or none; default: /var/lib/heddle for root, "
            "~/.local/state/heddle for others.",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Let OpenFlow and gRPC listen beyond loopback without TLS: any peer may do everything."
        ),
    ] = False,
    print_config: Annotated[bool, typer.Option(help="Print every config key with its default, and exit.")] = False,
) -> None:
    """Run the controller: OpenFlow 1.3 for switches, gRPC for jobs, HTTP for a page and metrics.

    Prints one JSON line with its addresses when it is ready; logs go to standard error. SIGINT and SIGTERM end it;
    SIGHUP re-reads the policy file, and ends it where there is none. The rules stay in the switches (fail-static); the
    next start reads them and sends only the difference. Jobs, virtual networks and drains are in the state directory,
    which the next start reads as well.
    """
    from heddle.programs.console.run import run_controller

    run_controller(
        fabric, config, openflow=openflow, grpc=grpc, http=http, state=state, insecure=insecure,
        print_config=print_config,
    )  # fmt: skip


def topology(
    server: Server = DEFAULT_SERVER,
    watch: Annotated[bool, typer.Option("--watch", help="Print it again at every change.")] = False,
    sids: Annotated[
        bool, typer.Option("--sids", help="Print the SRv6 prefixes of switches and links instead.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show switches and links, with their state, planned and measured utilisation."""
    from heddle.programs.console import fabric as command

    command.topology(server, watch=watch, sids=sids, as_json=as_json)


def drain(
    target: Annotated[str, typer.Argument(metavar="LINK|SWITCH|NIC", help="leaf1:1>spine1:1, spine2, or h1-n0")],
    undrain: Annotated[bool, typer.Option("--undrain", help="Return it to use.")] = False,
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Take a link (both directions), a switch or a NIC out of use without loss, for maintenance; --undrain returns it.

    Of a NIC with several ports, name one: h1-n0/p0; its flows go on in other planes.

    Flows leave it first, then the rules. It is drained once this command ends with status 0. A drain that would leave a
    flow without a path is refused, and names the flow.
    """
    from heddle.programs.console import fabric as command

    command.drain(server, target, undrain=undrain, as_json=as_json)


def events(
    since: Annotated[str, typer.Option(metavar="DURATION", help="How far back: 90s, 15m, 1h, 7d.")] = "1h",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events.")] = False,
    server: Server = DEFAULT_SERVER,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Show events: conditions raised and cleared, agents that connect and disconnect, notes of the controller.

    The controller keeps the last thousand events, or more with a history file (config key history).
    """
    from heddle.programs.console import events as command

    command.events(server, since=since, follow=follow, as_json=as_json)


def top(
    ports: Annotated[
        list[str] | None, typer.Argument(metavar="[PORT]...", help="leaf1:3 or a NIC; all if none.")
    ] = None,
    sort: Annotated[str, typer.Option(help="utilisation, rx, ecn, pfc, pause, depth, drops or port.")] = "utilisation",
    interval: Annotated[float, typer.Option(min=0.1, max=60.0, help="Seconds between two updates.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    server: Server = DEFAULT_SERVER,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per update, with all ports.")] = False,
) -> None:
    """Show port counters live: utilisation, ECN marks, PFC, pauses, queue depths and drops.

    Telemetry agents supply the samples; a rate is between two samples of a port. A port without new samples is dim and
    marked stale. Needs a controller with a broker (config key telemetry.broker).
    """
    from heddle.programs.console.telemetry import top as command

    command.top(server, ports or [], sort=sort, interval_s=interval, once=once, as_json=as_json)


def replay(
    path: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="The config key record of heddle run, or one file.")],
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Print from this time on: 2026-11-22T23:01:05Z.")
    ] = None,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Print only what concerns this job.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Decide a recording again: print events and decisions as a timeline, and compare with the recorded decisions.

    Exit status 0: all decisions are the recorded ones; 1: one differs, which is named; 2: the file is damaged or was
    recorded by another version.
    """
    from heddle.programs.console import replay as command

    command.run(path, since=since, job=job, as_json=as_json)

"""Command-line options of `heddle gateway`; `heddle.programs.gateway.gateway_command` implements them."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from heddle.controller.model.error import InputError
from heddle.programs.console.option import Json

gateway = typer.Typer(
    help="Run one VPC gateway, or show the status of a running one.", invoke_without_command=True, rich_markup_mode=None
)
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="The gateway file; see --print-config.")]
Network = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What to serve without a controller: vpcs, peerings, border.")
]
Backend = Annotated[str | None, typer.Option(help="auto, af-xdp or af-packet; overrides the file.")]
BusyPoll = Annotated[bool, typer.Option("--busy-poll", help="Never sleep: less latency, uses a whole core.")]
Cpu = Annotated[int | None, typer.Option(min=0, help="The core that processes packets.")]
RuntimeDir = Annotated[Path, typer.Option(metavar="DIR", help="The runtime_dir of the gateway's file.")]


@gateway.callback()
def run(
    context: typer.Context,
    config: Config = None,
    network: Network = None,
    backend: Backend = None,
    busy_poll: BusyPoll = False,
    cpu: Cpu = None,
    print_config: Annotated[bool, typer.Option(help="Print every config key with its meaning, and exit.")] = False,
) -> None:
    """Run one VPC gateway: VXLAN, routing, security groups, NAT, floating IPs, peering, the border.

    Takes over the interfaces of its config file while it runs. Prints one JSON line when it is ready; logs go to
    standard error. SIGINT and SIGTERM end it; SIGHUP re-reads the network file without losing a packet. Needs
    CAP_NET_RAW; CAP_NET_ADMIN and CAP_BPF enable AF_XDP, which is faster.

    Exit status: 0; 2 for a malformed file; 1 if it cannot run on this host, with a one-line reason.

    Example: heddle gateway --config gw1.yaml --network tenants.yaml
    """
    if context.invoked_subcommand is not None:
        return
    from heddle.controller.config.gateways.gateway_file import load_gateway, printed

    if print_config:
        sys.stdout.write(printed())
        return
    if config is None:
        raise InputError("--config FILE is missing (--print-config prints its keys)")
    found = load_gateway(config)
    if backend not in (None, "auto", "af-xdp", "af-packet"):
        raise InputError(f"--backend: {backend!r} is none of auto, af-xdp, af-packet")
    found = replace(
        found,
        backend=backend or found.backend,
        cpu=found.cpu if cpu is None else cpu,
        busy_poll=busy_poll or found.busy_poll,
    )
    if found.controller is not None and network is not None:
        raise InputError(f"--network: {config} names a controller, which provides the network; remove one of the two")
    from heddle.programs.gateway.gateway_command import run_gateway

    run_gateway(found, network)


@gateway.command()
def show(
    gateway_id: Annotated[str, typer.Argument(metavar="NAME", help="The gateway's id.")],
    runtime_dir: RuntimeDir = Path("/run/heddle"),
    as_json: Json = False,
) -> None:
    """Print the status of a gateway that runs on this host: packets by port and reason, tables, generations."""
    from heddle.programs.gateway.gateway_command import show_gateway

    show_gateway(gateway_id, runtime_dir, as_json=as_json)

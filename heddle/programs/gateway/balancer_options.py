"""Command-line options of `heddle balancer`; `heddle.programs.gateway.balancer_command` implements them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from heddle.controller.model.error import InputError
from heddle.programs.console.option import Json

balancer = typer.Typer(
    help="Run one L4 load balancer, or show the status of a running one.",
    invoke_without_command=True,
    rich_markup_mode=None,
)
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="The balancer file; see --print-config.")]
RuntimeDir = Annotated[Path, typer.Option(metavar="DIR", help="The runtime_dir of the balancer's file.")]


@balancer.callback()
def run(
    context: typer.Context,
    config: Config = None,
    print_config: Annotated[bool, typer.Option(help="Print every config key with its meaning, and exit.")] = False,
) -> None:
    """Run one load balancer: virtual IPs of VPCs, TCP, UDP and RoCEv2, direct return or full NAT, health probes.

    Takes over the interfaces of its config file while it runs. Prints one JSON line when it is ready; logs go to
    standard error. SIGINT and SIGTERM end it; SIGHUP re-reads the VPCs and load balancers of the file without losing a
    connection. Needs CAP_NET_RAW; CAP_NET_ADMIN and CAP_BPF enable AF_XDP, which is faster.

    Exit status: 0; 2 for a malformed file; 1 if it cannot run on this host, with a one-line reason.

    Example: heddle balancer --config lb1.yaml
    """
    if context.invoked_subcommand is not None:
        return
    from heddle.controller.config.gateways.balancer_file import load_balancer_file, printed

    if print_config:
        sys.stdout.write(printed())
        return
    if config is None:
        raise InputError("--config FILE is missing (--print-config prints its keys)")
    found = load_balancer_file(config)
    from heddle.programs.gateway.balancer_command import run_balancer

    run_balancer(found, config)


@balancer.command()
def show(
    balancer_id: Annotated[str, typer.Argument(metavar="NAME", help="The balancer's id.")],
    runtime_dir: RuntimeDir = Path("/run/heddle"),
    as_json: Json = False,
) -> None:
    """Print the status of a balancer that runs on this host: packets, connections, back ends."""
    from heddle.programs.gateway.balancer_command import show_balancer

    show_balancer(balancer_id, runtime_dir, as_json=as_json)

"""The commands `heddle lab vpc` and `heddle lab exec`, registered by the entry point `heddle.commands`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from controller.model.error import PrerequisiteError

lab = typer.Typer(
    help="Labs on this machine: real packets between network namespaces. Need root.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@lab.command("vpc")
def vpc(
    vtep: Annotated[str, typer.Option(help="The hosts' VTEPs: kernel, ovs (Open vSwitch), or mixed.")] = "mixed",
    gateways: Annotated[int, typer.Option(min=1, max=2, help="One gateway, or a pair, active-standby.")] = 1,
    network: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A network file of yours, instead of examples/vpc.yaml.")
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="'NODE COMMAND'", help="Run a command in a node; may be repeated."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End afterwards, instead of staying until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Build a lab of virtual networks and test with real packets which nodes reach each other.

    Two tenants, red and blue, with the same addresses; green, red's peer; a customer's site on a VLAN; the internet;
    the provider's storage and management networks. A controller configures gateways and hosts. Every node sends
    every other ping, ssh, nfs, dns and RoCEv2; the result is compared with the gateway's tables. The lab stays until
    Ctrl-C, for inspection: `heddle lab exec red1 bash`. Everything is removed then.

    Exit status: 0; 1 where packets, tables and intents differ, or the lab cannot be built; 2 for bad options or a
    malformed file.

    Example: heddle lab vpc --vtep ovs --once --run "red1 ping -c 3 10.0.0.2"
    """
    from mininet_topos.vpc.command import options_of, run_vpc_lab

    options = options_of(vteps=vtep, gateways=gateways, file=network, run=run or [], once=once, as_json=as_json)
    raise typer.Exit(0 if run_vpc_lab(options) else 1)


@lab.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def execute(
    node: Annotated[str, typer.Argument(metavar="NODE", help="red1, h2, gw1, internet, …")],
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="What to run there.")],
    lab_id: Annotated[str | None, typer.Option("--lab", metavar="ID", help="Which lab, where several run.")] = None,
) -> None:
    """Run a command in a node of a running lab; it ends with the lab at the latest.

    Exit status: the command's; 2 where there is no such node.

    Example: heddle lab exec red1 ping -c 3 10.0.0.2
    """
    from mininet_topos.host.node_access import node_command_prefix

    prefix, environment = node_command_prefix(lab_id, node)
    try:
        os.execvpe(prefix[0], [*prefix, *command], environment)
    except OSError as error:
        raise PrerequisiteError(f"{prefix[0]}: {error.strerror}") from None

"""`heddle vpc …` as commands: their options. What they do is in `heddle.programs.console.vpc`."""

from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import DEFAULT_SERVER, Json, Server

vpc = typer.Typer(
    help="Virtual networks of a running controller: VPCs, peerings, load balancers, the border, gateways.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
File = Annotated[Path, typer.Argument(metavar="FILE", help="A network file: vpcs, peerings, load_balancers, border.")]
Vpc = Annotated[str, typer.Argument(metavar="VPC", help="A VPC's id.")]
Peer = Annotated[str, typer.Argument(metavar="PEER", help="The other VPC's id.")]


@vpc.command("apply")
def apply(
    file: File,
    server: Server = DEFAULT_SERVER,
    drop_unknown: Annotated[
        bool, typer.Option("--drop-unknown", help="Then end the VPCs that gateways serve and the controller lost.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create or replace the VPCs, peerings and load balancers of a file, and the border's rules if it has any.

    The file is applied as one change, or nothing of it. What it does not name is not changed, and is what it is checked
    against. The change is complete when every attached gateway has acknowledged it. After a timeout it stays in effect;
    apply the file again to wait again.
    """
    from heddle.programs.console import vpc as command

    command.apply(server, file, drop_unknown=drop_unknown, as_json=as_json)


@vpc.command("list")
def list_vpcs(
    server: Server = DEFAULT_SERVER,
    tenant: Annotated[str, typer.Option(help="Only this tenant's VPCs.")] = "",
    as_json: Json = False,
) -> None:
    """List VPCs and their peerings."""
    from heddle.programs.console import vpc as command

    command.list_vpcs(server, tenant, as_json=as_json)


@vpc.command("delete")
def delete(name: Vpc, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """Delete a VPC that is not peered, not named by a border rule, and without load balancers."""
    from heddle.programs.console import vpc as command

    command.delete(server, name, as_json=as_json)


@vpc.command("peer")
def peer(name: Vpc, other: Peer, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """Connect two VPCs, within their security rules; refused if their prefixes overlap."""
    from heddle.programs.console import vpc as command

    command.peer(server, name, other, as_json=as_json)


@vpc.command("unpeer")
def unpeer(name: Vpc, other: Peer, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """End a peering; connections across it end with it."""
    from heddle.programs.console import vpc as command

    command.unpeer(server, name, other, as_json=as_json)


@vpc.command("border")
def border(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A network file; its border replaces all rules.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Show or replace the rules for traffic from VPCs to the provider's networks. What no rule allows is denied."""
    from heddle.programs.console import vpc as command

    command.border(server, file, as_json=as_json)


@vpc.command("balancers")
def balancers(
    server: Server = DEFAULT_SERVER,
    tenant: Annotated[str, typer.Option(help="Only this tenant's load balancers.")] = "",
    as_json: Json = False,
) -> None:
    """List load balancers with their back ends: weight, draining, and those that are down."""
    from heddle.programs.console import vpc as command

    command.balancers(server, tenant, as_json=as_json)


@vpc.command("delete-balancer")
def delete_balancer(
    name: Annotated[str, typer.Argument(metavar="BALANCER", help="A load balancer's id.")],
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Delete a load balancer; its connections end."""
    from heddle.programs.console import vpc as command

    command.delete_balancer(server, name, as_json=as_json)


@vpc.command("gateways")
def gateways(server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """List gateways, balancers and hosts: whether attached, their generation, connections and drops."""
    from heddle.programs.console import vpc as command

    command.gateways(server, as_json=as_json)


@vpc.command("forget")
def forget(
    name: Annotated[str, typer.Argument(metavar="GATEWAY", help="The id of a gateway that is not attached.")],
    server: Server = DEFAULT_SERVER,
    as_json: Json = False,
) -> None:
    """Remove a decommissioned gateway from the state that hosts and other gateways get."""
    from heddle.programs.console import vpc as command

    command.forget(server, name, as_json=as_json)

"""Command-line options of `heddle verify`; `dataplane.service.verify_command` implements them."""

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.option import DEFAULT_SERVER, Json, Server

verify = typer.Typer(
    help="Compare installed state with the desired state.", no_args_is_help=True, rich_markup_mode=None
)


@verify.callback()
def _verify() -> None:
    """Make `isolation` a subcommand even while it is the only one."""


@verify.command("isolation")
def isolation(
    server: Server = DEFAULT_SERVER,
    gateway: Annotated[
        list[str] | None, typer.Option("--gateway", metavar="ID", help="Only this gateway; may be repeated.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Offline: a gateway file, instead of a controller.")
    ] = None,
    network: Annotated[Path | None, typer.Option(metavar="FILE", help="Offline: a network file.")] = None,
    tables: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Offline: saved tables of a gateway; compiled if omitted.")
    ] = None,
    save_tables: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the tables of the one gateway that is checked.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute reachability from the tables of gateways, and list each path that no intent allows.

    Reads the tables of every attached gateway through the controller. Intents are the controller's VPCs, rules,
    peerings, floating IPs, direct connects and border. Reachability is also summarised between the four networks. A
    `leak` is a path that is open but not intended; a `missing` path is intended but closed.

    Exit status: 0 if exactly the intended paths are open; 1 if any differs; 2 for malformed input.

    Example: heddle verify isolation --config gw1.yaml --network tenants.yaml
    """
    from dataplane.service import verify_command as command

    if config is not None or network is not None or tables is not None:
        sound = command.offline(config, network, tables, save_tables, as_json=as_json)
    else:
        sound = command.online(server, gateway or [], save_tables, as_json=as_json)
    raise typer.Exit(0 if sound else 1)

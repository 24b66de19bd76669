"""`heddle verify …` as commands: their options. What they do is in `dataplane.service.verify`."""

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.option import DEFAULT_SERVER, Json, Server

verify = typer.Typer(help="Check installed state against what was wanted.", no_args_is_help=True, rich_markup_mode=None)


@verify.callback()
def _verify() -> None:
    """Keep `isolation` a command of its own beside those to come."""


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
        Path | None, typer.Option(metavar="FILE", help="Offline: tables of a gateway; compiled anew if left out.")
    ] = None,
    save_tables: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the tables of the one gateway that is checked.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute from the tables of gateways who can reach whom, and name each path that no intent allows.

    Asks every attached gateway for its tables by way of the controller. Intents are the controller's VPCs, rules,
    peerings, floating IPs, direct connects and border; the four networks are told against each other. A `leak` is a
    path that is open and should not be, `missing` one that was wanted and is closed.

    Exit status: 0 where exactly the intended paths are there; 1 where any differs; 2 for malformed input.

    Example: heddle verify isolation --config gw1.yaml --network tenants.yaml
    """
    from dataplane.service import verify as command

    if config is not None or network is not None or tables is not None:
        sound = command.offline(config, network, tables, save_tables, as_json=as_json)
    else:
        sound = command.online(server, gateway or [], save_tables, as_json=as_json)
    raise typer.Exit(0 if sound else 1)

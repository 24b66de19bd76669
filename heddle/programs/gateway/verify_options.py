"""Options of `heddle verify`; `verify_command` here and `sonic` of the console implement them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import DEFAULT_SERVER, Json, Server

verify = typer.Typer(
    help="Compare installed state with the desired state.", no_args_is_help=True, rich_markup_mode=None
)


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
    from heddle.programs.gateway import verify_command as command

    if config is not None or network is not None or tables is not None:
        sound = command.offline(config, network, tables, save_tables, as_json=as_json)
    else:
        sound = command.online(server, gateway or [], save_tables, as_json=as_json)
    raise typer.Exit(0 if sound else 1)


@verify.command("roce")
def roce(
    files: Annotated[list[Path], typer.Argument(metavar="CONFIG_DB.json...", help="A SONiC switch's config_db each.")],
    fabric: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The fabric file: compare static SIDs of SWITCH.json too.")
    ] = None,
    first_port: Annotated[int, typer.Option(min=0, help="Port 1 of a switch is Ethernet of this number.")] = 0,
    port_step: Annotated[int, typer.Option(min=1, help="Ports are this many lanes apart.")] = 4,
    as_json: Json = False,
) -> None:
    """Compare SONiC switches with what plans assume, and name every difference, and what SONiC's models refuse.

    Checked on every port that is up: maps of DSCP, traffic class, queue and priority group, PFC and its watchdog,
    schedulers, shapers, ECN thresholds, headroom, trimming; and the switch's ECMP hash. `heddle export sonic` writes
    settings without a difference. A line for each cause, the worst first; notes are no differences.

    Exit status: 0 without differences; 1 with differences; 2 for malformed input.
    """
    from heddle.controller.sonic.export import PortNames
    from heddle.programs.console.sonic import run_verify

    raise typer.Exit(run_verify(files, as_json, sys.stdout, fabric, PortNames(first_port, port_step)))

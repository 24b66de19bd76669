"""`heddle export …` as commands: their options. They need no controller, no network and no root."""

from pathlib import Path
from typing import Annotated

import typer

export = typer.Typer(
    help="Write what a plan assumes in the form that switches read.", no_args_is_help=True, rich_markup_mode=None
)


@export.callback()
def _export() -> None:
    """Make `sonic` a subcommand even while it is the only one."""


@export.command("sonic")
def export_sonic(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write DIR/SWITCH.json each; standard output if left out.")
    ] = None,
    first_port: Annotated[int, typer.Option(min=0, help="Port 1 of a switch is Ethernet of this number.")] = 0,
    port_step: Annotated[int, typer.Option(min=1, help="Ports are this many lanes apart: 8 for 8-lane ports.")] = 4,
    cable_metres: Annotated[int, typer.Option(min=0, max=100_000, help="The longest cable; headroom follows.")] = 40,
) -> None:
    """Write QoS, PFC, ECN, buffer and hash settings of every switch as config_db JSON for SONiC's `config load`.

    These are the settings that plans assume: DSCP 26 lossless in queue 3 with ECN, CNPs strict in queue 6, a hash over
    the five-tuple. Buffer pools keep the platform's sizes. Exit status: 0; 2 if FABRIC is malformed.

    Example: heddle export sonic fabric.yaml --out switches
    """
    from heddle.controller.sonic.export import PortNames
    from heddle.programs.console.sonic import run_export

    run_export(fabric, out, PortNames(first_port, port_step), cable_metres)

"""`heddle check sids` as a command: its options."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import Json


def check(
    fabric: Annotated[
        Path, typer.Argument(metavar="FABRIC", help="A fabric file, or the directory of a lab of routers.")
    ],
    nics: Annotated[
        list[str] | None,
        typer.Option("--nic", metavar="NIC", help="Ping from this NIC; may be repeated. [default: one a leaf]"),
    ] = None,
    next_hop: Annotated[
        str | None,
        typer.Option(metavar="MAC", help="The leaf's MAC address, for one NIC. [default: of the NIC's IPv4 gateway]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Ping every cable by packets that return to their sender by the SIDs in their address, and name those elsewhere.

    Needs `steering: srv6` and its entries in switches, and no agent: a packet a cable, two above the leaf, tests it
    both ways. A cable of the leaf in a wrong port is named with the port that is really at its far end. Run it on a
    host of every leaf, as root (CAP_NET_RAW).

    Exit status: 0 if every ping returned; 1 if not, or no permission; 2 for malformed files, unknown NICs, and NICs
    of which the leaf's MAC address is not known.

    Example: heddle check sids fabric.yaml
    """
    from heddle.programs.console.sid_check import run_check_sids

    raise typer.Exit(run_check_sids(fabric, nics or (), next_hop, as_json, sys.stdout))

"""`heddle check cabling` as a command: its options."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from heddle.programs.console.option import Json

_Sockets = Annotated[
    list[str] | None,
    typer.Option(
        "--socket",
        metavar="NODE=PATH",
        help="lldpd: the switch and its lldpd's socket; may be repeated. [default: this machine's]",
    ),
]
_Nics = Annotated[
    list[str] | None,
    typer.Option("--nic", metavar="NIC", help="pings: send from this NIC; may be repeated. [default: one a leaf]"),
]
_NextHop = Annotated[
    str | None,
    typer.Option(
        metavar="MAC", help="pings: the leaf's MAC address, for one NIC. [default: of the NIC's IPv4 gateway]"
    ),
]


def check(
    fabric: Annotated[
        Path, typer.Argument(metavar="FABRIC", help="The fabric file; pings: or the directory of a lab of routers.")
    ],
    source: Annotated[
        str,
        typer.Option(
            metavar="lldpd|sonic|pings|FILE",
            help="Where ports' neighbours are read: from lldpd, from SONiC's Redis, by pings over SRv6, or from a file "
            "or directory.",
        ),
    ],
    sockets: _Sockets = None,
    redis: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SWITCH=URL", help="sonic: a switch and its Redis, leaf1=redis://10.0.0.1:6379; may be repeated."
        ),
    ] = None,
    lanes: Annotated[
        int, typer.Option(min=1, max=16, help="Lanes per port of SONiC's names: EthernetN is port N / lanes + 1.")
    ] = 4,
    port_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The ports' numbers, a line `Ethernet0 1` each, where names do not have them."
        ),
    ] = None,
    nics: _Nics = None,
    next_hop: _NextHop = None,
    as_json: Json = False,
) -> None:
    """Compare the cables that LLDP or pings see with the fabric file, and name the causes of what differs.

    A wrong cable is not reported port by port: exchanged switches, shifted or reversed runs of ports and exchanged
    plugs are found as such, with the fewest plugs to move. A port that hears nothing is unknown; a cable counts as
    missing only where its port is known to have no carrier.

    A file is JSON or YAML: what `lldpcli -f json0 show neighbors` prints (NODE.json), several of these by node, a dump
    of SONiC's APPL_DB, or a list by the fabric's own names (heard: {leaf1:1: spine1:1}, down: [leaf1:2]). A directory
    has a file for each node.

    Pings need `steering: srv6`, and root on a host of each leaf: packets return to their sender by the SIDs in their
    address, as those of `heddle check sids`. They show cables between switches alone, and no exchange of parallel ones.

    Exit status: 0 sound, which says nothing about unknown cables; 1 something is wrong; 2 malformed input.

    Example: heddle check cabling fabric.yaml --source lldp/
    """
    from heddle.programs.console.cabling_check.command import Request, run_check_cabling

    request = Request(
        fabric=fabric, source=source, sockets=sockets or (), redis=redis or (), lanes=lanes, port_map=port_map,
        nics=nics or (), next_hop=next_hop,
    )  # fmt: skip
    raise typer.Exit(run_check_cabling(request, as_json, sys.stdout))

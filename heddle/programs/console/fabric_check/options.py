"""`heddle check fabric` as a command: its options."""

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
        typer.Option("--nic", metavar="NIC", help="Probe from this NIC; may be repeated. [default: all of this host]"),
    ] = None,
    addresses: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='JSON: loopbacks ("leaf1": "10.255.0.1"), and ports that FABRIC does not list.'
        ),
    ] = None,
    rate: Annotated[int, typer.Option(min=1, max=10_000, help="Probes a second from each NIC.")] = 300,
    as_json: Json = False,
) -> None:
    """Check by probes if RoCEv2 source ports can steer flows over a fabric of hashing switches.

    Sends RoCEv2 packets with a small TTL to UDP port 4791 from the NICs of this host, and reads the ICMP errors of the
    switches where they expire. For the leaf of every NIC: does the source port matter, do repeats agree, are the queue
    pair number or the DSCP in the hash, over which links do ports lead, over which never, and which cables does no
    reply distinguish? A leaf that cannot be steered is named with the remedy. Run it on a host of every leaf, as root
    (CAP_NET_RAW).

    On a lab of `heddle lab fabric --routed`, give its directory instead of a file: all of its NICs probe.

    Exit status: 0 fit; 1 not fit or unknown, or no permission; 2 for malformed files or unknown NICs.

    Example: heddle check fabric fabric.yaml --addresses loopbacks.json
    """
    from heddle.programs.console.fabric_check.command import run_check_fabric

    raise typer.Exit(run_check_fabric(fabric, nics or (), addresses, rate, as_json, sys.stdout))

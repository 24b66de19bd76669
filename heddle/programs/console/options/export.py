"""`heddle export …` as commands: their options. With a fabric file they need no controller, no network and no root."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from heddle.controller.schedulers.slurm_files import Format
from heddle.programs.console.option import DEFAULT_SERVER, Server

export = typer.Typer(
    help="Write fabric and jobs as schedulers, switches and simulators read them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


Fabric = Annotated[
    Path | None, typer.Argument(metavar="[FABRIC]", help="The fabric file; left out, that of the running controller.")
]
Nodes = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A file with the scheduler's nodes, such as n[1-8]; - is standard input."),
]
Out = Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Standard output if left out.")]


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
    the five-tuple; with `steering: srv6` also static SIDs. Buffer pools keep the platform's sizes. Exit status: 0; 2 if
    FABRIC is malformed.

    Example: heddle export sonic fabric.yaml --out switches
    """
    from heddle.controller.sonic.export import PortNames
    from heddle.programs.console.sonic import run_export

    run_export(fabric, out, PortNames(first_port, port_step), cable_metres)


class SidFormat(StrEnum):
    """What `heddle export sids` writes."""

    JSON = "json"
    IPROUTE2 = "iproute2"


@export.command("sids")
def export_sids(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file.")],
    form: Annotated[
        SidFormat, typer.Option("--format", help="json: what switches hold; iproute2: routes of a plan's hosts.")
    ] = SidFormat.JSON,
    plan: Annotated[
        Path | None, typer.Option(metavar="PLAN", help="For iproute2: a plan that `heddle plan --json` wrote.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="For iproute2: write DIR/NIC.sh each, not standard output.")
    ] = None,
) -> None:
    """Write the SRv6 SIDs of every switch as JSON, whatever its system: prefix, action and port of each entry.

    `node` shifts the uSID away and reads the next, `adjacency` shifts it away and sends by the port, `route` sends by
    the port. NICs have their source address. With --format iproute2: for each NIC of a plan, the commands by which its
    host's kernel sends TCP and soft RoCE over the planned paths, one a destination. Exit status: 0; 2 without
    `steering: srv6`, or for a plan of another fabric.

    Example: heddle export sids fabric.yaml --format iproute2 --plan plan.json --out hosts
    """
    from heddle.programs.console.sids import run_host_routes, run_sids

    if form is SidFormat.IPROUTE2:
        run_host_routes(fabric, plan, out, sys.stdout)
    else:
        run_sids(fabric, plan or out, sys.stdout)


@export.command("nvue")
def export_nvue(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write DIR/SWITCH.sh each; standard output if left out.")
    ] = None,
) -> None:
    """Write the SRv6 SIDs of every switch as NVUE commands of NVIDIA Cumulus Linux: a uN, and a uA for each port.

    Port n is swpN. It needs `style: ua` and `last_hop: ua`, and at most 255 ports a switch; a Spectrum-4 switch takes
    them, in the default VRF. Run a file on its switch, then `nv config apply`. Exit status: 0; 2 without `steering:
    srv6`, and for what NVUE does not hold.

    Example: heddle export nvue fabric.yaml --out switches
    """
    from heddle.programs.console.sids import run_nvue

    run_nvue(fabric, out, sys.stdout)


@export.command("slurm")
def export_slurm(
    fabric: Fabric = None,
    form: Annotated[
        Format, typer.Option("--format", help="topology.conf as tree or block, or topology.yaml of Slurm 25.05.")
    ] = Format.TREE,
    nodes: Nodes = None,
    out: Out = None,
    reconfigure: Annotated[
        bool, typer.Option("--reconfigure", help="Add the nodes of sinfo, and make Slurm load FILE if it is another.")
    ] = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Write Slurm's topology: every node once below one root, a switch for each leaf or for the leaves of its rails.

    FILE is replaced only by what Slurm can read; FILE.last is the sound one before. Nodes that the fabric does not know
    are below a switch of their own, as a node in no switch could run nothing. Exit status: 0; 1 if Slurm does not load
    it, and FILE is as it was before; 2 malformed.

    Example: sinfo -h -a -N -o %N | heddle export slurm fabric.yaml --nodes - -o /etc/slurm/topology.conf
    """
    from heddle.programs.console.slurm.export import export_slurm as command
    from heddle.programs.console.slurm.export import fabric_from

    command(fabric_from(fabric, server), form, nodes, out, reconfigure=reconfigure)


@export.command("topograph")
def export_topograph(
    fabric: Fabric = None,
    labels: Annotated[bool, typer.Option("--labels", help="Labels of Kubernetes nodes for `kubectl apply`.")] = False,
    nodes: Nodes = None,
    out: Out = None,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Write every node with its network layers, nearest first, as Topograph does: JSON of its instances or labels.

    Example: heddle export topograph fabric.yaml --labels | kubectl apply --server-side --field-manager heddle -f -
    """
    from heddle.programs.console.slurm.export import export_topograph as command
    from heddle.programs.console.slurm.export import fabric_from

    command(fabric_from(fabric, server), nodes, out, labels=labels)


@export.command("ns3")
def export_ns3(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="The folder of the files.")],
    jobs: Annotated[
        Path | None, typer.Argument(metavar="[JOBS]", help="A jobs file, whose first phases become flows.")
    ] = None,
    delay_ns: Annotated[int, typer.Option(min=0, max=10**9, help="Propagation on each link, in ns.")] = 1000,
) -> None:
    """Write topology and flows as HPCC's ns-3 simulator, and those that grew from it, read them.

    topology.txt has every NIC as a node of its own, and no link that the file calls failed; names.txt says which node
    is what; flow.txt has a line for each queue pair, all of which start at 0. Exit status: 0; 2 for bad input, and
    nothing is written.

    Example: heddle export ns3 fabric.yaml jobs.yaml -o simulation
    """
    from heddle.programs.console.simulators import export_ns3 as command

    command(fabric, jobs, out, delay_ns=delay_ns, out=sys.stdout)


@export.command("chakra")
def export_chakra(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file.")],
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="The jobs file.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="The folder of the traces.")],
) -> None:
    """Write the communication of jobs as execution traces of MLCommons' Chakra: DIR/JOB.RANK.et for each rank.

    A node has what a collective sends, and waits for the phases before. Exit status: 0; 2 for bad input, and nothing is
    written.

    Example: heddle export chakra fabric.yaml jobs.yaml -o traces
    """
    from heddle.programs.console.simulators import export_chakra as command

    command(fabric, jobs, out, sys.stdout)


class EvFormat(StrEnum):
    """What `heddle export ev` writes."""

    JSON = "json"
    SIDS = "sids"
    HTSIM = "htsim"


@export.command("ev")
def export_ev(
    fabric: Annotated[Path, typer.Argument(metavar="FABRIC", help="The fabric file.")],
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="The jobs file; it, or NICs, have paths_per_flow.")],
    form: Annotated[
        EvFormat,
        typer.Option("--format", help="json: lists by NIC; sids: an SRv6 address an entry; htsim: path numbers."),
    ] = EvFormat.JSON,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="For htsim: the folder of the files.")
    ] = None,
) -> None:
    """Plan jobs and write the path sets of their flows for NICs that spray, and for the simulator htsim.

    json has, by sending NIC, the list of each flow: source ports or SRv6 addresses, each ACTIVE or DENIED. sids has a
    line for each entry, with its address as a /128. htsim writes paths.txt with explicit path numbers, and the
    connection matrix flows.cm. Exit status: 0; 2 for bad input, and nothing is written; 3 where there is no plan.

    Example: heddle export ev fabric.yaml jobs.yaml --format htsim -o simulation
    """
    from heddle.programs.console.ev import export_ev as command

    command(fabric, jobs, form.value, out, sys.stdout)

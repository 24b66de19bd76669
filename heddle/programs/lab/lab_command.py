"""The commands of `heddle lab`: their options."""

import os
from pathlib import Path
from typing import Annotated

import typer

from heddle.controller.model.error import PrerequisiteError

lab = typer.Typer(
    help="Labs on this machine: real packets between network namespaces. Need root.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


_NAME = typer.Option("--name", metavar="LAB", help="Which lab, where several run: its name or id.")
_JSON = typer.Option("--json", help="Print one JSON object.")


@lab.command("fabric")
def fabric(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FABRIC]", help="A fabric file, instead of 2 spines, 4 leaves, 8 hosts.")
    ] = None,
    routed: Annotated[
        bool, typer.Option("--routed", help="Linux routers with kernel ECMP instead of OpenFlow switches.")
    ] = False,
    routing: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="With --routed, how next hops are held: route, group or resilient (ip-nexthop(8)); or bgp: FRR finds "
            "them. [default: route]",
        ),
    ] = None,
    srv6: Annotated[
        bool, typer.Option("--srv6", help="With --routed: packets name their paths, instead of hashes and probes.")
    ] = False,
    planes: Annotated[int, typer.Option(help="Without a file: planes, 1 to 8; a NIC has a port in each.")] = 1,
    name: Annotated[str | None, typer.Option("--name", help="A name for the lab, where several are to run.")] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Build a fabric to play with: switches, hosts, NICs, telemetry, a controller with history and its page.

    Prints the page's URL, and stays until Ctrl-C, which removes everything. Rates that software switches do not carry
    are scaled down. In other terminals: `heddle lab traffic`, `heddle lab cut`, `heddle lab heal`, `heddle top`.

    With --routed, or a file with `steering: hash`, every switch is a Linux router in a network namespace, as in a
    fabric of SONiC switches without OpenFlow: a hash of addresses and ports chooses among equal-cost next hops, and
    probes find the source ports of planned paths. With --routed --srv6, or `steering: srv6`, packets of planned flows
    name their paths. Routers mark and pause no packet.

    Exit status: 0; 1 where the lab cannot be built; 2 for a malformed file, name or option.

    Examples: heddle lab fabric examples/lab.yaml; heddle lab fabric --routed --srv6 --planes 2
    """
    from heddle.mininet_topos.playground.command import run_fabric_lab
    from heddle.mininet_topos.playground.routed import routing_of

    run_fabric_lab(file, name, as_json, routing_of(routed, routing, srv6=srv6), srv6=srv6, planes=planes)


@lab.command("traffic")
def traffic(
    workload: Annotated[str, typer.Argument(help="permutation, ring, all-to-all, incast, hog or storm.")],
    planned: Annotated[
        bool, typer.Option("--planned/--hashed", help="As a job on planned paths, or on random source ports.")
    ] = True,
    seconds: Annotated[float, typer.Option(help="For how long, 1 to 3,600.")] = 10.0,
    rate: Annotated[
        float | None, typer.Option(metavar="MBIT/S", help="The rate of each flow. [default: its part of the line]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws pairs and ports.")] = 1,
    exceed: Annotated[
        bool,
        typer.Option("--exceed", help="Let planned flows exceed their rates where the plan does (work_conserving)."),
    ] = False,
    paths: Annotated[
        int,
        typer.Option(metavar="K", show_default=False, help="Planned flows spray over K paths each, 1 to 256."),
    ] = 0,
    name: Annotated[str | None, _NAME] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Run a workload on the running lab of `heddle lab fabric`, and print what arrived.

    hog: a ring, and a NIC of no job that sends over its path. storm: two permutations, and a NIC that pauses its switch
    without end. Planned flows follow the controller's decisions while they run. Ctrl-C ends the workload.

    Exit status: 0; 1 where another workload runs, there is no plan, or the lab ends; 2 for bad options or no lab.

    Example: heddle lab traffic permutation --hashed --seconds 30
    """
    from heddle.mininet_topos.playground.command import run_lab_traffic
    from heddle.mininet_topos.playground.traffic import traffic_request

    run_lab_traffic(traffic_request(workload, planned, seconds, rate, seed, exceed, paths), name, as_json)


@lab.command("cut")
def cut(
    link: Annotated[
        str,
        typer.Argument(metavar="LINK", help="A cable, such as 'leaf1:1>spine1:1', or a port's, h1-n0/p0, with planes."),
    ],
    name: Annotated[str | None, _NAME] = None,
) -> None:
    """Cut a cable of the running lab; returns when the controller knows.

    Exit status: 0; 1 where it is cut already; 2 where there is no such cable or lab.

    Example: heddle lab cut 'leaf1:1>spine1:1'
    """
    from heddle.mininet_topos.playground.command import cut_or_heal

    cut_or_heal("cut", link, name)


@lab.command("heal")
def heal(
    link: Annotated[str, typer.Argument(metavar="LINK", help="A cable that `heddle lab cut` has cut.")],
    name: Annotated[str | None, _NAME] = None,
) -> None:
    """Repair a cable of the running lab; returns when the controller uses it again.

    Exit status: 0; 2 where it is not cut, or there is no such cable or lab.

    Example: heddle lab heal 'leaf1:1>spine1:1'
    """
    from heddle.mininet_topos.playground.command import cut_or_heal

    cut_or_heal("heal", link, name)


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
    from heddle.mininet_topos.vpc.command import options_of, run_vpc_lab

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
    from heddle.mininet_topos.host.node_access import node_command_prefix

    prefix, environment = node_command_prefix(lab_id, node)
    try:
        os.execvpe(prefix[0], [*prefix, *command], environment)
    except OSError as error:
        raise PrerequisiteError(f"{prefix[0]}: {error.strerror}") from None

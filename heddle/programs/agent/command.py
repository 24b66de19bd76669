"""The commands `heddle agent` and `heddle agent probe`: their options.

`heddle.programs.agent.options` checks and runs the one, `heddle.programs.agent.probe_command` the other.
"""

from pathlib import Path
from typing import Annotated

import typer

from heddle.controller.model.error import InputError

agent = typer.Typer(
    help="Publish counters of switches and NICs by MQTT, or send the probes of a fabric that hashes.",
    invoke_without_command=True,
    rich_markup_mode=None,
)
Fabric = Annotated[
    str | None, typer.Option(metavar="NAME|FILE", help="The fabric's name, or its file, which maps NICs to hosts.")
]
Source = Annotated[
    str | None, typer.Option(help="emulated (a lab), sonic (COUNTERS_DB), linux (a router) or ethtool (a host's NICs).")
]
Broker = Annotated[str, typer.Option(metavar="HOST:PORT", envvar="HEDDLE_BROKER", help="The MQTT broker.")]
Period = Annotated[str | None, typer.Option(help="Sampling period. [default: 100ms for a lab, else 1s]")]
Id = Annotated[str | None, typer.Option("--id", help="This agent's id. [default: its switch, host or source]")]
Switches = Annotated[list[str] | None, typer.Option(help="A switch; repeatable for a lab. Default: all.")]
Hosts = Annotated[list[str] | None, typer.Option(help="A host; repeatable for a lab. Default: all.")]
Lab = Annotated[Path | None, typer.Option(metavar="DIR", help="emulated: the running lab's directory.")]
Redis = Annotated[str, typer.Option(metavar="URL", help="sonic: its Redis server; default database: 2.")]
Lanes = Annotated[int, typer.Option(min=1, max=64, help="sonic: Ethernet0 is port 1, Ethernet<LANES> is port 2.")]
PortMap = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="sonic, linux: the ports, a line `Ethernet0 1` each; for sonic instead of --lanes."
    ),
]
Nics = Annotated[
    list[str] | None, typer.Option(metavar="NIC=DEVICE", help="ethtool: a NIC's id and its network device.")
]
Lldpd = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SOCKET", help="linux, ethtool: publish what lldpd hears too: its socket; in a lab ROUTER=SOCKET."
    ),
]
Controller = Annotated[
    str | None, typer.Option(metavar="ADDR:PORT", help="ethtool: report the host's queue pairs to this controller.")
]
User = Annotated[str | None, typer.Option(help="User name for the broker.")]
PasswordFile = Annotated[Path | None, typer.Option(metavar="FILE", help="File with the password of --user.")]
TlsCa = Annotated[Path | None, typer.Option(metavar="FILE", help="Use TLS; CA of the broker's certificate.")]
TlsCert = Annotated[Path | None, typer.Option(metavar="FILE", help="Client certificate for TLS.")]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of --tls-cert.")]
Controllers = Annotated[
    str,
    typer.Option(metavar="ADDR:PORT", envvar="HEDDLE_SERVER", help="The controller; of several all, with commas."),
]
Host = Annotated[str, typer.Option(help="The host's id in the fabric file.")]
Devices = Annotated[list[str], typer.Option(help="The network device of a NIC; repeatable.")]
Rate = Annotated[int, typer.Option(min=1, max=1_000_000, help="The most probes per second from one NIC.")]


@agent.callback()
def publish(
    context: typer.Context,
    fabric: Fabric = None,
    source: Source = None,
    broker: Broker = "127.0.0.1:1883",
    period: Period = None,
    agent_id: Id = None,
    switch: Switches = None,
    host: Hosts = None,
    lab: Lab = None,
    redis: Redis = "unix:///var/run/redis/redis.sock",
    lanes: Lanes = 4,
    port_map: PortMap = None,
    nic: Nics = None,
    lldpd: Lldpd = None,
    controller: Controller = None,
    user: User = None,
    password_file: PasswordFile = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Publish the counters of switches or NICs to an MQTT broker once per --period.

    Counters are cumulative; while the broker is unreachable the newest sample of each port is kept. Prints one JSON
    line when ready; logs go to standard error. SIGINT and SIGTERM end it. Exit status: 0; 2 for bad options.

    One agent for a lab:  heddle agent --fabric fabric.yaml --source emulated --lab DIR

    On a SONiC switch:  heddle agent --fabric pod1 --source sonic --switch leaf1 --broker 10.0.0.9:1883

    On a Linux router:  heddle agent --fabric pod1 --source linux --switch leaf1 --port-map /etc/heddle/ports

    On a host:  heddle agent --fabric pod1 --source ethtool --host h1 --nic h1-n0=eth2 --nic h1-n1=eth3

    With --lldpd /run/lldpd.socket it also publishes what the ports hear of their neighbours; on SONiC it always does.

    With --controller, and --fabric FILE, the host's RDMA queue pairs are reported too (`rdma -j resource show qp` and
    `cm_id`).
    """
    if context.invoked_subcommand is not None:
        return
    if fabric is None or source is None:
        raise InputError(f"--{'fabric' if fabric is None else 'source'} is missing (heddle agent --help)")
    from heddle.programs.agent.options import AgentOptions, run_agent

    options = AgentOptions(
        fabric=fabric, source=source, broker=broker, period=period, agent=agent_id, switches=switch or (),
        hosts=host or (), lab=lab, redis=redis, lanes=lanes, port_map=port_map, nics=nic or (),
        lldpd=lldpd or (), controller=controller, user=user,
        password_file=password_file, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key,
    )  # fmt: skip
    run_agent(options)


@agent.command()
def probe(host: Host, device: Devices, controller: Controllers = "127.0.0.1:50051", rate_pps: Rate = 1_000) -> None:
    """Send the probes that the controller orders, and report which routers or agents replied.

    On a fabric that hashes probes find source ports. On others they find cables that lose packets: agents reply to each
    other on UDP port 4796, or probes return by the SIDs in their address (steering: srv6). Probes leave from the
    addresses of --device alone. Prints one JSON line when its sockets are open; logs go to standard error. SIGINT and
    SIGTERM end it. Needs CAP_NET_RAW. With certificates HEDDLE_TLS names their directory.

    Exit status: 0; 2 for bad options; 1 if it cannot run on this host, with a one-line reason.

    Example: heddle agent probe --host h1 --device eth2 --device eth3 --controller 10.0.0.9:50051
    """
    from heddle.programs.agent.probe_command import ProbeOptions, run_probe_agent

    run_probe_agent(ProbeOptions(controller=controller, host=host, devices=device, rate_pps=rate_pps))

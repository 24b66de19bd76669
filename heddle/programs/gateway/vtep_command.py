"""The program `heddle vtep`: options and start of a host's VTEP agent."""

import asyncio
import json
import logging
import re
import signal
import sys
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from heddle.dataplane.vtep.claims import endpoint_of
from heddle.foundation.identity import TLS_VARIABLE

if TYPE_CHECKING:
    from heddle.dataplane.vtep.agent import Driver
    from heddle.foundation.tls_files import Tls

Server = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", envvar="HEDDLE_SERVER", help="The controller's gRPC address, ADDR:PORT or unix:/PATH."
    ),
]
Host = Annotated[str, typer.Option(help="This host's id, unique among hosts and gateways.")]
Vtep = Annotated[str, typer.Option(metavar="IP", help="This host's VTEP: an IPv4 address of its own on the underlay.")]
Mtu = Annotated[int, typer.Option(min=576, max=65535, help="The underlay's MTU; VPCs get 50 bytes less.")]
Ports = Annotated[
    list[str] | None,
    typer.Option("--port", metavar="VNI/MAC=INTERFACE", help="An endpoint's interface on this host; may be repeated."),
]
Bridge = Annotated[
    str | None,
    typer.Option(
        "--open-vswitch", metavar="BRIDGE", help="Program this bridge of Open vSwitch instead of the kernel's VXLAN."
    ),
]
Certificate = Annotated[
    str | None,
    typer.Option(
        "--tls", metavar="DIR", envvar=TLS_VARIABLE, help="The directory of `heddle pki issue`: mutual TLS; else none."
    ),
]
_INTERFACE = re.compile(r"\S{1,15}")


def vtep(
    server: Server,
    host: Host,
    vtep: Vtep,
    underlay_mtu: Mtu = 1500,
    port: Ports = None,
    open_vswitch: Bridge = None,
    tls: Certificate = None,
) -> None:
    """Program this host's VXLAN as the controller configures, for VPCs with an endpoint here. No learning, no flooding.

    Each VPC gets a bridge `hb<VNI>` and a VXLAN device `hx<VNI>` of the kernel, or flows on one bridge of Open vSwitch.
    Endpoints' interfaces are attached to the bridge when they appear, and detached when they are no longer endpoints:
    those that --port names, and those with an alias (ip link set INTERFACE alias heddle:VNI/MAC). Prints one JSON line
    when it is ready; SIGINT and SIGTERM end it and leave all state in place (fail-static). Needs root.
    Exit status: 0; 1 if it cannot run on this host; 2 for bad options.

    heddle vtep --server 10.0.0.9:50051 --host h1 --vtep 192.168.100.1 --port 100/02:00:00:00:00:01=tap-red1
    """
    try:
        address = IPv4Address(vtep)
    except ValueError:
        _refuse(f"--vtep: {vtep!r} is no IPv4 address such as 192.168.100.1")
    ports = {}
    for text in port or ():
        key, _, interface = text.partition("=")
        endpoint = endpoint_of(key)
        if endpoint is None or not _INTERFACE.fullmatch(interface):
            _refuse(f"--port: {text!r} is not VNI/MAC=INTERFACE, such as 100/02:00:00:00:00:01=tap-red1")
        else:
            ports[endpoint] = interface
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    asyncio.run(_serve(server, host, address, _driver(address, underlay_mtu, open_vswitch), ports, _tls(tls)))


def _refuse(line: str) -> NoReturn:
    print(f"heddle vtep: {line}", file=sys.stderr)
    raise SystemExit(2)


def _driver(address: IPv4Address, mtu: int, bridge: str | None) -> "Driver":
    from heddle.dataplane.vtep.linux import LinuxVtep, VtepError
    from heddle.dataplane.vtep.openvswitch import OpenVSwitchVtep

    driver = LinuxVtep(address, mtu) if bridge is None else OpenVSwitchVtep(address, bridge)
    try:
        driver.check()
    except VtepError as error:
        print(f"heddle vtep: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    return driver


def _tls(directory: str | None) -> "Tls | None":
    from heddle.foundation.certificate import CertificateError
    from heddle.foundation.tls_files import named_tls

    try:
        return named_tls(directory, logging.getLogger("heddle.gateway").error)
    except CertificateError as error:
        _refuse(f"--tls: {error}")


async def _serve(
    server: str, host: str, address: IPv4Address, driver: "Driver", ports: dict[tuple[int, int], str],
    tls: "Tls | None",
) -> None:  # fmt: skip
    from heddle.dataplane.vtep.agent import VtepAgent

    running = asyncio.create_task(VtepAgent(server, host, address, driver, ports, tls).run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    print(json.dumps({"vtep": str(address), "host": host, "server": server}), flush=True)
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()

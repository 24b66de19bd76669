"""The configuration file of `heddle balancer`: the balancer itself, the VPCs and the load balancers that it serves.

The keys of `vpcs` and `load_balancers` are those of the contract's messages `Vpc` and `LoadBalancer`. With the key
`controller` they come from there, as do the gateways; `sites` stay the balancer's own.
"""

from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from google.protobuf.json_format import ParseDict, ParseError
from pydantic import Field, ValidationError

from heddle.controller.config.exposure import metrics_problems
from heddle.controller.config.gateways import gateway_file as gateway
from heddle.controller.config.gateways.gateway_file import AddressPort, Ip4, Net4, PartnerShape, Server, TimeoutsShape
from heddle.controller.config.text.complaint import refusal
from heddle.controller.config.text.document import MAX_SETTINGS_BYTES, read_document
from heddle.controller.config.text.field import Id, Mac, Shape
from heddle.controller.config.text.messages import misread_numbers
from heddle.controller.config.text.sample_file import sample
from heddle.controller.config.text.shape_error import shape_problems
from heddle.controller.config.tls import ClientTlsShape
from heddle.controller.model.admission import Problem
from heddle.dataplane.config.balancers import BalancerConfig, Site
from heddle.dataplane.config.check_balancers import balancer_problems
from heddle.dataplane.config.check_change import network_problems
from heddle.dataplane.config.check_local import local_problems
from heddle.dataplane.config.local import Interface, Limits, LocalConfig, PortShare, Side, Timeouts
from heddle.dataplane.config.network import Address, NetworkConfig
from heddle.dataplane.config.refusal import ConfigError
from heddle.dataplane.config.wire import vpc_from
from heddle.dataplane.config.wire_balancers import load_balancer_from
from heddle.v1 import heddle_pb2 as pb

_LOCAL = LocalConfig(gateway_id="", interfaces=())
CONNECTIONS = 1 << 20
CONTROLLERS = ("vpcs", "load_balancers", "gateways")
"""Keys of what a controller sends."""
HALF = PortShare(last=32_767)
"""A pair of gateways divides the ports of addresses that both translate to. Balancers have pools of their own: any
part will do."""


class InterfaceShape(Shape):
    """One of `interfaces`."""

    name: Annotated[str, Field(min_length=1, max_length=15)] = Field(
        description="the network device on the underlay, whose frames the balancer takes from the kernel",
        examples=["eth1"],
    )
    mac: Mac | None = Field(default=None, description="the MAC it answers with; null: the device's own")
    address: Ip4 = Field(description="the balancer's VTEP", examples=["192.0.2.3"])
    network: Net4 | None = Field(
        default=None, description="the prefix whose addresses are reached directly", examples=["192.0.2.0/24"]
    )
    router: Ip4 | None = Field(default=None, description="next hop for everything else", examples=["192.0.2.254"])
    mtu_bytes: Annotated[int, Field(ge=576, le=9_198)] = Field(default=1500, description="of IP packets")


class SiteShape(Shape):
    """One of `sites`: what else the balancer must know of a VPC."""

    vpc: Id = Field(description="id of the VPC", examples=["red"])
    source_pool: list[str] = Field(
        default_factory=list,
        description="source addresses of full NAT in the VPC, which hosts reach at this balancer alone",
        examples=[["10.0.0.201"]],
    )
    probe_device: str | None = Field(
        default=None, description="the device by which probes reach the VPC; null: by this host's routes"
    )


class BalancerShape(Shape):
    """A whole balancer file."""

    version: Literal[1] = Field(default=1, description="of this file's format")
    balancer_id: Id = Field(description="the balancer's name", examples=["lb1"])
    interfaces: Annotated[list[InterfaceShape], Field(min_length=1)] = Field(
        description="the network devices that the balancer owns while it runs"
    )
    controller: Server | None = Field(
        default=None,
        description="the controller that sends VPCs, load balancers and gateways; null: those of this file",
        examples=["10.0.0.9:50051"],
    )
    gateways: list[Ip4] = Field(
        default_factory=list, description="VTEPs of the VPCs' gateways, from which clients outside come"
    )
    vpcs: list[dict[str, Any]] = Field(
        default_factory=list, description="the VPCs with their endpoints; keys of the contract's message Vpc"
    )
    load_balancers: list[dict[str, Any]] = Field(
        default_factory=list, description="virtual IPs; keys of the contract's message LoadBalancer"
    )
    sites: list[SiteShape] = Field(default_factory=list, description="what else to know of a VPC")
    connections: int = Field(default=CONNECTIONS, description="connections at a time; a power of two")
    timeouts: TimeoutsShape = Field(default=TimeoutsShape(), description="when what is idle ends, seconds")
    partner: PartnerShape | None = Field(
        default=None, description="the other balancer of a pair, with which connections are exchanged; null: none"
    )
    tls: ClientTlsShape | None = Field(
        default=None, description="mutual TLS with the controller; null: none, which a socket file needs not"
    )
    metrics: AddressPort = Field(
        default="127.0.0.1:0", description="where Prometheus scrapes (HTTP, /metrics); port 0: any free one"
    )
    insecure: bool = Field(
        default=False,
        description="the metrics may be at an address beyond loopback, without TLS; logged as a warning every hour",
    )
    runtime_dir: str = Field(
        default="/run/heddle", description="directory of the status socket for `heddle balancer show`", min_length=1
    )
    backend: Literal["auto", "af-xdp", "af-packet"] = Field(
        default="auto", description="AF_XDP, AF_PACKET rings, or the first of them that works here"
    )
    busy_poll: bool = Field(default=False, description="never sleep: less latency, uses a whole core")
    cpu: Annotated[int, Field(ge=0, le=4_095)] | None = Field(
        default=None, description="the core that processes packets; null: any"
    )
    receive_frames: int = Field(default=_LOCAL.receive_frames, description="frames that can wait per receive queue")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="the least severity that is logged to standard error"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerFile(gateway.GatewayConfig):
    """The content of a balancer file."""

    services: BalancerConfig
    """What is served at the start; with a controller, nothing."""
    sites: tuple[Site, ...]


def load_balancer_file(path: Path) -> BalancerFile:
    """Read a balancer file; raises InputError with all problems found."""
    name, values = read_document(path, MAX_SETTINGS_BYTES)
    try:
        shape = BalancerShape.model_validate(values)
    except ValidationError as error:
        raise refusal(name, shape_problems(error, BalancerShape)) from None
    if shape.controller is not None and (given := [key for key in CONTROLLERS if getattr(shape, key)]):
        raise refusal(name, [Problem(key, "comes from the controller; leave it out, or `controller`") for key in given])
    try:
        local, sites, services = _local(shape), _sites(shape), _services(shape)
    except (ConfigError, ValueError) as error:
        raise refusal(name, [Problem("", line) for line in str(error).splitlines()]) from None
    problems = [*local_problems(local), *network_problems(services.network), *balancer_problems(services)]
    if found := [*(Problem("", line) for line in problems), *metrics_problems(shape.metrics, insecure=shape.insecure)]:
        raise refusal(name, found)
    partner = gateway.pair_of(name, shape.partner, replace(local, nat_ports=HALF))
    common = gateway.process_keys(name, shape, "balancer")
    return BalancerFile(**common, local=local, partner=partner, services=services, sites=sites)


def printed() -> str:
    """Return a sample balancer file: every key with its meaning, and its default or an example."""
    return sample("The config file of `heddle balancer --config FILE`, with every key at its default.", BalancerShape)


def _local(shape: BalancerShape) -> LocalConfig:
    interfaces = []
    for one in shape.interfaces:
        mac = one.mac or gateway.own_mac(one.name)
        if mac is None:
            raise ValueError(f"interfaces: there is no network device {one.name!r} here; `ip link` lists them")
        interfaces.append(
            Interface(
                name=one.name,
                side=Side.UNDERLAY,
                mac=mac,
                address=one.address,
                network=one.network,
                router=one.router,
                mtu_bytes=one.mtu_bytes,
            )
        )
    return LocalConfig(
        gateway_id=shape.balancer_id,
        interfaces=tuple(interfaces),
        limits=Limits(connections=shape.connections),
        timeouts=Timeouts(**shape.timeouts.model_dump()),
        receive_frames=shape.receive_frames,
    )


def _services(shape: BalancerShape) -> BalancerConfig:
    """Return what the file says to serve; raises ValueError with one line per problem."""
    vpcs = [_message(values, pb.Vpc(), f"vpcs[{i}]") for i, values in enumerate(shape.vpcs)]
    messages = [
        _message(values, pb.LoadBalancer(), f"load_balancers[{i}]") for i, values in enumerate(shape.load_balancers)
    ]
    return BalancerConfig(
        network=NetworkConfig(generation=1, vpcs=tuple(vpc_from(vpc) for vpc in vpcs)),
        balancers=tuple(map(load_balancer_from, messages)),
        sites=() if shape.controller is not None else _sites(shape),
        gateways=tuple(shape.gateways),
    )


def _sites(shape: BalancerShape) -> tuple[Site, ...]:
    return tuple(
        Site(vpc=one.vpc, pool=tuple(map(_address, one.source_pool)), probe_device=one.probe_device)
        for one in shape.sites
    )


def _message(values: dict[str, Any], message: Any, place: str) -> Any:
    if misread := next(misread_numbers(values, message.DESCRIPTOR, place), None):
        raise ValueError(f"{misread.path}: {misread.text}")
    try:
        return ParseDict(values, message)
    except ParseError as error:
        raise ValueError(f"{place}: {error}") from None


def _address(text: str) -> Address:
    try:
        found: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        raise ValueError(f"{text!r} is no IP address") from None
    return found

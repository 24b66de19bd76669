"""The configuration file of `heddle gateway`: keys with their meaning and default, and the reader."""

import fcntl
import ipaddress
import logging
import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, ValidationError

from heddle.controller.config.exposure import metrics_problems
from heddle.controller.config.text.complaint import refusal, shown
from heddle.controller.config.text.document import MAX_SETTINGS_BYTES, read_document
from heddle.controller.config.text.field import Id, Mac, Shape, refuse
from heddle.controller.config.text.sample_file import sample
from heddle.controller.config.text.shape_error import shape_problems
from heddle.controller.config.tls import ClientTlsShape, client_tls
from heddle.controller.model.admission import Problem
from heddle.controller.model.server_address import is_address_port, is_socket
from heddle.dataplane.config.check_local import local_problems
from heddle.dataplane.config.check_pair import pair_problems
from heddle.dataplane.config.local import Interface, Limits, LocalConfig, PortShare, ProviderNetwork, Side, Timeouts
from heddle.dataplane.config.pair import Mode, PairConfig
from heddle.dataplane.config.pair import Path as PairPath
from heddle.foundation.network import Network
from heddle.foundation.regular_file import read_regular
from heddle.foundation.tls_files import Tls

MIN_KEY_BYTES, MAX_KEY_BYTES = 16, 4_096
SIOCGIFHWADDR = 0x8927  # netdevice(7)
_LIMITS, _TIMEOUTS, _SHARE, _PAIR = Limits(), Timeouts(), PortShare(), PairConfig(partner_id="", paths=())
_LOCAL = LocalConfig(gateway_id="", interfaces=())
"""The defaults of the keys are those of the values built from the file."""


def _parsed(parse: Any, what: str) -> Any:
    def value(given: object) -> Any:
        if not isinstance(given, str):
            refuse(f"must be {what}, is {shown(given)}; put it in quotes")
        try:
            return parse(given)
        except ValueError as error:
            why = f" ({error})" if "host bits" in str(error) else ""
            refuse(f"{shown(given)} is not {what}{why}")

    return PlainValidator(value)


def _address_port(text: str) -> str:
    if not is_address_port(text):
        raise ValueError
    return text


def _server(text: str) -> str:
    if not is_address_port(text) and not is_socket(text):
        raise ValueError
    return text


Ip4 = Annotated[IPv4Address, _parsed(IPv4Address, "an IPv4 address such as 192.0.2.1")]
Net4 = Annotated[IPv4Network, _parsed(IPv4Network, "an IPv4 network such as 192.0.2.0/24")]
Net = Annotated[IPv4Network | IPv6Network, _parsed(ipaddress.ip_network, "a network such as 10.9.0.0/16")]
AddressPort = Annotated[str, _parsed(_address_port, "ADDR:PORT such as 127.0.0.1:50051")]
Server = Annotated[str, _parsed(_server, "ADDR:PORT such as 127.0.0.1:50051, or unix:/PATH of a socket")]
Seconds = Annotated[int, Field(ge=1, le=10_000_000)]
PortNumber = Annotated[int, Field(ge=1, le=65_535)]


class InterfaceShape(Shape):
    """One of `interfaces`."""

    name: Annotated[str, Field(min_length=1, max_length=15)] = Field(
        description="the network device, whose frames the gateway takes from the kernel", examples=["eth1"]
    )
    side: Literal["underlay", "external", "customer", "provider"] = Field(
        description="what it leads to: underlay (hosts, by VXLAN), external (the internet), customer (802.1Q towards "
        "customers' routers) or provider (the provider's own networks, behind the border firewall)",
        examples=["underlay"],
    )
    mac: Mac | None = Field(default=None, description="the MAC it answers with; null: the device's own")
    address: Ip4 | None = Field(
        default=None,
        description="underlay: the gateway's VTEP; external and provider: its own address there; customer: none",
        examples=["192.0.2.1"],
    )
    network: Net4 | None = Field(
        default=None, description="the prefix whose addresses are reached directly", examples=["192.0.2.0/24"]
    )
    router: Ip4 | None = Field(default=None, description="next hop for everything else", examples=["192.0.2.254"])
    mtu_bytes: Annotated[int, Field(ge=576, le=9_198)] = Field(
        default=1500, description="of IP packets; VXLAN's 50 bytes are taken from the underlay's"
    )


class ProviderNetworkShape(Shape):
    """One of `provider_networks`."""

    network: Literal[tuple(one.value for one in Network)] = Field(  # type: ignore[valid-type]
        description="which of the four networks", examples=["storage"]
    )
    prefixes: Annotated[list[Net], Field(min_length=1)] = Field(
        description="its prefixes", examples=[["10.200.0.0/16"]]
    )


class PortShareShape(Shape):
    """`nat_ports`."""

    first: PortNumber = Field(default=_SHARE.first, description="the least port that source NAT may use")
    last: PortNumber = Field(default=_SHARE.last, description="the last; the ranges of partners must not overlap")


class LimitsShape(Shape):
    """`limits`."""

    connections: int = Field(default=_LIMITS.connections, description="connections at a time; a power of two")
    mappings: int = Field(default=_LIMITS.mappings, description="NAT mappings at a time; a power of two")
    fragments: int = Field(default=_LIMITS.fragments, description="fragmented packets at a time; a power of two")
    connections_per_endpoint: int = Field(
        default=_LIMITS.connections_per_endpoint,
        description="so that one endpoint's flood leaves room for the others",
    )
    vpc_percent: int = Field(
        default=_LIMITS.vpc_percent,
        description="how much of each of these tables a VPC may fill that is alone; 100: all of it",
    )
    endpoint_ports_percent: int = Field(
        default=_LIMITS.endpoint_ports_percent,
        description="how many of the ports of a public address an endpoint may have that is alone; 100: all of them",
    )


class TimeoutsShape(Shape):
    """`timeouts`."""

    udp_s: Seconds = Field(default=_TIMEOUTS.udp_s, description="idle UDP (RFC 4787, REQ-5)")
    udp_exchange_s: Seconds = Field(
        default=_TIMEOUTS.udp_exchange_s,
        description="UDP to a port below 1024 after one request and one reply, as of DNS",
    )
    udp_unanswered_s: Seconds = Field(default=_TIMEOUTS.udp_unanswered_s, description="UDP without a reply so far")
    tcp_established_s: Seconds = Field(default=_TIMEOUTS.tcp_established_s, description="idle TCP (RFC 5382, REQ-5)")
    tcp_transitory_s: Seconds = Field(default=_TIMEOUTS.tcp_transitory_s, description="TCP while opening or closing")
    icmp_s: Seconds = Field(default=_TIMEOUTS.icmp_s, description="ICMP (RFC 5508, REQ-2)")
    other_s: Seconds = Field(default=_TIMEOUTS.other_s, description="other protocols")
    fragment_s: Seconds = Field(default=_TIMEOUTS.fragment_s, description="fragments after their first")


class PathShape(Shape):
    """One of `paths`."""

    listen: AddressPort = Field(description="ADDR:PORT of this gateway, UDP and TCP", examples=["10.0.0.1:4790"])
    partner: AddressPort = Field(description="ADDR:PORT of the partner", examples=["10.0.0.2:4790"])


class TakenShape(Shape):
    """One of `takes_over`."""

    interface: str = Field(description="on which interface", examples=["eth1"])
    address: Ip4 = Field(description="the partner's address there", examples=["192.0.2.2"])


class PartnerShape(Shape):
    """`partner`: the other gateway of a pair."""

    partner_id: Id = Field(description="the partner's gateway_id", examples=["gw2"])
    mode: Literal["active-standby", "active-active"] = Field(
        default="active-standby",
        description="active-standby: the lower gateway_id serves; active-active: each serves its own VTEP",
    )
    paths: Annotated[list[PathShape], Field(min_length=1)] = Field(
        description="paths to the partner; with two, a network failure does not look like a failure of the partner. "
        "Heartbeats use all of them, copies of connections the first"
    )
    takes_over: list[TakenShape] = Field(
        default_factory=list, description="the partner's addresses that are served while the partner is not"
    )
    interval_ms: int = Field(default=_PAIR.interval_ms, description="between heartbeats")
    missed: int = Field(
        default=_PAIR.missed, description="consecutive heartbeats missed until the partner counts as dead"
    )
    preempt: bool = Field(
        default=_PAIR.preempt, description="take over again by itself once it is back and has all connections"
    )
    hold_s: Annotated[int, Field(ge=0, le=86_400)] = Field(
        default=_PAIR.hold_s, description="how long it must have heard its partner without a break before"
    )
    key_file: str | None = Field(
        default=None,
        description="a file with a secret that both have; authenticates heartbeats and copies of connections",
    )


class GatewayShape(Shape):
    """A whole gateway file."""

    gateway_id: Id = Field(description="the gateway's name, which the controller knows it by", examples=["gw1"])
    interfaces: Annotated[list[InterfaceShape], Field(min_length=1)] = Field(
        description="the network devices that the gateway owns while it runs, one of them of the underlay"
    )
    provider_networks: list[ProviderNetworkShape] = Field(
        default_factory=list, description="what is behind the interface of side provider"
    )
    nat_ports: PortShareShape = Field(default=PortShareShape(), description="this gateway's part of the NAT ports")
    limits: LimitsShape = Field(default=LimitsShape(), description="sizes of the tables that traffic fills")
    timeouts: TimeoutsShape = Field(default=TimeoutsShape(), description="when what is idle ends, seconds")
    controller: Server | None = Field(
        default=None,
        description="the controller's gRPC address, ADDR:PORT or unix:/PATH; null: --network names the network file",
    )
    partner: PartnerShape | None = Field(default=None, description="the other gateway of a pair; null: there is none")
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
        default="/run/heddle", description="directory of the status socket for `heddle gateway show`", min_length=1
    )
    backend: Literal["auto", "af-xdp", "af-packet"] = Field(
        default="auto", description="AF_XDP, AF_PACKET rings, or the first of them that works here"
    )
    busy_poll: bool = Field(default=False, description="never sleep: less latency, uses a whole core")
    cpu: Annotated[int, Field(ge=0, le=4_095)] | None = Field(
        default=None, description="the core that processes packets; null: any"
    )
    receive_frames: int = Field(
        default=_LOCAL.receive_frames,
        description="frames that can wait in each receive queue while the gateway does not get to run, a power of two; "
        "each takes 2 KiB of memory, 4 where an MTU is above 1770 (AF_PACKET: 2 to 16, at most 32 MiB an interface)",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="the least severity that is logged to standard error"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The content of a gateway file, and of a balancer file as far as both have the same keys."""

    local: LocalConfig
    controller: str | None
    partner: PairConfig | None
    tls: Tls | None
    metrics: str
    runtime_dir: Path
    backend: str
    busy_poll: bool
    cpu: int | None
    log_level: str


def load_gateway(path: Path) -> GatewayConfig:
    """Read a gateway file; raises InputError with all problems found."""
    name, values = read_document(path, MAX_SETTINGS_BYTES)
    try:
        shape = GatewayShape.model_validate(values)
    except ValidationError as error:
        raise refusal(name, shape_problems(error, GatewayShape)) from None
    local = _local(name, shape)
    found = [Problem(*_placed(line)) for line in local_problems(local)]
    if found := [*found, *metrics_problems(shape.metrics, insecure=shape.insecure)]:
        raise refusal(name, found)
    return GatewayConfig(
        **process_keys(name, shape, "gateway"), local=local, partner=pair_of(name, shape.partner, local)
    )


def process_keys(name: str, shape: Any, kind: str) -> dict[str, Any]:
    """Return the fields of GatewayConfig that are about the process, from the shape of either kind of file."""
    return {
        "controller": shape.controller,
        "tls": client_tls(name, shape.tls, logging.getLogger(f"heddle.{kind}").error),
        "metrics": shape.metrics,
        "runtime_dir": Path(shape.runtime_dir),
        "backend": shape.backend,
        "busy_poll": shape.busy_poll,
        "cpu": shape.cpu,
        "log_level": shape.log_level,
    }


def printed() -> str:
    """Return a sample gateway file: every key with its meaning, and its default or an example."""
    return sample("The config file of `heddle gateway --config FILE`, with every key at its default.", GatewayShape)


def _local(name: str, shape: GatewayShape) -> LocalConfig:
    """Return the gateway's local configuration; raises InputError for a network device that does not exist."""
    missing = [
        Problem(f"interfaces[{i}].name", f"there is no network device {shown(one.name)} here; `ip link` lists them")
        for i, one in enumerate(shape.interfaces)
        if one.mac is None and own_mac(one.name) is None
    ]
    if missing:
        raise refusal(name, missing)
    return LocalConfig(
        gateway_id=shape.gateway_id,
        interfaces=tuple(
            Interface(
                name=one.name,
                side=Side(one.side),
                mac=one.mac or own_mac(one.name) or 0,
                address=one.address,
                network=one.network,
                router=one.router,
                mtu_bytes=one.mtu_bytes,
            )
            for one in shape.interfaces
        ),
        provider_networks=tuple(
            ProviderNetwork(realm=Network(one.network), prefixes=tuple(one.prefixes)) for one in shape.provider_networks
        ),
        nat_ports=PortShare(first=shape.nat_ports.first, last=shape.nat_ports.last),
        limits=Limits(**shape.limits.model_dump()),
        timeouts=Timeouts(**shape.timeouts.model_dump()),
        receive_frames=shape.receive_frames,
    )


def pair_of(name: str, partner: PartnerShape | None, local: LocalConfig) -> PairConfig | None:
    """Return the partner's configuration; raises InputError for an unreadable key file or an invalid pair."""
    if partner is None:
        return None
    pair = PairConfig(
        partner_id=partner.partner_id,
        mode=Mode(partner.mode),
        paths=tuple(PairPath(listen=one.listen, partner=one.partner) for one in partner.paths),
        takes_over=tuple((one.interface, one.address) for one in partner.takes_over),
        interval_ms=partner.interval_ms,
        missed=partner.missed,
        preempt=partner.preempt,
        hold_s=partner.hold_s,
        key=_key(name, partner.key_file) if partner.key_file else b"",
    )
    if found := [Problem(*line.split(": ", 1)) for line in pair_problems(local, pair)]:
        raise refusal(name, found)
    return pair


def _key(name: str, file: str) -> bytes:
    try:
        key = read_regular(file, MAX_KEY_BYTES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise refusal(name, [Problem("partner.key_file", f"{shown(file)}: {why}")]) from None
    if not key.strip(b"\0"):
        raise refusal(name, [Problem("partner.key_file", f"{shown(file)}: {len(key)} zero bytes are no secret")])
    key = key.strip()
    if len(key) < MIN_KEY_BYTES:
        raise refusal(name, [Problem("partner.key_file", f"a secret of {len(key)} bytes; {MIN_KEY_BYTES} at least")])
    return key


def _placed(line: str) -> tuple[str, str]:
    """Split a problem (`gateway ID: place: text`) into its place and its text."""
    place, _, text = line.split(": ", 1)[-1].partition(": ")
    return place, text


def own_mac(device: str) -> int | None:
    """Return a network device's MAC; None if there is no such device, or it has none."""
    request = struct.pack("16s240x", device.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        try:
            reply = fcntl.ioctl(end.fileno(), SIOCGIFHWADDR, request)
        except OSError:
            return None
    return int.from_bytes(reply[18:24], "big") or None

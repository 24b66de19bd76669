"""Validate a gateway's local configuration: interfaces, provider networks, limits and timeouts."""

from collections.abc import Iterator

from heddle.dataplane.config.addresses import overlap
from heddle.dataplane.config.check import is_edge
from heddle.dataplane.config.local import Limits, LocalConfig, Side, Timeouts

MAX_INTERFACES = 16
MIN_MTU_BYTES, MAX_MTU_BYTES = 576, 65_535
MAX_TABLE_ROWS = 1 << 24
MIN_RECEIVE_FRAMES, MAX_RECEIVE_FRAMES = 1 << 8, 1 << 16
MULTICAST = 1 << 40


def local_problems(local: LocalConfig) -> tuple[str, ...]:
    """Return one line per problem, with its field; empty for a valid configuration."""
    return tuple(f"gateway {local.gateway_id or '?'}: {line}" for line in _all(local))


def _all(local: LocalConfig) -> Iterator[str]:
    if not local.gateway_id:
        yield "gateway_id: must not be empty"
    yield from _interfaces(local)
    yield from _provider_networks(local)
    ports = local.nat_ports
    if not 1 <= ports.first <= ports.last <= 65_535:
        yield f"nat_ports: {ports.first} to {ports.last} is no range of ports within 1 to 65535"
    for name in Limits.__slots__:
        rows = getattr(local.limits, name)
        if name not in ("connections_per_endpoint", "vpc_percent", "endpoint_ports_percent") and (
            rows < 2 or rows & (rows - 1) or rows > MAX_TABLE_ROWS
        ):
            yield f"limits.{name}: {rows} is no power of two from 2 to {MAX_TABLE_ROWS}"
    if local.limits.connections_per_endpoint < 1:
        yield f"limits.connections_per_endpoint: {local.limits.connections_per_endpoint} is less than 1"
    for name in ("vpc_percent", "endpoint_ports_percent"):
        if not 1 <= getattr(local.limits, name) <= 100:
            yield f"limits.{name}: {getattr(local.limits, name)} is not within 1 to 100"
    for name in Timeouts.__slots__:
        if getattr(local.timeouts, name) < 1:
            yield f"timeouts.{name}: {getattr(local.timeouts, name)} is less than 1"
    frames = local.receive_frames
    if not MIN_RECEIVE_FRAMES <= frames <= MAX_RECEIVE_FRAMES or frames & (frames - 1):
        yield f"receive_frames: {frames} is no power of two from {MIN_RECEIVE_FRAMES} to {MAX_RECEIVE_FRAMES}"


def _interfaces(local: LocalConfig) -> Iterator[str]:
    if len(local.interfaces) > MAX_INTERFACES:
        yield f"interfaces: {len(local.interfaces)}; at most {MAX_INTERFACES}"
    names = [interface.name for interface in local.interfaces]
    for name in {name for name in names if names.count(name) > 1}:
        yield f"interfaces: {name} is there twice"
    underlays = [interface for interface in local.interfaces if interface.side is Side.UNDERLAY]
    if not underlays:
        yield "interfaces: none is of the underlay; VXLAN packets come and go there"
    for interface in local.interfaces:
        place = f"interface {interface.name}"
        if interface.address is None and interface.side is not Side.CUSTOMER:
            yield f"{place}: address: one is needed on the {interface.side} side"
        if not 0 < interface.mac < 1 << 48 or interface.mac & MULTICAST:
            yield f"{place}: mac: {interface.mac:#x} is no unicast MAC"
        if not MIN_MTU_BYTES <= interface.mtu_bytes <= MAX_MTU_BYTES:
            yield f"{place}: mtu_bytes: {interface.mtu_bytes} is not within {MIN_MTU_BYTES} to {MAX_MTU_BYTES}"
        if interface.network and interface.address and interface.address not in interface.network:
            yield (
                f"{place}: address: {interface.address} is not in {interface.network}, the interface's network; "
                "correct one of them"
            )
        if interface.network and interface.router and interface.router not in interface.network:
            yield f"{place}: router: {interface.router} is not in {interface.network}"
        if interface.router is not None and interface.router == interface.address:
            yield f"{place}: router: {interface.router} is the interface's own address; name that of the next hop"
        for field, address in (("address", interface.address), ("router", interface.router)):
            if interface.network and address and is_edge(interface.network, address):
                yield f"{place}: {field}: {address} is the network's or broadcast address of {interface.network}"


def _provider_networks(local: LocalConfig) -> Iterator[str]:
    """Check that no address is of two networks: a border rule names the prefixes of one network."""
    known = [(network.realm, prefix) for network in local.provider_networks for prefix in network.prefixes]
    for i, (realm, prefix) in enumerate(known):
        for other, another in known[:i]:
            if other is not realm and overlap(prefix, another):
                yield f"provider_networks: {prefix} of {realm} overlaps {another} of {other}"
    if known and not any(interface.side is Side.PROVIDER for interface in local.interfaces):
        yield "provider_networks: there is no interface on the provider side to reach them by"

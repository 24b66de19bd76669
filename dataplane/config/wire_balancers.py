"""Convert load balancers between protobuf messages and frozen values.

As in `wire`, decoding refuses malformed text, and `check_balancers` validates whether the values fit together. A
back end's port of 0 is that of the virtual IP, as proto3 has no other absence. Its weight is 1 where it is absent, and
0 is a weight.
"""

from collections.abc import Callable, Iterable
from ipaddress import ip_address

from heddle.dataplane.config.balancers import (
    BackEnd,
    BackEndState,
    HealthCheck,
    LoadBalancer,
    Mode,
    Probe,
    Service,
    VirtualIp,
)
from heddle.dataplane.config.network import Address
from heddle.dataplane.config.refusal import ConfigError, refuse
from heddle.dataplane.config.wire import FieldReader
from heddle.v1 import heddle_pb2 as pb

_PROTOCOLS = {each.value: each for each in Service}
_MODES = {each.value: each for each in Mode}
_PROBES = {each.value: each for each in Probe}
_CHECK = HealthCheck()
Pools = dict[str, tuple[Address, ...]]
"""Source addresses of full NAT by VPC."""


def load_balancer_from(message: pb.LoadBalancer) -> LoadBalancer:
    """Decode a load balancer; raises ConfigError."""
    read = FieldReader(f"load balancer {message.id or '?'}")
    found = LoadBalancer(
        id=message.id,
        tenant=message.tenant,
        vpc=message.vpc_id,
        vip=read.address("vip", message.vip),
        port=message.port,
        protocol=read.choice("protocol", message.protocol, _PROTOCOLS, default=Service.TCP.value),
        mode=read.choice("mode", message.mode, _MODES, default=Mode.DIRECT_RETURN.value),
        back_ends=tuple(
            BackEnd(
                ip=read.address(f"backends[{i}].ip", end.ip),
                port=end.port or message.port,
                weight=end.weight if end.HasField("weight") else 1,
                draining=end.draining,
            )
            for i, end in enumerate(message.backends)
        ),
        health=_check_from(read, message.health_check) if message.HasField("health_check") else None,
        panic_when_all_down=message.panic_when_all_down,
    )
    refuse(read.problems)
    return found


def _check_from(read: FieldReader, check: pb.HealthCheck) -> HealthCheck:
    interval_ms = check.interval_ms or _CHECK.interval_ms
    return HealthCheck(
        kind=read.choice("health_check.kind", check.kind, _PROBES, default=Probe.TCP.value),
        path=check.path or _CHECK.path,
        interval_ms=interval_ms,
        timeout_ms=check.timeout_ms or min(_CHECK.timeout_ms, interval_ms),
        rise=check.rise or _CHECK.rise,
        fall=check.fall or _CHECK.fall,
        passive=check.passive,
    )


def load_balancer_to(
    balancer: LoadBalancer, is_healthy: Callable[[BackEnd], bool] = lambda end: False
) -> pb.LoadBalancer:
    """Encode a load balancer with all defaults filled in."""
    check = balancer.health
    return pb.LoadBalancer(
        id=balancer.id,
        tenant=balancer.tenant,
        vip=str(balancer.vip),
        port=balancer.port,
        protocol=balancer.protocol.value,
        backends=[
            pb.Backend(ip=str(end.ip), port=end.port, weight=end.weight, draining=end.draining, healthy=is_healthy(end))
            for end in balancer.back_ends
        ],
        health_check=None if check is None else _check_to(check),
        vpc_id=balancer.vpc,
        mode=balancer.mode.value,
        panic_when_all_down=balancer.panic_when_all_down,
    )


def _check_to(check: HealthCheck) -> pb.HealthCheck:
    return pb.HealthCheck(
        kind=check.kind.value,
        path=check.path,
        interval_ms=check.interval_ms,
        timeout_ms=check.timeout_ms,
        rise=check.rise,
        fall=check.fall,
        passive=check.passive,
    )


def virtual_ip_from(message: pb.VirtualIp) -> VirtualIp:
    """Decode a virtual IP; raises ConfigError."""
    read = FieldReader(f"virtual IP {message.ip or '?'} of vpc {message.vpc_id or '?'}")
    found = VirtualIp(
        vpc=message.vpc_id,
        ip=read.address("ip", message.ip),
        vteps=tuple(read.address_v4(f"vtep_ips[{i}]", vtep) for i, vtep in enumerate(message.vtep_ips)),
        back_ends=tuple(read.address(f"back_end_ips[{i}]", ip) for i, ip in enumerate(message.back_end_ips)),
    )
    refuse(read.problems)
    return found


def virtual_ip_to(virtual_ip: VirtualIp) -> pb.VirtualIp:
    """Encode a virtual IP."""
    return pb.VirtualIp(
        vpc_id=virtual_ip.vpc,
        ip=str(virtual_ip.ip),
        vtep_ips=map(str, virtual_ip.vteps),
        back_end_ips=map(str, virtual_ip.back_ends),
    )


def pools_from(messages: Iterable[pb.SourcePool]) -> Pools:
    """Decode source pools; raises ConfigError."""
    read = FieldReader("hello")
    found: Pools = {}
    for i, each in enumerate(messages):
        place = f"source_pools[{i}]"
        mine = tuple(read.address(f"{place}.ips[{at}]", ip) for at, ip in enumerate(each.ips))
        found[each.vpc_id] = (*found.get(each.vpc_id, ()), *mine)
    for vpc, pool in found.items():
        if len(set(pool)) < len(pool):
            read.wrong("source_pools", f"an address of {vpc} is there twice")
    refuse(read.problems)
    return found


def states_from(message: pb.BackEndHealth) -> tuple[BackEndState, ...]:
    """Decode the health of back ends; raises ConfigError."""
    try:
        return tuple(
            BackEndState(balancer=each.load_balancer_id, ip=ip_address(each.ip), port=each.port, is_up=each.up)
            for each in message.states
        )
    except ValueError as error:
        raise ConfigError([f"health: {error}"]) from None


def states_to(states: Iterable[BackEndState]) -> pb.BackEndHealth:
    """Encode the health of back ends."""
    return pb.BackEndHealth(
        states=[
            pb.BackEndState(load_balancer_id=each.balancer, ip=str(each.ip), port=each.port, up=each.is_up)
            for each in states
        ]
    )

"""Virtual networks: VPCs, gateways, balancers."""

from collections.abc import Iterator, Mapping
from typing import Any

from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.dashboard.documents.moment import GatewayReport, Moment
from heddle.controller.dashboard.documents.shapes.site import Backend, Balancer, Gateway, Vpc
from heddle.controller.views.isolation import isolation_of
from heddle.controller.views.load_balancers import load_balancer_views
from heddle.dataplane.config.balancers import BackEnd


def networks_document(moment: Moment) -> Mapping[str, object]:
    """Return the virtual networks (`Networks`)."""
    networks = moment.state.networks
    return {"vpcs": _vpcs(moment), "gateways": _gateways(moment), "balancers": _balancers(networks)}


def _vpcs(moment: Moment) -> Iterator[Vpc]:
    networks = moment.state.networks
    found = isolation_of(networks, moment.checked, moment.now_unix_ms)
    for vpc in networks.vpcs.values():
        isolation = found[vpc.id]
        yield {
            "id": vpc.id,
            "tenant": vpc.tenant,
            "vni": vpc.vni,
            "network": vpc.realm.value,
            "subnets": [str(subnet.prefix) for subnet in vpc.subnets],
            "endpoints": len(vpc.endpoints),
            "isolation": isolation.verdict.value,
            "isolation_why": list(isolation.why),
            "isolation_checked_ms": isolation.checked_unix_ms or None,
            "isolation_age_ms": max(0, moment.now_unix_ms - isolation.checked_unix_ms)
            if isolation.checked_unix_ms
            else None,
            "isolation_is_newest": isolation.generation == networks.generation,
        }


def _balancers(networks: Networks) -> Iterator[Balancer]:
    for view in load_balancer_views(networks):
        balancer = view.balancer
        yield {
            "id": balancer.id,
            "vpc": balancer.vpc,
            "vip": f"{balancer.vip}:{balancer.port}",
            "served_by": list(view.served_by),
            "backends": [_backend(end, is_up=end in view.healthy) for end in balancer.back_ends],
        }


def _backend(end: BackEnd, *, is_up: bool) -> Backend:
    health = "draining" if end.draining else "up" if is_up else "down"
    return {"address": f"{end.ip}:{end.port}", "weight": end.weight, "health": health}


def _gateways(moment: Moment) -> Iterator[Gateway]:
    networks = moment.state.networks
    for name, gateway in sorted(networks.gateways.items()):
        if not gateway.is_host:
            yield _gateway(name, networks, moment.gateways.get(name), moment.now_unix_ms)


def _gateway(name: str, networks: Networks, report: GatewayReport | None, now_ms: int) -> Gateway:
    """Return a gateway with what it reported last in its session."""
    gateway, unknown = networks.gateways[name], networks.unknown_at(networks.gateways[name])
    hello: Any = report.hello if report is not None else None
    counters: Any = report.counters if report is not None else None
    partner = hello.partner if hello is not None and hello.partner else None
    return {
        "id": name,
        "kind": gateway.kind.value,
        "vpc": None,  # a gateway serves all of them
        "state": "attached" if gateway.session is not None else "detached",
        "pair": partner,
        "role": None if counters is None else _role(partner, counters.active),
        "vtep": str(gateway.vtep),
        "generation": gateway.acknowledged,
        "wanted_generation": networks.generation,
        "refused": gateway.refused,
        "kept_vpcs": dict(sorted(gateway.kept.items())),
        "unknown_vpcs": sorted(unknown),
        "connections": None if counters is None else counters.connections,
        "connections_limit": None if counters is None else counters.connections_limit or None,
        "mappings": None if counters is None else counters.nat_mappings,
        "mappings_limit": None if counters is None else counters.nat_mappings_limit or None,
        "age_ms": None if report is None else max(0, now_ms - report.last_seen_unix_ms),
    }


def _role(partner: str | None, active: bool) -> str:
    if partner is None:
        return "single"
    return "active" if active else "standby"

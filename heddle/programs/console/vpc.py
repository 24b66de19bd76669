"""`heddle vpc …`: commands of VpcService and GatewayService."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf.message import Message
from rich.table import Table

from heddle.controller.config.network_file import load_objects
from heddle.controller.model.error import InUseError, NoAdmissiblePlanError
from heddle.programs.console import show as screen
from heddle.programs.console.client import connected
from heddle.programs.console.jobs import as_dict
from heddle.v1 import heddle_pb2 as pb

MAX_NAMED = 20


def apply(server: str, path: Path, *, drop_unknown: bool = False, as_json: bool) -> None:
    """Apply all objects of a file together; print what was applied, and who is away and gets it later.

    `drop_unknown` then ends the VPCs that gateways serve and the controller does not know.
    """
    objects = load_objects(path)
    with connected(server) as client, screen.progress("waiting for gateways, balancers and hosts"):
        reply = client.vpcs.ApplyNetwork(objects)
        if drop_unknown:
            client.vpcs.DropUnknownVpcs(pb.DropUnknownVpcsRequest())
    applied = reply.applied
    if as_json:
        found: dict[str, Iterable[Message]] = {
            "vpcs": applied.vpcs,
            "peerings": applied.peerings,
            "load_balancers": applied.load_balancers,
        }
        found |= {"border": applied.border.rules} if applied.HasField("border") else {}
        found |= {"away": reply.away} if reply.away else {}
        _dump({key: [as_dict(each) for each in messages] for key, messages in found.items()})
        return
    for vpc in applied.vpcs:
        print(f"vpc {vpc.id}: VNI {vpc.vni}, {len(vpc.endpoints)} endpoints")
    for peering in applied.peerings:
        print(f"peering {peering.vpc_a} with {peering.vpc_b}")
    for each in applied.load_balancers:
        print(f"load balancer {each.id}: {each.vip} port {each.port}")
    if applied.HasField("border"):
        print(f"border: {len(applied.border.rules)} rules")
    if drop_unknown:
        print("VPCs that the controller does not know: ended at all gateways")
    if reply.away:
        named = ", ".join(f"{each.gateway_id} (VTEP {each.vtep_ip})" for each in reply.away[:MAX_NAMED])
        more = f" and {len(reply.away) - MAX_NAMED} more" if len(reply.away) > MAX_NAMED else ""
        print(f"heddle: not attached: {named}{more}; what changed is sent when they attach", file=sys.stderr)


def list_vpcs(server: str, tenant: str, *, as_json: bool) -> None:
    """List VPCs and their peerings."""
    with connected(server) as client:
        reply = client.vpcs.ListVpcs(pb.ListVpcsRequest(tenant=tenant))
    if as_json:
        _dump(as_dict(reply))
        return
    peers: dict[str, list[str]] = {}
    for peering in reply.peerings:
        peers.setdefault(peering.vpc_a, []).append(peering.vpc_b)
        peers.setdefault(peering.vpc_b, []).append(peering.vpc_a)
    rows = []
    isolation = {each.vpc_id: each for each in reply.isolation}
    for vpc in reply.vpcs:
        outside = [f"NAT {vpc.nat.public_ip}"] if vpc.HasField("nat") else []
        outside += [f"{each.public_ip} for {each.endpoint_ip}" for each in vpc.floating_ips]
        outside += [f"VLAN {each.vlan} to {each.customer_cidr}" for each in vpc.direct_connects]
        subnets = ", ".join(subnet.cidr for subnet in vpc.subnets)
        counts = str(len(vpc.endpoints)), str(len(vpc.security_rules))
        near = ", ".join(peers.get(vpc.id, []))
        rows.append((vpc.id, vpc.tenant, str(vpc.vni), vpc.network, subnets, *counts, near, ", ".join(outside),
                     isolation[vpc.id].verdict if vpc.id in isolation else "unknown"))  # fmt: skip
    names = ("vpc", "tenant", "VNI", "network", "subnets", "endpoints", "rules", "peers", "outside", "isolation")
    _table(names, rows, empty="there are no VPCs")
    for text in dict.fromkeys(f"{each.verdict}: {text}" for each in reply.isolation for text in each.why):
        print(text)


def delete(server: str, name: str, *, as_json: bool) -> None:
    """Delete a VPC."""
    try:
        with connected(server) as client:
            reply = client.vpcs.DeleteVpc(pb.DeleteVpcRequest(id=name))
    except NoAdmissiblePlanError as refused:  # the same gRPC status means `in use` here
        raise InUseError(str(refused)) from None
    _done(reply, f"vpc {name}: deleted", as_json)


def peer(server: str, name: str, other: str, *, as_json: bool) -> None:
    """Peer two VPCs."""
    with connected(server) as client:
        reply = client.vpcs.ApplyPeering(pb.Peering(vpc_a=name, vpc_b=other))
    _done(reply, f"{name} and {other} are peers", as_json)


def unpeer(server: str, name: str, other: str, *, as_json: bool) -> None:
    """End a peering."""
    with connected(server) as client:
        reply = client.vpcs.DeletePeering(pb.Peering(vpc_a=name, vpc_b=other))
    _done(reply, f"{name} and {other} are no peers any more", as_json)


def border(server: str, path: Path | None, *, as_json: bool) -> None:
    """Replace the border's rules if a file is given; print them."""
    wanted = load_objects(path).border if path is not None else None
    with connected(server) as client:
        reply = client.vpcs.GetBorder(pb.GetBorderRequest()) if wanted is None else client.vpcs.ApplyBorder(wanted)
    if as_json:
        _dump(as_dict(reply))
        return
    rows = [
        ("allow" if r.allow else "deny", r.vpc, r.network, r.remote_cidr, r.protocol, f"{r.port_min}-{r.port_max}")
        for r in reply.rules
    ]
    names = ("", "vpc", "network", "addresses", "protocol", "ports")
    _table(names, rows, empty="no rules: nothing passes the border")


def gateways(server: str, *, as_json: bool) -> None:
    """List gateways and hosts."""
    with connected(server) as client:
        reply = client.gateways.ListGateways(pb.ListGatewaysRequest())
    if as_json:
        _dump(as_dict(reply))
        return
    rows = []
    for gateway in reply.gateways:
        hello = gateway.hello
        state = "attached" if gateway.attached else "AWAY"
        runs = _generation(gateway, reply.generation)
        counters = gateway.counters
        busy = "active" if counters.active else "standby" if gateway.HasField("counters") else ""
        counts = str(counters.connections), str(sum(counters.drops.values()))
        rows.append((hello.gateway_id, hello.kind, hello.vtep_ip, state, busy, runs, *counts, gateway.refused))
    names = ("gateway", "kind", "VTEP", "session", "role", "generation", "connections", "drops", "refused")
    _table(names, rows, empty="no gateway has attached")
    for gateway in reply.gateways:
        for line in deviations(gateway):
            print(line)


def deviations(gateway: pb.GatewayStatus) -> Iterator[str]:
    """Yield a line per VPC that a gateway does not serve as wanted, and one with those that are not known here."""
    name = gateway.hello.gateway_id
    for each in gateway.kept_vpcs:
        yield f"{name}: vpc {each.vpc_id}: {each.why}"
    if gateway.unknown_vpcs:
        first, others = gateway.unknown_vpcs[:MAX_NAMED], len(gateway.unknown_vpcs) - MAX_NAMED
        more = f" and {others} more" if others > 0 else ""
        yield f"{name}: serves VPCs that this controller does not know, and keeps them: {', '.join(first)}{more}"


def _generation(gateway: pb.GatewayStatus, newest: int) -> str:
    """Return what a gateway runs: a controller that has published nothing since its start does not know the state."""
    runs = gateway.acknowledged_generation or gateway.hello.generation
    if not newest:
        return "unknown" if runs else "none"
    return "newest" if gateway.acknowledged_generation >= newest else str(runs)


def forget(server: str, name: str, *, as_json: bool) -> None:
    """Forget a gateway."""
    try:
        with connected(server) as client:
            reply = client.gateways.ForgetGateway(pb.ForgetGatewayRequest(gateway_id=name))
    except NoAdmissiblePlanError as refused:  # as above
        raise InUseError(str(refused)) from None
    _done(reply, f"gateway {name}: forgotten", as_json)


def balancers(server: str, tenant: str, *, as_json: bool) -> None:
    """List load balancers with the health of their back ends."""
    with connected(server) as client:
        reply = client.vpcs.ListLoadBalancers(pb.ListVpcsRequest(tenant=tenant))
    if as_json:
        _dump(as_dict(reply))
        return
    rows = []
    for each in reply.load_balancers:
        ends = ", ".join(map(_back_end, each.backends))
        service = f"{each.vip} port {each.port} {each.protocol}"
        rows.append((each.id, each.tenant, each.vpc_id, service, each.mode, ends))
    names = ("load balancer", "tenant", "vpc", "virtual IP", "mode", "back ends")
    _table(names, rows, empty="there are no load balancers")


def _back_end(end: pb.Backend) -> str:
    notes = [f"weight {end.weight}"] * (end.weight != 1) + ["draining"] * end.draining + ["DOWN"] * (not end.healthy)
    return f"{end.ip} port {end.port}" + (f" ({', '.join(notes)})" if notes else "")


def delete_balancer(server: str, name: str, *, as_json: bool) -> None:
    """Delete a load balancer."""
    with connected(server) as client:
        reply = client.vpcs.DeleteLoadBalancer(pb.DeleteLoadBalancerRequest(id=name))
    _done(reply, f"load balancer {name}: deleted", as_json)


def _table(names: Iterable[str], rows: Iterable[tuple[str, ...]], *, empty: str) -> None:
    table = Table()
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    screen.console().print(table if table.row_count else empty)


def _done(reply: Message, text: str, as_json: bool) -> None:
    if as_json:
        _dump(as_dict(reply))
    else:
        print(text)


def _dump(value: object) -> None:
    json.dump(value, sys.stdout)
    print()

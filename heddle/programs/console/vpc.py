"""`heddle vpc …`: commands of VpcService and GatewayService."""

import json
import sys
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path

from google.protobuf.message import Message
from rich.table import Table

from heddle.controller.config.network_file import before_balancers, load_network, load_network_file
from heddle.controller.config.text.document import MAX_SETTINGS_BYTES, read_document
from heddle.controller.model.error import InUseError, NoAdmissiblePlanError
from heddle.dataplane.config.wire import MORE_FOLLOWS, border_to, peering_to, vpc_to
from heddle.dataplane.config.wire_balancers import load_balancer_to
from heddle.programs.console import show as screen
from heddle.programs.console.client import connected
from heddle.programs.console.jobs import as_dict
from heddle.v1 import heddle_pb2 as pb

MAX_NAMED = 20


def apply(server: str, path: Path, *, drop_unknown: bool = False, as_json: bool) -> None:
    """Apply all entries of a file. A controller without state publishes nothing to gateways before the last entry.

    `drop_unknown` then ends the VPCs that gateways serve and the controller does not know.
    """
    network, balancers = load_network_file(path)
    has_border = "border" in read_document(path, MAX_SETTINGS_BYTES).value
    applied: dict[str, list[object]] = {"vpcs": [], "peerings": [], "load_balancers": []}
    with connected(server) as client:
        known = client.vpcs.ListLoadBalancers(pb.ListVpcsRequest()).load_balancers
        new = {(b.vpc, b.vip) for b in balancers} - {(each.vpc_id, ip_address(each.vip)) for each in known}
        first = [before_balancers(vpc, {ip for name, ip in new if name == vpc.id}) for vpc in network.vpcs]
        again = [vpc for vpc, one in zip(network.vpcs, first, strict=True) if vpc is not one]
        left = len(first) + len(network.peerings) + len(balancers) + len(again) + has_border
        for vpc in first:
            left -= 1
            with screen.progress(f"{vpc.id}: waiting for gateways"):
                applied["vpcs"].append(as_dict(client.vpcs.ApplyVpc(vpc_to(vpc), metadata=_more(left))))
            _report(f"vpc {vpc.id}: VNI {vpc.vni}, {len(vpc.endpoints)} endpoints", as_json)
        for peering in sorted(network.peerings):
            left -= 1
            reply = client.vpcs.ApplyPeering(peering_to(peering), metadata=_more(left))
            applied["peerings"].append(as_dict(reply))
            _report(f"peering {peering.a} with {peering.b}", as_json)
        for balancer in balancers:
            left -= 1
            with screen.progress(f"{balancer.id}: waiting for balancers"):
                reply = client.vpcs.ApplyLoadBalancer(load_balancer_to(balancer), metadata=_more(left))
            applied["load_balancers"].append(as_dict(reply))
            _report(f"load balancer {balancer.id}: {balancer.vip} port {balancer.port}", as_json)
        for vpc in again:
            left -= 1
            reply = client.vpcs.ApplyVpc(vpc_to(vpc), metadata=_more(left))
            applied["vpcs"][network.vpcs.index(vpc)] = as_dict(reply)
            _report(f"vpc {vpc.id}: floating IPs of its virtual IPs", as_json)
        if has_border:
            client.vpcs.ApplyBorder(border_to(network.border))
            _report(f"border: {len(network.border)} rules", as_json)
        if drop_unknown:
            client.vpcs.DropUnknownVpcs(pb.DropUnknownVpcsRequest())
            _report("VPCs that the controller does not know: ended at all gateways", as_json)
    if as_json:
        border = {"border": as_dict(border_to(network.border))["rules"]} if has_border else {}
        _dump({**applied, **border})


def _more(left: int) -> tuple[tuple[str, str], ...]:
    """Return the call metadata that announces further calls, so that the controller waits for them."""
    return (MORE_FOLLOWS,) if left else ()


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
    wanted = border_to(load_network(path).border) if path is not None else None
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


def _report(text: str, as_json: bool) -> None:
    if not as_json:
        print(text)


def _dump(value: object) -> None:
    json.dump(value, sys.stdout)
    print()

"""The program `heddle explain --vip`: which back end a new flow gets, and why, by the tables of the balancers."""

import json
import sys
from ipaddress import ip_address
from typing import Any

from heddle.controller.model.error import InputError, NotFoundError
from heddle.dataplane.balancer.compiler.archive import unpacked
from heddle.dataplane.config.balancers import LoadBalancer, Service
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.limit import LAST_PORT
from heddle.dataplane.config.network import Address
from heddle.dataplane.config.wire_balancers import load_balancer_from
from heddle.dataplane.verify.services import TCP, UDP, Choice, Flow, chosen, services_of
from heddle.programs.console import show as screen
from heddle.programs.console.client import Client, connected
from heddle.v1 import heddle_pb2 as pb


def explain_vip(server: str, vip: str, client: str, only: list[str], *, as_json: bool) -> None:
    """Print the back end of a new flow at each balancer; raises InputError and NotFoundError."""
    vpc, _, place = vip.partition("/")
    where, port = _place("--vip", place, "VPC/VIP:PORT such as red/10.0.0.100:80")
    source, source_port = _place("--from", client, "CLIENT:PORT such as 10.0.0.10:40000")
    with connected(server) as controller:
        names = only or _balancers(controller)
        vni, balancer = _intended(controller, vpc, where, port)
        protocol = TCP if balancer.protocol is Service.TCP else UDP
        flow = Flow(vni, where, port, protocol, source, source_port)
        found = []
        for name in names:
            with screen.progress(f"{name}: reading its tables"):
                parts = controller.gateways.ReadTables(pb.ReadTablesRequest(gateway_id=name))
                data = b"".join(part.data for part in parts)
            found.append(_explained(name, data, flow, balancer))
    if as_json:
        json.dump({"load_balancer": balancer.id, "balancers": found}, sys.stdout)
        print()
        return
    for each in found:
        print(each["text"])
        for line in each["why"]:
            print(f"  {line}")


def _place(option: str, text: str, form: str) -> tuple[Address, int]:
    """Return an address and a port, of IPv6 as [address]:port."""
    host, _, port = text.rpartition(":")
    try:
        address, number = ip_address(host.removeprefix("[").removesuffix("]")), int(port)
    except ValueError:
        raise InputError(f"{option}: {text!r} is not {form}") from None
    if not 0 < number <= LAST_PORT:
        raise InputError(f"{option}: {text!r} has no port within 1 to {LAST_PORT}")
    return address, number


def _balancers(client: Client) -> list[str]:
    known = client.gateways.ListGateways(pb.ListGatewaysRequest()).gateways
    names = [each.hello.gateway_id for each in known if each.attached and each.hello.kind == Kind.BALANCER]
    if not names:
        raise NotFoundError("no balancer is attached")
    return names


def _intended(client: Client, vpc: str, vip: Address, port: int) -> tuple[int, LoadBalancer]:
    """Return a VPC's VNI and its load balancer of a virtual IP and port."""
    vnis = {each.id: each.vni for each in client.vpcs.ListVpcs(pb.ListVpcsRequest()).vpcs}
    if vpc not in vnis:
        raise NotFoundError(f"there is no vpc {vpc!r}")
    listed = client.vpcs.ListLoadBalancers(pb.ListVpcsRequest()).load_balancers
    for each in map(load_balancer_from, listed):
        if (each.vpc, each.vip, each.port) == (vpc, vip, port):
            return vnis[vpc], each
    raise NotFoundError(f"no load balancer has port {port} of {vip} in vpc {vpc}")


def _explained(name: str, data: bytes, flow: Flow, balancer: LoadBalancer) -> dict[str, Any]:
    """Return a balancer's choice as JSON values, with a text and its reasons."""
    try:
        choice = chosen(services_of(unpacked(data)), flow)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    if choice is None:
        return {"balancer": name, "back_end": None, "text": f"{name}: serves no such virtual IP and port", "why": []}
    end = choice.back_end
    text = "refused: no back end is up" if end is None else f"back end {end.ip} port {end.port}"
    return {
        "balancer": name,
        "back_end": None if end is None else {"ip": str(end.ip), "port": end.port},
        "slot": choice.slot,
        "text": f"{name}: {text}",
        "why": _reasons(choice, balancer),
    }


def _reasons(choice: Choice, balancer: LoadBalancer) -> list[str]:
    slots, weights = len(choice.service.slots), {(end.ip, end.port): end for end in balancer.back_ends}
    found = [f"load balancer {balancer.id}, {balancer.mode}: the flow's hash selects slot {choice.slot} of {slots}"]
    if choice.tried and choice.back_end is not None:
        found.append(f"{choice.tried} slots are being written and name no back end of it: the next one decides")
    for end in sorted(choice.service.back_ends.values(), key=lambda each: (each.ip.version, int(each.ip), each.port)):
        wanted = weights.get((end.ip, end.port))
        weight = f"weight {wanted.weight}" if wanted is not None else "not in the load balancer any more"
        state = ("up" if end.is_up else "down") + (", draining" if wanted is not None and wanted.draining else "")
        share = f"{end.slots} slots ({end.slots / slots:.2%} of new flows)"
        found.append(f"{end.ip} port {end.port}: {state}, {weight}, {share}")
    return found

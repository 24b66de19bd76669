"""Serve VpcService: VPCs, peerings, load balancers and the border, alone or all of a network file together.

Messages are checked in a worker thread; the loop decides.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import grpc

from heddle.controller.access.call import Call, current
from heddle.controller.access.scope import Scope
from heddle.controller.api.errors import errors_as_status
from heddle.controller.api.worker import in_worker
from heddle.controller.brain.networks.changes import touched_vteps
from heddle.controller.brain.networks.gateways import away
from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.network_event import (
    ApplyBorder,
    ApplyLoadBalancer,
    ApplyNetwork,
    ApplyPeering,
    ApplyVpc,
    DeleteLoadBalancer,
    DeletePeering,
    DeleteVpc,
    DropUnknownVpcs,
)
from heddle.controller.runtime.gateways import Gateways
from heddle.controller.runtime.loop import Loop
from heddle.controller.views.isolation import Isolation, Verdict, isolation_of
from heddle.controller.views.load_balancers import LoadBalancerView, load_balancer_views, view_of, views_of
from heddle.dataplane.config.check import Known, vpc_problems
from heddle.dataplane.config.check_change import NetworkChange
from heddle.dataplane.config.network import Peering, Vpc
from heddle.dataplane.config.refusal import ConfigError, refuse
from heddle.dataplane.config.wire import (
    MORE_FOLLOWS,
    border_from,
    border_to,
    peering_from,
    peering_to,
    vpc_from,
    vpc_to,
)
from heddle.dataplane.config.wire_balancers import load_balancer_from, load_balancer_to
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

Context = Any


def vtep_test(fabric: Fabric, more: tuple[IPv4Network, ...]) -> Known:
    """Return a test for valid VTEP addresses: those of the fabric's NICs, and addresses in `more`."""
    nics = frozenset(nic.ip for nic in fabric.nics)
    return lambda address: int(address) in nics or any(address in prefix for prefix in more)


class VpcService(rpc.VpcServiceServicer):
    """VPCs, their peerings, load balancers, and the border."""

    def __init__(self, loop: Loop, gateways: Gateways, is_vtep: Known) -> None:
        self._loop, self._gateways = loop, gateways
        self._is_vtep = is_vtep

    async def ApplyVpc(self, request: pb.Vpc, context: Context) -> pb.Vpc:
        """Create or replace a VPC; reply once every attached gateway has acknowledged."""
        async with errors_as_status(context):
            call, more = current(), _more_follow(context)
            request.tenant = call.scope.tenant_named(request.tenant)
            known = call.scope.state(self._loop.state).networks.vpcs.get(request.id)
            vpc, vteps = await in_worker(_read_vpc, request, known, self._is_vtep)
            call.scope.check_vpc(vpc)
            await self._loop.request(
                lambda reply: ApplyVpc(reply=reply, vpc=vpc, vteps=vteps, more=more, tenant=call.tenant)
            )
            return await in_worker(vpc_to, vpc)

    async def DeleteVpc(self, request: pb.DeleteVpcRequest, context: Context) -> pb.DeleteVpcReply:
        """Delete a VPC."""
        async with errors_as_status(context):
            await self._loop.request(lambda reply: DeleteVpc(reply=reply, vpc_id=request.id, tenant=current().tenant))
            return pb.DeleteVpcReply()

    async def ListVpcs(self, request: pb.ListVpcsRequest, context: Context) -> pb.ListVpcsReply:
        """Return all VPCs, or a tenant's, with their peerings and isolation."""
        call, whole = current(), self._loop.state.networks
        networks = call.scope.state(self._loop.state).networks
        reply = await in_worker(_listed, tuple(networks.vpcs.values()), networks.peerings, request.tenant)
        found = isolation_of(whole, dict(self._gateways.checked), self._loop.now_unix_ms())
        for vpc in reply.vpcs:
            one = found.get(vpc.id, Isolation(verdict=Verdict.UNKNOWN))
            reply.isolation.add(
                vpc_id=vpc.id,
                verdict=one.verdict,
                why=one.why if call.tenant is None else (),  # it names VPCs of others
                checked_unix_ms=self._loop.published_unix_ms(one.checked_unix_ms),
                is_newest=one.generation == whole.generation,
            )
        return reply

    async def ApplyPeering(self, request: pb.Peering, context: Context) -> pb.Peering:
        """Peer two VPCs."""
        async with errors_as_status(context):
            peering, more, tenant = peering_from(request), _more_follow(context), current().tenant
            await self._loop.request(lambda reply: ApplyPeering(reply=reply, peering=peering, more=more, tenant=tenant))
            return request

    async def DeletePeering(self, request: pb.Peering, context: Context) -> pb.DeleteVpcReply:
        """End a peering."""
        async with errors_as_status(context):
            peering = peering_from(request)
            await self._loop.request(lambda reply: DeletePeering(reply=reply, peering=peering, tenant=current().tenant))
            return pb.DeleteVpcReply()

    async def ApplyLoadBalancer(self, request: pb.LoadBalancer, context: Context) -> pb.LoadBalancer:
        """Create or replace a load balancer; reply once every balancer, gateway and host has acknowledged."""
        async with errors_as_status(context):
            call, more = current(), _more_follow(context)
            request.tenant = call.scope.tenant_named(request.tenant)
            balancer = await in_worker(_refusing, load_balancer_from, request)
            call.scope.check_balancer(balancer)
            await self._loop.request(
                lambda reply: ApplyLoadBalancer(reply=reply, balancer=balancer, more=more, tenant=call.tenant)
            )
            return _encoded(view_of(self._loop.state.networks, balancer))

    async def DeleteLoadBalancer(self, request: pb.DeleteLoadBalancerRequest, context: Context) -> pb.DeleteVpcReply:
        """Delete a load balancer."""
        async with errors_as_status(context):
            tenant = current().tenant
            await self._loop.request(
                lambda reply: DeleteLoadBalancer(reply=reply, balancer_id=request.id, tenant=tenant)
            )
            return pb.DeleteVpcReply()

    async def ListLoadBalancers(self, request: pb.ListVpcsRequest, context: Context) -> pb.ListLoadBalancersReply:
        """Return all load balancers, or a tenant's, with the health of their back ends."""
        found = load_balancer_views(current().scope.state(self._loop.state).networks, request.tenant)
        return await in_worker(lambda: pb.ListLoadBalancersReply(load_balancers=map(_encoded, found)))

    async def ApplyBorder(self, request: pb.Border, context: Context) -> pb.Border:
        """Replace the list of provider networks that VPCs may reach."""
        async with errors_as_status(context):
            rules = await in_worker(_refusing, border_from, request)
            more = _more_follow(context)
            await self._loop.request(lambda reply: ApplyBorder(reply=reply, rules=rules, more=more))
            return border_to(rules)

    async def ApplyNetwork(self, request: pb.NetworkObjects, context: Context) -> pb.ApplyNetworkReply:
        """Apply all objects of a network file, or none; reply once every attached one concerned has acknowledged."""
        async with errors_as_status(context):
            call = current()
            call.concerns(_names(request))
            known = call.scope.state(self._loop.state).networks.vpcs
            event = await in_worker(_read_network, request, call.scope, known, self._is_vtep)
            await self._loop.request(lambda reply: replace(event, reply=reply))
            networks = self._loop.state.networks
            views = views_of(networks, event.load_balancers)
            applied = await in_worker(_written, event, views)
            return pb.ApplyNetworkReply(applied=applied, away=_away(networks, event, call))

    async def DropUnknownVpcs(self, request: pb.DropUnknownVpcsRequest, context: Context) -> pb.DropUnknownVpcsReply:
        """End the VPCs that gateways serve and the controller does not know."""
        async with errors_as_status(context):
            await self._loop.request(lambda reply: DropUnknownVpcs(reply=reply))
            return pb.DropUnknownVpcsReply()

    async def GetBorder(self, request: pb.GetBorderRequest, context: Context) -> pb.Border:
        """Return the border's rules."""
        return border_to(self._loop.state.networks.border)


def _encoded(view: LoadBalancerView) -> pb.LoadBalancer:
    return load_balancer_to(view.balancer, lambda end: end in view.healthy)


def _names(request: pb.NetworkObjects) -> str:
    """Return the ids that a request names."""
    peers = [name for each in request.peerings for name in (each.vpc_a, each.vpc_b)]
    services = [name for each in request.load_balancers for name in (each.id, each.vpc_id)]
    return " ".join(dict.fromkeys(filter(None, (*(each.id for each in request.vpcs), *peers, *services))))


def _read_network(request: pb.NetworkObjects, scope: Scope, known: Mapping[str, Vpc], is_vtep: Known) -> ApplyNetwork:
    """Return the event of a request, whose caller is not set yet; raises InputError, DeniedError."""
    if request.HasField("border"):
        scope.check_border()
    vpcs, vteps = [], {}
    for each in request.vpcs:
        each.tenant = scope.tenant_named(each.tenant)
        vpc, vteps[each.id] = _read_vpc(each, known.get(each.id), is_vtep)
        scope.check_vpc(vpc)
        vpcs.append(vpc)
    balancers = []
    for service in request.load_balancers:
        service.tenant = scope.tenant_named(service.tenant)
        balancers.append(_refusing(load_balancer_from, service))
        scope.check_balancer(balancers[-1])
    return ApplyNetwork(
        reply=0,
        vpcs=tuple(vpcs),
        vteps=vteps,
        peerings=frozenset(map(peering_from, request.peerings)),
        load_balancers=tuple(balancers),
        border=_refusing(border_from, request.border) if request.HasField("border") else None,
        tenant=scope.tenant,
    )


def _written(event: ApplyNetwork, views: tuple[LoadBalancerView, ...]) -> pb.NetworkObjects:
    """Return what was applied, with all defaults filled in."""
    return pb.NetworkObjects(
        vpcs=map(vpc_to, event.vpcs),
        peerings=map(peering_to, sorted(event.peerings)),
        load_balancers=map(_encoded, views),
        border=None if event.border is None else border_to(event.border),
    )


def _away(networks: Networks, event: ApplyNetwork, call: Call) -> list[pb.GatewayAddress]:
    """Return those that a change concerns and that are not attached; for a tenant hosts alone."""
    change = NetworkChange(vpcs=event.vpcs, load_balancers=event.load_balancers)
    found = away(networks, touched_vteps(networks, change, event.vteps))
    mine = [(name, each.vtep) for name, each in found if call.tenant is None or each.is_host]
    names = call.text("\n".join(name for name, _ in mine)).split("\n")
    return [pb.GatewayAddress(gateway_id=name, vtep_ip=str(vtep)) for name, (_, vtep) in zip(names, mine, strict=False)]


def _more_follow(context: Context) -> bool:
    """Return whether a call is one of several that apply a network, and not the last."""
    return MORE_FOLLOWS in (context.invocation_metadata() or ())


def _refusing(read: Callable[..., Any], *arguments: Any) -> Any:
    """Call `read`; raises InputError for its ConfigError."""
    try:
        return read(*arguments)
    except ConfigError as refused:
        raise InputError(*refused.problems) from None


def _read_vpc(message: pb.Vpc, known: Vpc | None, is_vtep: Known) -> tuple[Vpc, frozenset[IPv4Address]]:
    """Return a valid VPC (`known` itself where equal) and the VTEPs of its endpoints; raises InputError."""
    vpc: Vpc = _refusing(vpc_from, message)
    _refusing(refuse, vpc_problems(vpc, is_vtep))
    return (known if known == vpc else vpc), frozenset(endpoint.vtep for endpoint in vpc.endpoints)


def _listed(vpcs: tuple[Vpc, ...], peerings: frozenset[Peering], tenant: str) -> pb.ListVpcsReply:
    found = [vpc for vpc in vpcs if tenant in ("", vpc.tenant)]
    names = {vpc.id for vpc in found}
    near = sorted(peering for peering in peerings if names & {peering.a, peering.b})
    return pb.ListVpcsReply(vpcs=map(vpc_to, found), peerings=map(peering_to, near))


def add_to(server: grpc.aio.Server, loop: Loop, gateways: Gateways, vteps: tuple[IPv4Network, ...]) -> None:
    """Register the service; `vteps` are VTEPs beside the fabric's NICs."""
    rpc.add_VpcServiceServicer_to_server(VpcService(loop, gateways, vtep_test(loop.state.fabric, vteps)), server)

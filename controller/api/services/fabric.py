"""Serve FabricService: the topology, and explanations of flows' paths."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc

from heddle.controller.access.call import current
from heddle.controller.api.errors import errors_as_status
from heddle.controller.api.peer import caller_of
from heddle.controller.api.services.topology import topology_to
from heddle.controller.api.translate import certificate_to
from heddle.controller.api.worker import Replies, in_worker
from heddle.controller.model.effect import Drained
from heddle.controller.model.error import HeddleError
from heddle.controller.model.event import Drain
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.runtime.attached import ReportedFlows
from heddle.controller.runtime.fabric_apply import FabricApply
from heddle.controller.runtime.feeds import TOPOLOGY, Feeds
from heddle.controller.runtime.journal.foresight import Foresight
from heddle.controller.runtime.loop import Loop
from heddle.controller.views.fabric_differences import Setup, copies, differences
from heddle.controller.views.view import explain
from heddle.telemetry.detection.window import Snapshot
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

Context = Any


class FabricService(rpc.FabricServiceServicer):
    """The current topology, and explanations of flows' paths."""

    def __init__(self, loop: Loop, feeds: Feeds, flows: ReportedFlows, applying: FabricApply, setup: Setup) -> None:
        self._loop, self._feeds, self._flows, self._applying, self._setup = loop, feeds, flows, applying, setup
        self._replies = Replies()

    async def GetTopology(self, request: pb.GetTopologyRequest, context: Context) -> bytes:
        """Return switches, links and NICs with their states, planned and measured utilisation."""
        state, measured, hidden = self._loop.state, self._measured(), current().scope.hidden_ports
        return await in_worker(
            self._replies.reply, (state, measured), hidden,
            lambda: topology_to(state, measured, hidden).SerializeToString(),
        )  # fmt: skip

    async def WatchTopology(self, request: pb.GetTopologyRequest, context: Context) -> AsyncIterator[pb.Topology]:
        """Stream the topology now and after every change; a slow reader skips to the newest."""
        async with errors_as_status(context):
            watch = self._feeds.topology.open(TOPOLOGY, caller_of(context))
            try:
                topology = await self._topology()
                yield topology
                async for generation in watch:
                    if generation > topology.generation:
                        topology = await self._topology()
                        yield topology
            finally:
                self._feeds.topology.close(TOPOLOGY, watch)

    async def Drain(self, request: pb.DrainRequest, context: Context) -> pb.DrainReply:
        """Take a link, switch or NIC out of use without loss, or return it; reply once switches have acknowledged."""
        async with errors_as_status(context):
            done = await self._loop.request(
                lambda reply: Drain(reply=reply, target=request.target, undrain=request.undrain)
            )
            if not isinstance(done, Drained):
                raise HeddleError("the reply to a drain is of another kind")
            in_packets = traits_of(self._loop.state.fabric).in_packets
            proof = certificate_to(done.certificate, 0.0, by_construction=in_packets)
            return pb.DrainReply(flows_moved=done.flows_moved, certificate=proof)

    async def ApplyFabric(self, request: pb.ApplyFabricRequest, context: Context) -> pb.ApplyFabricReply:
        """Put another fabric file in force, or return what that would change."""
        async with errors_as_status(context):
            found, applied = await self._applying.apply(request.fabric, request.name, dry_run=request.dry_run)
            if applied:
                await self._applying.served.wait()
            return await in_worker(partial(foresight_to, found, self._setup, applied=applied))

    async def _topology(self) -> pb.Topology:
        hidden = current().scope.hidden_ports
        return await in_worker(topology_to, self._loop.state, self._measured(), hidden)

    def _measured(self) -> Snapshot | None:
        tick = self._feeds.telemetry.ticks.value
        return tick.snapshot if tick is not None else None

    async def Explain(self, request: pb.ExplainRequest, context: Context) -> pb.Explanation:
        """Explain a flow's path: its job, generation and rules, and the flows that share its links."""
        async with errors_as_status(context):
            call = current()
            state, newest = call.scope.state(self._loop.state), self._flows.newest
            found = await in_worker(explain, state, request.flow_id, newest)
            return pb.Explanation(
                text=call.text(found.text), job_id=found.job_id, hops=map(call.text, found.hops),
                sharing_flows=found.sharing_flows, moves=map(call.text, found.moves), paths=map(call.text, found.paths),
            )  # fmt: skip


def foresight_to(found: Foresight, setup: Setup, *, applied: bool) -> pb.ApplyFabricReply:
    """Return a foresight as a message, and whether it has come true."""
    return pb.ApplyFabricReply(
        refusal=found.refusal,
        harms=found.change.harms,
        jobs=(
            pb.JobFate(job_id=one.job_id, kind=pb.JobFate.Kind.Name(one.fate.value), flows=one.flows, text=one.text)
            for one in found.jobs
        ),
        rules=(pb.RuleChange(**one._asdict()) for one in found.rules),
        applied=applied,
        differences=(pb.FabricDifference(**one._asdict()) for one in differences(found.change)),
        copies=(pb.FabricCopy(**one._asdict()) for one in copies(found.change, setup, found.static_sids)),
    )


def add_to(
    server: grpc.aio.Server, loop: Loop, feeds: Feeds, flows: ReportedFlows, applying: FabricApply, setup: Setup
) -> None:
    """Register the service."""
    service = FabricService(loop, feeds, flows, applying, setup)
    rpc.add_FabricServiceServicer_to_server(service, server)
    kept = grpc.unary_unary_rpc_method_handler(
        service.GetTopology, request_deserializer=pb.GetTopologyRequest.FromString
    )  # it returns bytes, which are kept
    name = pb.DESCRIPTOR.services_by_name["FabricService"].full_name
    server.add_registered_method_handlers(name, {"GetTopology": kept})  # of two with one name, the later one serves

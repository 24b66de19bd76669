"""A gRPC server that publishes the generations of a plan that a test writes, instead of a controller."""

import threading
from collections.abc import Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager

import grpc

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc


class PlanServer(rpc.JobServiceServicer, rpc.FabricServiceServicer):
    """Serves WatchJob with what `publish` was given, GetTopology with `links`; keeps what hosts report."""

    def __init__(self, plan: pb.JobPlan, links: Iterable[str]) -> None:
        self.plans = [plan]
        self.links = dict.fromkeys(links, True)
        self.watches = 0
        self.truncates = self.has_ended = False
        self.reports: dict[str, list[pb.ObservedFlows]] = {}
        self.report_streams = 0
        self.stopped = False
        self._changed = threading.Condition()

    def publish(self, reason: str, flows: Iterable[pb.FlowPlan], state: str = "running") -> None:
        """Publish the next generation, with these flows changed."""
        changed = {flow.flow_id: flow for flow in flows}
        last = self.plans[-1]
        whole = [changed.get(flow.flow_id, flow) for flow in last.flows]
        plan = pb.JobPlan(job_id=last.job_id, generation=last.generation + 1, flows=whole, reason=reason, state=state)
        with self._changed:
            self.plans.append(plan)
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self.stopped = True
            self._changed.notify_all()

    def WatchJob(self, request: pb.WatchJobRequest, context: grpc.ServicerContext) -> Iterator[pb.JobPlan]:
        if request.job_id != self.plans[-1].job_id:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such job")
        at = len(self.plans) - 1
        self.watches += 1
        yield self.plans[at]
        while True:
            at += 1
            self._await(at, context)
            old, new = self.plans[at - 1], self.plans[at]
            message = pb.JobPlan()
            message.CopyFrom(new)
            if request.changes_only:
                del message.flows[:]
                message.flows.extend(flow for was, flow in zip(old.flows, new.flows, strict=True) if was != flow)
            if self.truncates:
                del message.flows[:]
                message.flows_truncated = True
            yield message
            if new.state == "released":
                return

    def _await(self, at: int, context: grpc.ServicerContext) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self.plans) > at or self.stopped)
        if self.stopped:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the server stops")

    def StreamFlows(self, request: pb.GetJobRequest, context: grpc.ServicerContext) -> Iterator[pb.FlowPlanPage]:
        yield pb.FlowPlanPage(generation=self.plans[-1].generation, flows=self.plans[-1].flows)

    def ReportFlows(
        self, request_iterator: Iterator[pb.ObservedFlows], context: grpc.ServicerContext
    ) -> pb.ReportFlowsReply:
        self.report_streams += 1
        for message in request_iterator:
            self.reports.setdefault(message.host, []).append(message)
        return pb.ReportFlowsReply()

    def GetTopology(self, request: pb.GetTopologyRequest, context: grpc.ServicerContext) -> pb.Topology:
        if self.has_ended:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the server has ended since it published")
        return pb.Topology(links=[pb.Link(id=link, up=up) for link, up in self.links.items()])


@contextmanager
def serving(plans: PlanServer, address: str = "127.0.0.1:0") -> Iterator[str]:
    """Serve on loopback and yield the address."""
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    rpc.add_JobServiceServicer_to_server(plans, server)
    rpc.add_FabricServiceServicer_to_server(plans, server)
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        plans.stop()
        server.stop(None).wait()

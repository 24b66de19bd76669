"""A lab's gRPC client of its controller: submit and release jobs, like any scheduler."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc

from heddle.controller.model.error import HeddleError, UnavailableError
from heddle.controller.model.job import JobRequest
from heddle.controller.model.job_fields import collective_fields
from heddle.foundation.keepalive import client_options
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

CALL_TIMEOUT_S = 120.0
SWITCHES_TIMEOUT_S = 60.0
"""Long enough for a machine with much else to do: a controller that hangs is found all the same."""
POLL_S = 0.05
NOTE = "note"

Reply = TypeVar("Reply")


class ControllerClient:
    """The controller calls of a tenant of the lab; every gRPC error is raised as a HeddleError of one line."""

    def __init__(self, channel: grpc.Channel, tenant: str = "demo") -> None:
        """Use an open channel, and submit jobs as this tenant."""
        self.channel, self._tenant = channel, tenant
        self._jobs = rpc.JobServiceStub(channel)
        self._fabric = rpc.FabricServiceStub(channel)
        self._telemetry = rpc.TelemetryServiceStub(channel)

    def await_switches(self, switches: int) -> None:
        """Wait until all switches are connected and have rules; raises UnavailableError after a timeout."""

        def missing(topology: pb.Topology) -> str:
            ready = sum(switch.connected and switch.rules > 0 for switch in topology.switches)
            return "" if ready >= switches else f"{ready} of {switches} switches were ready"

        self._await(missing)

    def submit(self, job: JobRequest) -> pb.JobPlan:
        """Submit a job and return its plan, once every switch has acknowledged the plan's rules."""
        return self._whole(
            _call(lambda: self._jobs.SubmitJob(request_message(job, self._tenant), timeout=CALL_TIMEOUT_S))
        )

    def plan_of(self, job_id: str) -> pb.JobPlan:
        """Return the plan that a job has now: later jobs change rates."""
        return self._whole(_call(lambda: self._jobs.GetJob(pb.GetJobRequest(job_id=job_id), timeout=CALL_TIMEOUT_S)))

    def _whole(self, plan: pb.JobPlan) -> pb.JobPlan:
        """Return a plan with all of its flows, and their path sets."""
        if plan.flows_truncated or plan.HasField("path_templates"):
            del plan.flows[:]
            request = pb.GetJobRequest(job_id=plan.job_id, with_path_sets=True)
            plan.flows.extend(
                flow for page in _call(lambda: list(self._jobs.StreamFlows(request))) for flow in page.flows
            )
        return plan

    def preview(self, job: JobRequest, *, moves: bool = True) -> pb.JobPlan:
        """Return the plan that a job would get now; without `moves`, if all running flows kept their paths."""
        request = request_message(job, self._tenant)
        if not moves:
            request.move_limits.add(cause="ARRIVAL", whose="NONE")
        plan: pb.JobPlan = _call(lambda: self._jobs.PreviewJob(request, timeout=CALL_TIMEOUT_S))
        return plan

    def release(self, job_id: str) -> None:
        """Release a job's paths."""
        _call(lambda: self._jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=job_id), timeout=CALL_TIMEOUT_S))

    def await_links(self) -> None:
        """Wait until all links are up; raises UnavailableError after a timeout."""

        def missing(topology: pb.Topology) -> str:
            return next((f"link {link.id} is still down" for link in topology.links if not link.up), "")

        self._await(missing)

    def await_link(self, link_id: str, *, up: bool) -> None:
        """Wait until the controller knows that a link is up, or down; raises UnavailableError after a timeout."""

        def missing(topology: pb.Topology) -> str:
            known = any(link.id == link_id and link.up == up for link in topology.links)
            return "" if known else f"link {link_id} is not {'up' if up else 'down'} for the controller"

        self._await(missing)

    def _await(self, missing: Callable[[pb.Topology], str]) -> None:
        """Wait until nothing is missing in the topology; raises UnavailableError with what is, after a timeout."""
        deadline = time.monotonic() + SWITCHES_TIMEOUT_S
        while True:
            topology = _call(lambda: self._fabric.GetTopology(pb.GetTopologyRequest(), timeout=CALL_TIMEOUT_S))
            if not (text := missing(topology)):
                return
            if time.monotonic() > deadline:
                raise UnavailableError(f"{text} after {SWITCHES_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)

    def notes(self, since_unix_ns: int) -> list[pb.Event]:
        """Return the controller's own notes since a time, oldest first."""
        request = pb.WatchEventsRequest(since_unix_ns=since_unix_ns, history_only=True)
        events = _call(lambda: list(self._telemetry.WatchEvents(request, timeout=CALL_TIMEOUT_S)))
        return [event for event in events if event.kind == NOTE]


@contextmanager
def connected(address: str, tenant: str = "demo") -> Iterator[ControllerClient]:
    """Connect to the controller at `address` (ADDR:PORT) for the block, as a tenant."""
    options = [("grpc.max_receive_message_length", 64 << 20), *client_options()]
    with grpc.insecure_channel(address, options=options) as channel:
        yield ControllerClient(channel, tenant)


def _call(call: Callable[[], Reply]) -> Reply:
    try:
        return call()
    except grpc.RpcError as error:
        raise HeddleError(f"the controller refused: {error.details() or error.code()}") from None


def request_message(job: JobRequest, tenant: str) -> pb.SubmitJobRequest:
    """Return the gRPC message of a job request of a tenant; the lab's NICs let a queue pair drain before it moves."""
    return pb.SubmitJobRequest(
        job_id=job.job_id,
        tenant=tenant,
        ranks=job.ranks,
        collectives=map(collective_fields, job.collectives),
        incast=pb.Incast.Name(int(job.incast)),
        drains_before_moves=True,
    )

"""The controller's jobs as the agent needs them: a connection that is opened anew after an error."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import grpc

from heddle.controller.api.translate import request_to
from heddle.controller.model.error import AlreadyExistsError, HeddleError, InputError, NotFoundError, UnavailableError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.programs.console.client import Client, connected, fabric_of
from heddle.v1 import heddle_pb2 as pb

CALL_TIMEOUT_S = 3.0
SUBMIT_TIMEOUT_S = 30.0
"""A plan of a large job takes seconds; the hook that waits for it has a deadline of its own."""
UNREACHED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)

ERRORS = {
    grpc.StatusCode.INVALID_ARGUMENT: InputError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
}


class PlannedJobs:
    """Calls of one controller. Each raises UnavailableError where it is not reached, and the next one connects anew."""

    def __init__(self, server: str, lease_ms: int) -> None:
        self._server = server
        self._lease_ms = lease_ms
        self._stack = ExitStack()
        self._client: Client | None = None
        self._fabric: Fabric | None = None

    def fabric(self) -> Fabric:
        """Return the fabric as it was when the connection was opened: a controller with another one begins again."""
        self._connected()
        assert self._fabric is not None
        return self._fabric

    def down_links(self) -> set[str]:
        """Return the directed links that are down now."""
        topology = self._call("GetTopology", pb.GetTopologyRequest())
        return {link.id for link in topology.links if not link.up}

    def known(self) -> dict[str, bool]:
        """Return the ids of all jobs, and of each whether its flows are an assumption."""
        found: dict[str, bool] = {}
        request = pb.ListJobsRequest(without_flows=True)
        while True:
            reply = self._call("ListJobs", request)
            found.update((job.job_id, job.certificate.assumed) for job in reply.jobs)
            if not reply.next_page_token:
                return found
            request.page_token = reply.next_page_token

    def plans(self, prefix: str) -> list[pb.JobPlan]:
        """Return the plans, without their flows, of the jobs whose ids begin with a prefix; a page of them."""
        return list(self._call("ListJobs", pb.ListJobsRequest(id_prefix=prefix, without_flows=True)).jobs)

    def flows(self, job: str) -> list[pb.FlowPlan]:
        """Return all flows of a job; raises HeddleError where it has ended."""
        pages = self._call("StreamFlows", pb.GetJobRequest(job_id=job), SUBMIT_TIMEOUT_S, list)
        return [flow for page in pages for flow in page.flows]

    def report_pairs(self, job: str, host: str, pairs: Mapping[tuple[str, str], int], sends: str = "") -> None:
        """Report how many queue pairs a job has connected from NICs of a host, and what it says that it sends."""
        rows = [pb.ConnectedPair(src_nic=src, dst_nic=dst, queue_pairs=count) for (src, dst), count in pairs.items()]
        self._call("ReportPairs", pb.JobPairs(job_id=job, host=host, pairs=rows, sends=sends))

    def pairs(self, job: str) -> tuple[dict[tuple[str, str], int], str]:
        """Return how many queue pairs a job has connected between NICs, and what it says, as its hosts report."""
        found = self._call("GetPairs", pb.GetJobRequest(job_id=job))
        return {(pair.src_nic, pair.dst_nic): pair.queue_pairs for pair in found.pairs}, found.sends

    def submit(self, request: JobRequest) -> pb.JobPlan:
        """Submit a job and return its plan; raises HeddleError where it is refused."""
        return self._call("SubmitJob", request_to(request), SUBMIT_TIMEOUT_S)

    def preview(self, request: JobRequest) -> None:
        """Raise HeddleError where a job would be refused now, AlreadyExistsError where another has fixed its ports."""
        self._call("PreviewJob", request_to(request), SUBMIT_TIMEOUT_S)

    def renew(self, job: str) -> None:
        """Extend a lease; a job that has ended meanwhile is submitted by the next pass."""
        self._call("RenewJob", pb.RenewJobRequest(job_id=job, lease_ms=self._lease_ms))

    def release(self, job: str) -> None:
        """Release a job."""
        self._call("ReleaseJob", pb.ReleaseJobRequest(job_id=job))

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._client = None
        self._stack.close()

    def _call(
        self, name: str, request: object, timeout_s: float = CALL_TIMEOUT_S, read: Callable[[Any], Any] = lambda it: it
    ) -> Any:
        """Return a reply; `read` reads that of a stream."""
        client = self._connected()
        service = client.fabric if name == "GetTopology" else client.jobs
        try:
            return read(getattr(service, name)(request, timeout=timeout_s))
        except grpc.RpcError as error:
            text = f"{name}: {error.details() or error.code().name}"
            if error.code() in UNREACHED:
                self.close()
                raise UnavailableError(text) from None
            raise ERRORS.get(error.code(), HeddleError)(text) from None

    def _connected(self) -> Client:
        if self._client is None:
            client = self._stack.enter_context(connected(self._server))
            try:
                topology = client.fabric.GetTopology(pb.GetTopologyRequest(), timeout=CALL_TIMEOUT_S)
            except grpc.RpcError as error:
                self.close()
                raise UnavailableError(f"GetTopology: {error.details()}") from None
            self._fabric = fabric_of(topology)
            self._client = client
        return self._client

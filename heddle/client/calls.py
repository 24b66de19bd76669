"""The calls of both clients as values: functions of the stubs, which block or return an awaitable as the stubs do."""

from collections.abc import Callable
from typing import Any

from heddle.client.connection import Client, open_leading, user_tls
from heddle.controller.api.translate import request_to
from heddle.controller.model.job import JobRequest
from heddle.foundation.leader_address import LeaderAddress
from heddle.v1 import heddle_pb2 as pb

Call = Callable[[Client], Any]


class Followed:
    """The controller that leads, of those with the addresses `server`, found anew after each failure."""

    def __init__(self, server: str, tls_directory: str | None, timeout_s: float) -> None:
        self.tls, self._addresses, self._timeout_s = user_tls(tls_directory), LeaderAddress(server), timeout_s

    def address(self) -> str:
        """Return the address of the controller that leads now; raises UnavailableError where none does in time."""
        with open_leading(self._addresses, self.tls, self._timeout_s):
            return self._addresses.current


def topology() -> Call:
    """Return the call for switches, links and NICs with their state."""
    return lambda stubs: stubs.fabric.GetTopology(pb.GetTopologyRequest())


def submit(job: JobRequest) -> Call:
    """Return the call that plans a job and installs its rules."""
    message = request_to(job)
    return lambda stubs: stubs.jobs.SubmitJob(message)


def preview(job: JobRequest) -> Call:
    """Return the call that plans a job and installs nothing."""
    message = request_to(job)
    return lambda stubs: stubs.jobs.PreviewJob(message)


def job(job_id: str) -> Call:
    """Return the call for the plan that a job has now."""
    return lambda stubs: stubs.jobs.GetJob(pb.GetJobRequest(job_id=job_id))


def jobs(tenant: str, page_token: str) -> Call:
    """Return the call for one page of jobs, without their flows."""
    message = pb.ListJobsRequest(tenant=tenant, page_token=page_token, without_flows=True)
    return lambda stubs: stubs.jobs.ListJobs(message)


def renew(job_id: str, lease_ms: int) -> Call:
    """Return the call that extends a lease."""
    return lambda stubs: stubs.jobs.RenewJob(pb.RenewJobRequest(job_id=job_id, lease_ms=lease_ms))


def release(job_id: str) -> Call:
    """Return the call that ends a job."""
    return lambda stubs: stubs.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=job_id))


def flows(job_id: str) -> Call:
    """Return the stream of pages with all flows of a job."""
    return lambda stubs: stubs.jobs.StreamFlows(pb.GetJobRequest(job_id=job_id))


def watch(job_id: str) -> Call:
    """Return the stream of a job's plans: the one that it has, then each later generation."""
    return lambda stubs: stubs.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id))

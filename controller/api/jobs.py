"""Serve JobService: submit, preview, renew, release and watch jobs."""

from collections.abc import AsyncIterator
from typing import Any

import grpc

from controller.api.errors import errors_as_status
from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from controller.api.proto.heddle.v1 import heddle_pb2_grpc as rpc
from controller.api.translate import changed_flows, pages_of, placements_to, plan_to, plans_to, request_from, shape_from
from controller.api.worker import in_worker
from controller.brain.jobs import no_job
from controller.brain.state import Job
from controller.model.effect import Response
from controller.model.error import HeddleError
from controller.model.event import Release, Renew, Submit, Suggest
from controller.model.job_state import JobState
from controller.model.plan import Certificate, JobPlan
from controller.runtime.loop import Loop

Context = Any  # grpc.aio.ServicerContext, whose stubs are not generic everywhere


class JobService(rpc.JobServiceServicer):
    """Every method posts an event to the loop, or reads its frozen state."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    async def SubmitJob(self, request: pb.SubmitJobRequest, context: Context) -> pb.JobPlan:
        """Admit, plan and install a job; reply once every switch has acknowledged."""
        return await self._submitted(request, context, preview=False)

    async def PreviewJob(self, request: pb.SubmitJobRequest, context: Context) -> pb.JobPlan:
        """Return the plan that SubmitJob would return now; nothing is reserved."""
        return await self._submitted(request, context, preview=True)

    async def _submitted(self, request: pb.SubmitJobRequest, context: Context, *, preview: bool) -> pb.JobPlan:
        async with errors_as_status(context):
            wanted = request_from(request)
            plan = await self._loop.request(lambda reply: Submit(reply=reply, request=wanted, preview=preview))
            return await in_worker(plan_to, _plan(plan))

    async def SuggestPlacement(self, request: pb.SuggestPlacementRequest, context: Context) -> pb.SuggestPlacementReply:
        """Return NICs for a job of this shape, best first; nothing is reserved."""
        async with errors_as_status(context):
            shape = shape_from(request)
            places = await self._loop.request(lambda reply: Suggest(reply=reply, shape=shape))
            if not isinstance(places, tuple):
                raise HeddleError("the reply to a suggestion is no list of places")
            return await in_worker(placements_to, places)

    async def RenewJob(self, request: pb.RenewJobRequest, context: Context) -> pb.JobPlan:
        """Extend a lease."""
        async with errors_as_status(context):
            plan = await self._loop.request(
                lambda reply: Renew(reply=reply, job_id=request.job_id, lease_ms=request.lease_ms)
            )
            return await in_worker(plan_to, _plan(plan))

    async def ReleaseJob(self, request: pb.ReleaseJobRequest, context: Context) -> pb.ReleaseJobReply:
        """End a job."""
        async with errors_as_status(context):
            released = await self._loop.request(lambda reply: Release(reply=reply, job_id=request.job_id))
            if not isinstance(released, int):
                raise HeddleError("the reply to a release is no number of flows")
            return pb.ReleaseJobReply(flows_released=released)

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.JobPlan:
        """Return a job's current plan."""
        async with errors_as_status(context):
            return await in_worker(plan_to, self._plan_of(request.job_id))

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsReply:
        """Return all jobs, or a tenant's; flows past a message's limit are left out (flows_truncated)."""
        state = self._loop.state
        jobs = [job for job in state.jobs.values() if request.tenant in ("", job.request.tenant)]
        return await in_worker(_listed, jobs, state.certificate)

    async def StreamFlows(self, request: pb.GetJobRequest, context: Context) -> AsyncIterator[pb.FlowPlanPage]:
        """Return all flows of a job in pages."""
        async with errors_as_status(context):
            job = self._job(request.job_id)
            pages = pages_of(job.generation, job.flows.flows)
            while (page := await in_worker(next, pages, None)) is not None:
                yield page

    async def WatchJob(self, request: pb.WatchJobRequest, context: Context) -> AsyncIterator[pb.JobPlan]:
        """Stream the current plan, then every later generation, until the job ends."""
        async with errors_as_status(context):
            watch = self._loop.plans.open(request.job_id)
            try:
                plan = self._plan_of(request.job_id)
                yield await in_worker(plan_to, plan)
                async for later in watch:
                    if (later.generation, later.state) == (plan.generation, plan.state):
                        continue  # announced between the opening of the watch and the first message
                    yield await in_worker(_changed if request.changes_only else _whole, plan, later)
                    plan = later
                    if later.state is JobState.RELEASED:
                        return
            finally:
                self._loop.plans.close(request.job_id, watch)

    def _plan_of(self, job_id: str) -> JobPlan:
        return self._job(job_id).as_plan(self._loop.state.certificate)

    def _job(self, job_id: str) -> Job:
        job = self._loop.state.jobs.get(job_id)
        if job is None:
            raise no_job(job_id)
        return job


def _listed(jobs: list[Job], certificate: Certificate) -> pb.ListJobsReply:
    return pb.ListJobsReply(jobs=plans_to([job.as_plan(certificate) for job in jobs]))


def _changed(before: JobPlan, after: JobPlan) -> pb.JobPlan:
    return plan_to(after, flows=changed_flows(before, after))


def _whole(before: JobPlan, after: JobPlan) -> pb.JobPlan:
    return plan_to(after)


def _plan(response: Response) -> JobPlan:
    if not isinstance(response, JobPlan):
        raise HeddleError("the reply is no plan")
    return response


def add_to(server: grpc.aio.Server, loop: Loop) -> None:
    """Register the service."""
    rpc.add_JobServiceServicer_to_server(JobService(loop), server)

"""Serve JobService: submit, preview, renew, release and watch jobs."""

from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from operator import attrgetter
from typing import Any

import grpc

from heddle.controller.access.call import current
from heddle.controller.api.errors import errors_as_status
from heddle.controller.api.path_sets import every_path
from heddle.controller.api.peer import caller_of
from heddle.controller.api.requests import read_job, read_shape
from heddle.controller.api.services.connected_pairs import ConnectedPairs
from heddle.controller.api.services.rendezvous import Rendezvous
from heddle.controller.api.services.reports import FlowReports
from heddle.controller.api.translate import A_MESSAGE, Room, pages_of, placements_to, plan_to, plans_to
from heddle.controller.api.worker import Replies, RequestReader, in_worker
from heddle.controller.brain.state import Job, State
from heddle.controller.brain.tenants import owns
from heddle.controller.brain.transactions.jobs import no_job
from heddle.controller.model.admission import MAX_TENANT_LENGTH, quoted
from heddle.controller.model.effect import Response
from heddle.controller.model.error import DeadlineError, HeddleError, InputError
from heddle.controller.model.event import Release, Renew, Submit, Suggest
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job_state import JobState
from heddle.controller.model.observed import Reports, Stream
from heddle.controller.model.plan import FlowPlan, JobPlan
from heddle.controller.model.srv6 import Sids, sids_of
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.runtime.attached import ReportedFlows
from heddle.controller.runtime.feeds import Feeds
from heddle.controller.runtime.limits.limited import Limit
from heddle.controller.runtime.limits.shares import Shares
from heddle.controller.runtime.loop import Loop
from heddle.controller.views.flow_rates import own_rates
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

MAX_TOKEN_LENGTH = 20
MAX_PREFIX_LENGTH = 128
"""That of a job's id."""
CLOCK_STEP_MS = 100
"""A reply is made anew once the machine's clock was set by so much."""
Context = Any  # grpc.aio.ServicerContext, whose stubs are not generic everywhere


class JobService(rpc.JobServiceServicer):
    """Every method posts an event to the loop, or reads its frozen state.

    Methods whose requests may be large take them as bytes, and read them in a thread.
    """

    def __init__(
        self, loop: Loop, feeds: Feeds, flows: ReportedFlows, previews: Shares, limited: Counter[Limit]
    ) -> None:
        self._loop, self._plans, self._previews = loop, feeds.plans, previews
        self._reader, self._lists, self._shows = RequestReader(limited), Replies(), Replies()
        self._flows, self._reports = flows, FlowReports(loop, flows, feeds.note)
        self._meetings: dict[str, Rendezvous] = {}
        self._connected = ConnectedPairs()

    async def SubmitJob(self, data: bytes, context: Context) -> pb.JobPlan:
        """Admit, plan and install a job; reply once every switch has acknowledged."""
        async with errors_as_status(context):
            return await self._submitted(data, context, preview=False)

    async def PreviewJob(self, data: bytes, context: Context) -> pb.JobPlan:
        """Return the plan that SubmitJob would return now; nothing is reserved."""
        async with errors_as_status(context):
            with self._previews.taken(caller_of(context)):
                return await self._submitted(data, context, preview=True)

    async def _submitted(self, data: bytes, context: Context, *, preview: bool) -> pb.JobPlan:
        call = current()
        wanted = await self._reader.read(read_job, data, call.scope.fabric(self._loop.state.fabric))
        call.concerns(wanted.job_id)
        wanted = replace(wanted, tenant=call.scope.tenant_named(wanted.tenant))
        call.scope.check_job(wanted)
        _refuse_late(context)
        plan = await self._loop.request(
            lambda reply: Submit(reply=reply, request=wanted, preview=preview, checked=True, tenant=call.tenant)
        )
        return await in_worker(partial(plan_to, sids=self._sids()), self._published(_plan(plan)))

    async def SuggestPlacement(self, data: bytes, context: Context) -> pb.SuggestPlacementReply:
        """Return NICs for a job of this shape, best first; nothing is reserved."""
        async with errors_as_status(context):
            shape = await self._reader.read(read_shape, data)
            _refuse_late(context)
            withheld = current().scope.withheld_nics
            places = await self._loop.request(
                lambda reply: Suggest(reply=reply, shape=shape, checked=True, withheld=withheld)
            )
            if not isinstance(places, tuple):
                raise HeddleError("the reply to a suggestion is no list of places")
            return await in_worker(placements_to, places)

    async def RenewJob(self, request: pb.RenewJobRequest, context: Context) -> pb.JobPlan:
        """Extend a lease."""
        async with errors_as_status(context):
            plan = await self._loop.request(
                lambda reply: Renew(
                    reply=reply, job_id=request.job_id, lease_ms=request.lease_ms, tenant=current().tenant
                )
            )
            return await in_worker(partial(plan_to, sids=self._sids()), self._published(_plan(plan)))

    async def ReleaseJob(self, request: pb.ReleaseJobRequest, context: Context) -> pb.ReleaseJobReply:
        """End a job."""
        async with errors_as_status(context):
            released = await self._loop.request(
                lambda reply: Release(reply=reply, job_id=request.job_id, tenant=current().tenant)
            )
            if not isinstance(released, int):
                raise HeddleError("the reply to a release is no number of flows")
            return pb.ReleaseJobReply(flows_released=released)

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> bytes:
        """Return a job's current plan, with the rates of the flows that are measured."""
        async with errors_as_status(context):
            self._job(request.job_id)  # first: the frame of a refusal would keep the state alive
            state, newest, job_id = self._loop.state, self._flows.newest, request.job_id
            key, published = (job_id, request.with_path_sets, *self._view()), self._publisher()
            explicit = every_path(state.fabric) if request.with_path_sets else None

            def write() -> bytes:
                plan = published(state.jobs[job_id].as_plan(state.certificate))
                rates = _rates(newest, state.fabric, plan.flows.flows)
                return plan_to(plan, rates=rates, sids=sids_of(state.fabric), explicit=explicit).SerializeToString()

            return await in_worker(self._shows.reply, (state, newest), key, write)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> bytes:
        """Return a page of all jobs, or of a tenant's, the oldest first; flows that do not fit are left out."""
        async with errors_as_status(context):
            state, scope, tenant, after = self._loop.state, current().scope, request.tenant, _after(request.page_token)
            room = A_MESSAGE._replace(flows=0) if request.without_flows else A_MESSAGE
            prefix = request.id_prefix
            _refuse_long(("tenant", tenant, MAX_TENANT_LENGTH), ("id_prefix", prefix, MAX_PREFIX_LENGTH))
            key, published = (tenant, prefix, after, room, *self._view()), self._publisher()

            def write() -> bytes:
                found = [job for job in _named(scope.state(state), tenant, prefix) if job.number > after]
                return _listed(found, state, published, room).SerializeToString()

            return await in_worker(self._lists.reply, (state,), key, write)

    async def StreamFlows(self, request: pb.GetJobRequest, context: Context) -> AsyncIterator[pb.FlowPlanPage]:
        """Return all flows of a job in pages, with the rates of those that are measured."""
        async with errors_as_status(context):
            job = self._job(request.job_id)
            rates = await in_worker(_rates, self._flows.newest, self._loop.state.fabric, job.flows.flows)
            explicit = every_path(self._loop.state.fabric) if request.with_path_sets else None
            pages = pages_of(job.generation, job.flows.flows, rates, self._sids(), explicit)
            while (page := await in_worker(next, pages, None)) is not None:
                yield page

    async def WatchJob(self, request: pb.WatchJobRequest, context: Context) -> AsyncIterator[pb.JobPlan]:
        """Stream the current plan, then every later generation, until the job ends."""
        async with errors_as_status(context):
            watch = self._plans.open(request.job_id, caller_of(context))
            try:
                plan = self._plan_of(request.job_id)
                yield await in_worker(partial(plan_to, sids=self._sids()), plan)
                async for later in watch:
                    if later.tenant != plan.tenant:
                        return  # the id is another's now
                    if (later.generation, later.state) == (plan.generation, plan.state):
                        continue  # announced between the opening of the watch and the first message
                    shown = self._published(later)
                    flows = _changed_flows if request.changes_only else _all_flows
                    yield await in_worker(_later, flows, plan, shown, self._sids())
                    plan = later
                    if later.state is JobState.RELEASED:
                        return
            finally:
                self._plans.close(request.job_id, watch)

    async def ReportFlows(self, messages: AsyncIterable[pb.ObservedFlows], context: Context) -> pb.ReportFlowsReply:
        """Read a host's queue pairs as long as its stream lasts; the large ones of no job get paths of their own."""
        async with errors_as_status(context):
            return await self._reports.read(messages, current())

    async def JoinJob(self, request: pb.JoinJobRequest, context: Context) -> pb.JoinJobReply:
        """Register a node of a job; reply with the NICs of all when the last has registered."""
        async with errors_as_status(context):
            known = current().scope.fabric(self._loop.state.fabric).ports_by_rank
            unknown = next((nic for nic in request.nics if nic not in known), None)
            if unknown is not None:
                raise InputError(f"nics: {quoted(unknown)} is no NIC of this fabric")
            found = await self._meeting().join(
                request.job_id, request.node_rank, request.node_count, tuple(request.nics)
            )
            return pb.JoinJobReply(nics=found.nics, first_rank=found.first_rank, last_arrival=found.last_arrival)

    async def ReportPairs(self, request: pb.JobPairs, context: Context) -> pb.ReportPairsReply:
        """Keep the pairs that a host's programs of a job have connected."""
        async with errors_as_status(context):
            current().speaks_for(request.host)
            self._job(request.job_id)
            state = self._loop.state
            await in_worker(self._connected.report, request, state.fabric.nic_by_id, state.jobs)
            return pb.ReportPairsReply()

    async def GetPairs(self, request: pb.GetJobRequest, context: Context) -> bytes:
        """Return the pairs that all hosts have reported of a job."""
        async with errors_as_status(context):
            self._job(request.job_id)
            return await in_worker(self._connected.pairs, request.job_id)

    async def LeaveJob(self, request: pb.LeaveJobRequest, context: Context) -> pb.LeaveJobReply:
        """Note that a node's part of a job has ended; the reply says whether it was the last."""
        async with errors_as_status(context):
            return pb.LeaveJobReply(last=self._meeting().leave(request.job_id, request.node_rank))

    def _meeting(self) -> Rendezvous:
        """Return where the nodes of the caller's jobs meet: those of another tenant's job of the same id do not."""
        tenant = current().tenant
        return self._meetings.setdefault("" if tenant is None else tenant.name, Rendezvous())

    def _plan_of(self, job_id: str) -> JobPlan:
        return self._published(self._job(job_id).as_plan(self._loop.state.certificate))

    def _published(self, plan: JobPlan) -> JobPlan:
        """Return a plan as the caller sees it."""
        return self._publisher()(plan)

    def _view(self) -> tuple[Hashable, ...]:
        """Return what replies made of the same state depend on: whose they are, and the machine's clock."""
        return current().scope, self._loop.published_unix_ms(1) // CLOCK_STEP_MS

    def _publisher(self) -> Callable[[JobPlan], JobPlan]:
        """Return what makes plans as the caller sees them: their times are those of the clients' clocks."""
        call, published = current(), self._loop.published_unix_ms

        def seen(plan: JobPlan) -> JobPlan:
            proof = plan.certificate
            if proof.oldest_confirmation_unix_ms:
                confirmed = published(proof.oldest_confirmation_unix_ms)
                proof = replace(proof, oldest_confirmation_unix_ms=confirmed)
            expires = published(plan.lease_expires_unix_ms)
            return call.plan(replace(plan, certificate=proof, lease_expires_unix_ms=expires))

        return seen

    def _sids(self) -> Sids | None:
        return sids_of(self._loop.state.fabric)

    def _job(self, job_id: str) -> Job:
        job = self._loop.state.jobs.get(job_id)
        if job is None or not owns(current().tenant, job.request.tenant):
            raise no_job(job_id)
        return job


def _after(page_token: str) -> int:
    """Return the number of the last job of the page before; raises InputError."""
    if not page_token:
        return 0
    if not (page_token.isascii() and page_token.isdecimal() and len(page_token) < MAX_TOKEN_LENGTH):
        raise InputError(f"page_token: {quoted(page_token)} is no next_page_token of a reply")
    return int(page_token)


def _refuse_long(*texts: tuple[str, str, int]) -> None:
    """Raise InputError for a field whose text is longer than its limit: kept replies have them as keys."""
    for field, text, limit in texts:
        if len(text) > limit:
            raise InputError(f"{field}: must be at most {limit} characters, has {len(text):,}")


def _named(state: State, tenant: str, prefix: str) -> Iterator[Job]:
    """Yield the jobs of a tenant, "" all, whose ids begin with a prefix."""
    for job_id, job in state.jobs.items():
        if job_id.startswith(prefix) and tenant in ("", job.request.tenant):
            yield job


def _listed(jobs: list[Job], state: State, published: Callable[[JobPlan], JobPlan], room: Room) -> pb.ListJobsReply:
    jobs.sort(key=attrgetter("number"))
    plans = [published(job.as_plan(state.certificate)) for job in jobs]
    written = plans_to(plans, room, sids_of(state.fabric))
    more = str(jobs[len(written) - 1].number) if len(written) < len(jobs) else ""
    return pb.ListJobsReply(jobs=written, next_page_token=more)


def _rates(reports: Reports, fabric: Fabric, flows: Sequence[FlowPlan]) -> dict[Stream, float]:
    return own_rates(flows, reports.rates_bps(fabric))


def _later(
    flows: Callable[[JobPlan, JobPlan], Sequence[FlowPlan]], before: JobPlan, after: JobPlan, sids: Sids | None
) -> pb.JobPlan:
    return plan_to(after, flows=flows(before, after), sids=sids)


def _changed_flows(before: JobPlan, after: JobPlan) -> Sequence[FlowPlan]:
    """Return the flows of a later generation that differ from an earlier one's."""
    old, new = before.flows.flows, after.flows.flows
    if old is new:
        return ()
    if isinstance(old, FlowTable) and isinstance(new, FlowTable):
        return new.changed_since(old)  # builds those flow plans only
    known = {flow.flow_id: flow for flow in old}
    return tuple(flow for flow in new if known.get(flow.flow_id) != flow)


def _all_flows(before: JobPlan, after: JobPlan) -> Sequence[FlowPlan]:
    return after.flows.flows


def _plan(response: Response) -> JobPlan:
    if not isinstance(response, JobPlan):
        raise HeddleError("the reply is no plan")
    return response


def _refuse_late(context: Context) -> None:
    """Raise DeadlineError where a call's deadline has passed."""
    if _time_left_s(context) <= 0:
        raise DeadlineError("the call's deadline passed while the request was read")


def _time_left_s(context: Context) -> float:
    """Return the time to a call's deadline, infinity where it has none."""
    left = context.time_remaining()
    return inf if left is None else float(left)


def add_to(
    server: grpc.aio.Server,
    loop: Loop,
    feeds: Feeds,
    flows: ReportedFlows,
    previews: Shares,
    limited: Counter[Limit],
) -> None:
    """Register the service; `previews` counts those in progress, `limited` what limits refuse."""
    service = JobService(loop, feeds, flows, previews, limited)
    # Without a deserializer, gRPC passes the bytes of a request.
    unread = {
        "SubmitJob": grpc.unary_unary_rpc_method_handler(
            service.SubmitJob, response_serializer=pb.JobPlan.SerializeToString
        ),
        "PreviewJob": grpc.unary_unary_rpc_method_handler(
            service.PreviewJob, response_serializer=pb.JobPlan.SerializeToString
        ),
        # These return bytes, made in the thread.
        "GetJob": grpc.unary_unary_rpc_method_handler(service.GetJob, request_deserializer=pb.GetJobRequest.FromString),
        "ListJobs": grpc.unary_unary_rpc_method_handler(
            service.ListJobs, request_deserializer=pb.ListJobsRequest.FromString
        ),
        "GetPairs": grpc.unary_unary_rpc_method_handler(
            service.GetPairs, request_deserializer=pb.GetJobRequest.FromString
        ),
        "SuggestPlacement": grpc.unary_unary_rpc_method_handler(
            service.SuggestPlacement, response_serializer=pb.SuggestPlacementReply.SerializeToString
        ),
    }
    name = pb.DESCRIPTOR.services_by_name["JobService"].full_name
    rpc.add_JobServiceServicer_to_server(service, server)
    server.add_registered_method_handlers(name, unread)  # of two with one name, the later one serves

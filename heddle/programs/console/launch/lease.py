"""A node's part in a job, as a client of the controller: meet other nodes, submit, renew, follow the plan, leave."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Event, Thread

import grpc

from heddle.controller.api.translate import request_to
from heddle.controller.model.error import DeadlineError
from heddle.controller.model.job import JobRequest
from heddle.programs.console.client import Client
from heddle.programs.console.launch.membership import Membership
from heddle.v1 import heddle_pb2 as pb

RETRY_S = 1.0
CALL_TIMEOUT_S = 10.0
PlanSeen = Callable[[pb.JobPlan], None]


class JobLease:
    """One node of one job. Errors of `join` and `submit` are gRPC's; those of the threads are logged and repeated."""

    def __init__(self, client: Client, member: Membership, wait_s: float, lease_ms: int) -> None:
        self._jobs = client.jobs
        self._member = member
        self._wait_s = wait_s
        self._lease_ms = lease_ms
        self._ended = Event()

    def join(self, nics: Sequence[str]) -> pb.JoinJobReply:
        """Register this node's NICs and wait until all nodes have; raises DeadlineError."""
        member = self._member
        request = pb.JoinJobRequest(
            job_id=member.job_id, node_rank=member.node_rank, node_count=member.node_count, nics=nics
        )
        deadline_s = time.monotonic() + self._wait_s
        while True:
            left_s = deadline_s - time.monotonic()
            try:
                reply: pb.JoinJobReply = self._jobs.JoinJob(request, timeout=max(0.001, left_s))
                return reply
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise DeadlineError(
                        f"{member.job_id}: not all {member.node_count} nodes registered within {self._wait_s:g} s"
                    ) from None
                if error.code() is not grpc.StatusCode.UNAVAILABLE or left_s < RETRY_S:
                    raise
            time.sleep(RETRY_S)  # the controller restarts, or another takes over

    def submit(self, request: JobRequest) -> pb.JobPlan:
        """Submit the job, as every node does with the same request; return the plan with all of its flows."""
        wanted = request_to(replace(request, lease_ms=self._lease_ms))
        plan: pb.JobPlan = self._jobs.SubmitJob(wanted, timeout=self._wait_s)
        if plan.flows_truncated:
            del plan.flows[:]
            for page in self._jobs.StreamFlows(pb.GetJobRequest(job_id=plan.job_id), timeout=self._wait_s):
                plan.flows.extend(page.flows)
        return plan

    @contextmanager
    def held(self, request: JobRequest, plan_seen: PlanSeen) -> Iterator[None]:
        """Renew the lease and follow the plan while the context lasts."""
        threads = [
            Thread(target=self._renew, args=(request,), daemon=True),
            Thread(target=self._watch, args=(plan_seen,), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            threads[0].join(CALL_TIMEOUT_S)  # the watch ends with the channel

    def leave(self) -> None:
        """Leave the job; release it as the last node. Where that fails, the lease ends the job."""
        request = pb.LeaveJobRequest(job_id=self._member.job_id, node_rank=self._member.node_rank)
        with suppress(grpc.RpcError):
            if self._jobs.LeaveJob(request, timeout=CALL_TIMEOUT_S).last:
                self._jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=self._member.job_id), timeout=CALL_TIMEOUT_S)

    def _renew(self, request: JobRequest) -> None:
        failing = False
        while not self._ended.wait(self._lease_ms / 3_000):
            renewal = pb.RenewJobRequest(job_id=self._member.job_id, lease_ms=self._lease_ms)
            try:
                self._jobs.RenewJob(renewal, timeout=CALL_TIMEOUT_S)
                failing = False
            except (grpc.RpcError, ValueError) as error:  # ValueError: the channel is closed
                if self._ended.is_set():
                    return
                if isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.NOT_FOUND:
                    with suppress(grpc.RpcError):  # the lease ended while the controller was out of reach
                        self.submit(request)
                        continue
                if not failing:
                    print(
                        f"heddle: {self._member.job_id}: the lease cannot be renewed now; it is tried again",
                        file=sys.stderr,
                    )
                failing = True

    def _watch(self, plan_seen: PlanSeen) -> None:
        while not self._ended.is_set():
            with suppress(grpc.RpcError, ValueError):
                for plan in self._jobs.WatchJob(pb.WatchJobRequest(job_id=self._member.job_id, changes_only=True)):
                    plan_seen(plan)
            self._ended.wait(RETRY_S)

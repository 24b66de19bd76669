"""Follow a job's plan over gRPC: every later generation becomes changes of the flows that run.

    with JobFollower(channel, plan) as follower:
        result = lab.run_flows(requests, timeout_s=20, changes=follower)

A thread keeps `WatchJob` open, across restarts of the controller too; the run's thread takes the changes and passes
them to the NICs. The links that are down are read with `GetTopology` after each generation and not watched, because two
streams have no common order.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import grpc

from heddle.mininet_topos.measure.flow_run import FlowChange
from heddle.mininet_topos.measure.plan_changes import Pace, no_floor, plan_changes, planned_rate
from heddle.mininet_topos.measure.spray_paths import PathsOf, no_paths
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

RETRY_S = 0.2
CALL_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 10.0
RELEASED = "released"


class Generation(NamedTuple):
    """A generation of a job's plan that has arrived: when (CLOCK_MONOTONIC), and all flows of the plan by id."""

    monotonic_ns: int
    plan: pb.JobPlan
    flows: Mapping[str, pb.FlowPlan]


class JobFollower:
    """The changes of one job's flows, as `run_flows` takes them; `plan` is the one that the flows started with.

    `problem` is why no plan arrives at present; None while the stream is open. `generations` are those that arrived, in
    order; the first is the one that is in force when the stream opens.
    """

    def __init__(
        self, channel: grpc.Channel, plan: pb.JobPlan, pace: Pace = planned_rate, floor: Pace = no_floor,
        paths_of: PathsOf = no_paths,
    ) -> None:  # fmt: skip
        """Use an open channel; `pace`, `floor` and `paths_of` return what a flow of a new generation has."""
        self._jobs, self._fabric = rpc.JobServiceStub(channel), rpc.FabricServiceStub(channel)
        self._job_id, self._pace, self._floor, self._paths_of = plan.job_id, pace, floor, paths_of
        self.problem: str | None = None
        self.generations: list[Generation] = []
        self._flows = {flow.flow_id: flow for flow in plan.flows}
        self._down: frozenset[str] = frozenset()
        self._changes: deque[Mapping[str, FlowChange]] = deque()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._closed = threading.Event()
        self._stream: Any = None
        self._thread = threading.Thread(target=self._follow, name=f"follower of {plan.job_id}", daemon=True)

    def __enter__(self) -> "JobFollower":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        if self._stream is not None:
            self._stream.cancel()
        self._thread.join(CLOSE_TIMEOUT_S)
        os.close(self._event)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there are changes to take."""
        return self._event

    def take(self) -> Sequence[Mapping[str, FlowChange]]:
        """Return the changes by flow id of each generation since the last call, oldest first."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return []
        return [self._changes.popleft() for _ in range(len(self._changes))]

    def _follow(self) -> None:
        """Watch until the job or the follower ends; a broken stream is opened again and begins with the whole plan."""
        while not self._closed.is_set():
            request = pb.WatchJobRequest(job_id=self._job_id, changes_only=True)
            self._stream = self._jobs.WatchJob(request, wait_for_ready=True)
            if self._closed.is_set():
                self._stream.cancel()
            try:
                for plan in self._stream:
                    if plan.state == RELEASED:
                        return
                    self._on_generation(plan)
                    self.problem = None
            except grpc.RpcError as error:
                self.problem = error.details() or str(error.code())
            self._closed.wait(RETRY_S)

    def _on_generation(self, plan: pb.JobPlan) -> None:
        arrived_ns = time.monotonic_ns()
        is_whole = not plan.flows_truncated and not plan.HasField("path_templates")
        changed = plan.flows if is_whole else self._all_flows()
        flows = self._flows | {flow.flow_id: flow for flow in changed}
        self.generations.append(Generation(arrived_ns, plan, flows))
        down = self._down_links()
        reason = f"generation {plan.generation}: {plan.reason}"
        changes = plan_changes(
            self._flows,
            flows.values(),
            down_before=self._down,
            down=down,
            reason=reason,
            pace=self._pace,
            floor=self._floor,
            paths_of=self._paths_of,
        )
        self._flows, self._down = flows, down
        if changes:
            self._changes.append(changes)
            os.eventfd_write(self._event, 1)

    def _down_links(self) -> frozenset[str]:
        """Return the links that are down, those of the generation before if the controller has ended meanwhile."""
        try:
            topology = self._fabric.GetTopology(pb.GetTopologyRequest(), timeout=CALL_TIMEOUT_S)
        except grpc.RpcError:
            return self._down
        return frozenset(link.id for link in topology.links if not link.up)

    def _all_flows(self) -> list[pb.FlowPlan]:
        pages = self._jobs.StreamFlows(
            pb.GetJobRequest(job_id=self._job_id, with_path_sets=True), timeout=CALL_TIMEOUT_S
        )
        return [flow for page in pages for flow in page.flows]

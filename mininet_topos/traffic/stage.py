"""Run a cast in a lab: its flows, what happens at its times, and what the controller decides meanwhile."""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType

from heddle.mininet_topos.host.machine import MachineUse
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import GOODPUT_PERIOD_NS, FiveTuple, FlowChange, FlowRequest, RunResult
from heddle.mininet_topos.measure.job_follower import JobFollower
from heddle.mininet_topos.measure.machine_watch import MachineWatch
from heddle.mininet_topos.measure.spray_paths import paths_on
from heddle.mininet_topos.measure.start_phases import start_offset_ns, start_phases
from heddle.mininet_topos.services.controller_client import ControllerClient
from heddle.mininet_topos.traffic.cast import PACE, Act, Cast, Decision, Mark, floor_of, paced
from heddle.mininet_topos.traffic.queue_pairs import FRAME_BITS, hashed_pairs
from heddle.mininet_topos.traffic.workloads import Workload
from heddle.v1 import heddle_pb2 as pb

SLACK_S = 0.5
"""A run that has lasted this much longer than it should has waited for a decision."""
MIN_SPREAD_BPS = 50_000
"""Slower flows begin within a frame's time at this rate: a part in a plane with nothing left may get more meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One run of a scene: its result, when its acts happened, and the controller's decisions in order of time.

    `seconds` is how long it has lasted: longer than a run of its scene if decisions came late. `led` says of each
    planned flow whether the switches' rules lead its last port, and that of its ACKs, over the planned links; it is
    empty in a lab of routers, which have no rules.
    """

    cast: Cast
    seconds: float
    result: RunResult
    acts: tuple[Mark, ...]
    decisions: tuple[Decision, ...]
    led: Mapping[str, bool] = field(default_factory=dict)
    machine: MachineUse | None = None

    @property
    def goodput_bps(self) -> tuple[int, ...]:
        """Return the goodput of the watched flows in each period of the run."""
        return self.goodput_of(self.cast.watched)

    def goodput_of(self, flow_ids: frozenset[str]) -> tuple[int, ...]:
        """Return the goodput of some flows in each period of the run."""
        periods = range(int(self.seconds * 1e9) // GOODPUT_PERIOD_NS)
        series = [flow.goodput_bytes for flow in self.result.flows if flow.request.flow_id in flow_ids]
        sums = (sum(of[period] for of in series if period < len(of)) for period in periods)
        return tuple(size_bytes * 8 * 10**9 // GOODPUT_PERIOD_NS for size_bytes in sums)

    @property
    def plans(self) -> Mapping[str, pb.FlowPlan]:
        """Return the plan that each followed flow has at the end of the run."""
        return plans_after(self.cast.followed, self.decisions)

    def paths_of(self, flow_id: str) -> Mapping[int, tuple[str, ...]]:
        """Return the path of each UDP source port that a followed flow has had."""
        first = (flow for plan in self.cast.followed for flow in plan.flows if flow.flow_id == flow_id)
        later = (decision.flows[flow_id] for decision in self.decisions if flow_id in decision.flows)
        return {flow.udp_source_port: tuple(flow.links) for flow in (*first, *later) if flow.links}


def plans_after(followed: Sequence[pb.JobPlan], decisions: Sequence[Decision]) -> dict[str, pb.FlowPlan]:
    """Return the plan that each followed flow has after some decisions."""
    found = {flow.flow_id: flow for plan in followed for flow in plan.flows}
    for decision in decisions:
        found.update(decision.flows)
    return found


class Stage:
    """A lab in which casts play: with a controller, whose plans NICs follow, or on static rules, without one."""

    def __init__(
        self, lab: Lab, client: ControllerClient | None, seconds: float, *, patience_s: float = 0.0,
        exceeds: bool = False,
    ) -> None:  # fmt: skip
        """Use a running lab whose switches are ready; every cast plays for `seconds`.

        Where a decision is missing by then, it goes on until that has come, but for no more than `patience_s`. With
        `exceeds`, flows send as fast as their NICs where the plan lets them (`work_conserving`).
        """
        self.lab, self._client, self.seconds, self.longest_s = lab, client, seconds, seconds + patience_s
        self._exceeds, self._paths_of = exceeds, paths_on(lab.fabric)
        self._jobs: list[str] = []

    @property
    def mode(self) -> str:
        """Return the mode of the runs."""
        return "ecmp" if self._client is None else "planned"

    @property
    def client(self) -> ControllerClient:
        """Return the controller's client."""
        assert self._client is not None, "there is no controller under ECMP"
        return self._client

    def submit(self, workload: Workload) -> pb.JobPlan:
        """Submit a job, which lasts until `release_jobs`."""
        plan = self.client.submit(workload.job)
        self._jobs.append(plan.job_id)
        return plan

    def release_jobs(self) -> None:
        """Release all jobs that were submitted."""
        while self._jobs:
            self.client.release(self._jobs.pop())

    def hashed(self, workload: Workload, start_s: float = 0.0) -> list[FlowRequest]:
        """Return a workload's flows with random ports; they send as fast as their NICs, or at the rate of their own."""
        line_bps = {nic.id: nic.capacity_bps for nic in self.lab.fabric.nics}
        return [
            FlowRequest(
                flow_id=pair.flow_id, src_nic=pair.src_nic, dst_nic=pair.dst_nic, udp_source_port=pair.udp_source_port,
                reverse_udp_source_port=pair.reverse_udp_source_port, rate_bps=pair.fixed_bps or line_bps[pair.src_nic],
                size_bytes=self._endless(line_bps[pair.src_nic]), start_offset_ns=int(start_s * 1e9),
            )
            for pair in hashed_pairs(self.lab.fabric, workload, "ecmp")
        ]  # fmt: skip

    def planned(self, plan: pb.JobPlan, start_s: float = 0.0) -> list[FlowRequest]:
        """Return a plan's flows at their paced rates."""
        line_bps = {nic.id: nic.capacity_bps for nic in self.lab.fabric.nics}
        paths = {flow.flow_id: self._paths_of(flow) for flow in plan.flows}
        return [
            FlowRequest(
                flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, udp_source_port=flow.udp_source_port,
                reverse_udp_source_port=flow.reverse_udp_source_port, rate_bps=self._pace(flow),
                floor_bps=self._floor(flow), sid=flow.sid, reverse_sid=flow.reverse_sid,
                size_bytes=self._endless(line_bps[flow.src_nic]), start_offset_ns=int(start_s * 1e9),
                paths=paths[flow.flow_id][0], reverse_paths=paths[flow.flow_id][1],
            )
            for flow in plan.flows
        ]  # fmt: skip

    def play(self, cast: Cast, on_progress: Callable[[float], None]) -> Played:
        """Run the flows of a cast; they do not complete. Raises what an act has raised."""
        watch = MachineWatch(self.lab.id)
        with ExitStack() as stack:
            followers = [stack.enter_context(self._follower(plan)) for plan in cast.followed]
            director = stack.enter_context(_Director(cast.acts, followers))

            def proceed(seconds: float) -> None:
                director.on_progress(seconds)
                on_progress(seconds)
                if seconds >= self.seconds and cast.decided(self._decisions(followers, director.start_ns, seconds)):
                    self.lab.end_flows()

            result = self.lab.run_flows(_spread(cast.requests), self.longest_s, proceed, changes=director)
            acts = director.ended()
            decisions = self._decisions(followers, director.start_ns, director.seconds)
        traced = self._client is not None and self.lab.has_rules
        led = self._led(plans_after(cast.followed, decisions)) if traced else {}
        seconds = self.seconds if director.seconds < self.seconds + SLACK_S else director.seconds
        return Played(
            cast=cast, seconds=seconds, result=result, acts=acts, decisions=decisions, led=led,
            machine=watch.use(result.nics.values()),
        )  # fmt: skip

    def _decisions(self, followers: Sequence[JobFollower], start_ns: int, seconds: float) -> tuple[Decision, ...]:
        """Return the controller's decisions from the start of a run up to `seconds`, in order of time."""
        decisions = [one for follower in followers for one in _generations(follower, start_ns)]
        if self._client is not None:
            start_unix_ns = time.time_ns() - time.monotonic_ns() + start_ns
            decisions += [
                Decision(note.timestamp_unix_ns - start_unix_ns, note.subject, note.text)
                for note in self._client.notes(start_unix_ns)
            ]
        in_time = (one for one in decisions if 0 <= one.at_ns < int(seconds * 1e9))
        return tuple(sorted(in_time, key=lambda one: one.at_ns))

    def _led(self, plans: Mapping[str, pb.FlowPlan]) -> dict[str, bool]:
        """Return of each flow with a path whether the rules lead it and its ACKs there."""
        return {flow_id: self._is_led(flow) for flow_id, flow in plans.items() if flow.links}

    def _is_led(self, flow: pb.FlowPlan) -> bool:
        source, destination = (self.lab.fabric.nic_by_id[nic].ip for nic in (flow.src_nic, flow.dst_nic))
        data = FiveTuple(source, destination, flow.udp_source_port)
        acks = FiveTuple(destination, source, flow.reverse_udp_source_port)
        paths = ((data, tuple(flow.links)), (acks, tuple(flow.reverse_links)))
        return all(self.lab.path_of(stream) == links for stream, links in paths if links)

    def _endless(self, line_bps: int) -> int:
        """Return more bytes than a NIC can send in a run."""
        return int(line_bps * 2 * self.longest_s / 8)

    def _pace(self, flow: pb.FlowPlan) -> int:
        """Return the rate at which a NIC sends a planned flow: as fast as the NIC where it may exceed its plan."""
        if not self._floor(flow):
            return paced(flow)
        return int(PACE * self.lab.fabric.nic_by_id[flow.src_nic].capacity_bps)

    def _floor(self, flow: pb.FlowPlan) -> int:
        """Return the rate below which congestion control does not cut a planned flow."""
        return floor_of(flow) if self._exceeds else 0

    def _follower(self, plan: pb.JobPlan) -> JobFollower:
        return JobFollower(self.client.channel, plan, self._pace, self._floor, self._paths_of)


def _generations(follower: JobFollower, start_ns: int) -> list[Decision]:
    """Return the generations that have arrived, but those in force at the start."""
    return [
        Decision(one.monotonic_ns - start_ns, one.plan.job_id, one.plan.reason, one.flows)
        for one in follower.generations
        if one.monotonic_ns > start_ns
    ]


def _spread(requests: Sequence[FlowRequest]) -> list[FlowRequest]:
    """Return the flows with their first packets spread over one packet interval."""
    phases = start_phases([(request.src_nic, request.dst_nic) for request in requests])
    rates = [max(request.rate_bps, MIN_SPREAD_BPS) for request in requests]
    offsets = [start_offset_ns(phase, FRAME_BITS, rate_bps) for phase, rate_bps in zip(phases, rates, strict=True)]
    return [
        replace(request, start_offset_ns=request.start_offset_ns + offset_ns)
        for request, offset_ns in zip(requests, offsets, strict=True)
    ]


class _Director:
    """Lets acts happen at their times during a run, and joins the followers of several jobs to one source of changes.

    A timer starts each act, and wakes the run's thread for an act that only this thread may do.
    """

    def __init__(self, acts: Sequence[Act], followers: Sequence[JobFollower]) -> None:
        self._acts, self._followers = acts, followers
        self._timers: list[threading.Timer] = []
        self._due: deque[Act] = deque()
        self._marks: list[Mark] = []
        self._failure: Exception | None = None
        self.start_ns, self.seconds = 0, 0.0

    def __enter__(self) -> "_Director":
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.epoll()
        for source in (self._wake, *(follower.fileno() for follower in self._followers)):
            self._poll.register(source, select.EPOLLIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timer in self._timers:
            timer.cancel()
            timer.join()
        self._poll.close()
        os.close(self._wake)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there are changes to take, or an act is due."""
        return self._poll.fileno()

    def take(self) -> list[Mapping[str, FlowChange]]:
        """Return the changes of all jobs."""
        if any(source == self._wake for source, _ in self._poll.poll(0)):
            os.eventfd_read(self._wake)
        return [changes for follower in self._followers for changes in follower.take()]

    def on_progress(self, seconds: float) -> None:
        """Start the timers when the run has started, and do what only the run may do."""
        self.seconds = seconds
        if not self.start_ns and seconds > 0:
            self.start_ns = time.monotonic_ns() - int(seconds * 1e9)
            for act in self._acts:
                self._timers.append(threading.Timer(act.at_s - seconds, self._on_time, (act,)))
                self._timers[-1].start()
        while self._due:
            self._perform(self._due.popleft())

    def ended(self) -> tuple[Mark, ...]:
        """Return the marks of all acts; raises what one of them has raised."""
        for timer in self._timers:
            timer.join()
        if self._failure is not None:
            raise self._failure
        return tuple(sorted((mark for mark in self._marks if mark.text), key=lambda mark: mark.at_ns))

    def _on_time(self, act: Act) -> None:
        if not act.in_run:
            return self._perform(act)
        self._due.append(act)
        os.eventfd_write(self._wake, 1)

    def _perform(self, act: Act) -> None:
        self._marks.append(Mark(at_ns=time.monotonic_ns() - self.start_ns, kind="event", text=act.text))
        try:
            if act.do is not None:
                act.do()
        except Exception as fault:  # raised again by `ended`
            self._failure = fault

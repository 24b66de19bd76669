"""Which jobs are planned again while they run: by what their environment says, or by what they have connected.

What an environment says counts at once. Of assumed jobs pairs count on which readings agree for 10 s.

Nothing of it must survive: nodes report again, and the next agent keeps the plan that it finds of a job's NICs.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import HeddleError, InputError, UnavailableError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.schedulers.slurm_descriptions import sent_collective
from heddle.controller.schedulers.slurm_jobs import is_planned_id, number_of
from heddle.controller.schedulers.slurm_observed import Pair, observed_id, observed_request, said_request
from heddle.v1 import heddle_pb2 as pb

MAX_READ = 64
"""Jobs whose pairs are read in a pass, those first that were read longest ago."""
READ_PERIOD_S = 5.0
"""Between two readings: passes that hooks wake in between read nothing, as the jobs that start wait for them."""
MAX_REPLANS = 8
"""Of a job, refused ones among them: one that connects other pairs without an end keeps its last plan."""
MIN_AGREEMENT_S = 10.0
"""So long readings agree: hooks wake passes that follow each other at once."""


class Calls(Protocol):
    """What is requested of the controller; each raises HeddleError."""

    def fabric(self) -> Fabric:
        """Return the fabric."""

    def pairs(self, job: str) -> tuple[dict[Pair, int], str]:
        """Return the queue pairs that a job has connected between NICs, and what its environment says."""

    def flows(self, job: str) -> list[pb.FlowPlan]:
        """Return the flows of a job's plan."""


class ObservedJobs:
    """What is wanted instead of assumed jobs; `planned_again` counts the changes.

    `is_admitted` returns whether the controller would plan a request, and raises UnavailableError: the plan that a job
    has is released only for one that is. A plan that was found, and whose request is not known, is wanted without
    collectives; once the controller does not have it, the assumption is wanted. What an environment says is tried once.
    """

    def __init__(self, calls: Calls, is_admitted: Callable[[JobRequest], bool], log: Callable[[str], None]) -> None:
        self._calls = calls
        self._is_admitted = is_admitted
        self._log = log
        self._said: dict[str, tuple[str, bool]] = {}
        self._read_s = float("-inf")
        self._wanted: dict[str, JobRequest] = {}
        self._former: dict[str, JobRequest] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self._replans: dict[str, int] = {}
        self.planned_again = 0

    def wanted(
        self, assumed: Mapping[str, JobRequest], known: Mapping[str, bool], now_s: float
    ) -> dict[str, JobRequest]:
        """Return the requests by their ids; `known` says of each planned job whether its flows are assumed.

        Raises UnavailableError.
        """
        self._wanted = {
            job: request
            for job, request in self._wanted.items()
            if job in assumed and (request.collectives or request.job_id in known)
        }
        self._former = {job: request for job, request in self._former.items() if job in assumed}
        self._seen = {job: found for job, found in self._seen.items() if job in assumed}
        self._replans = {job: count for job, count in self._replans.items() if job in assumed}
        self._said = {job: said for job, said in self._said.items() if job in assumed}
        unread = self._keep_found(assumed, known)
        current = {job: self._wanted[job].job_id if job in self._wanted else job for job in assumed}
        is_due = now_s - self._read_s >= READ_PERIOD_S
        due = [job for job, plan in current.items() if is_due and plan in known]
        self._read_s = now_s if due else self._read_s
        turns = {job: turn for turn, job in enumerate(self._seen)}  # the one that was read last has the last turn
        for job in sorted(due, key=lambda job: turns.get(job, -1))[:MAX_READ]:
            self._read(assumed[job], current[job], now_s, is_observed=current[job] != job or known[job])
        found = (self._wanted.get(job) or unread.get(job, request) for job, request in assumed.items())
        return {request.job_id: request for request in found}

    def refused(self, job_id: str) -> None:
        """Note that a request was refused: its job's former one is wanted again, else the assumption, and stays."""
        for job, request in [*self._wanted.items()]:
            if request.job_id == job_id:
                del self._wanted[job]
                self._replans[job] = MAX_REPLANS
                self._said[job] = "", False
                if (former := self._former.pop(job, None)) is not None:
                    self._wanted[job] = former

    def _keep_found(self, assumed: Mapping[str, JobRequest], known: Mapping[str, bool]) -> dict[str, JobRequest]:
        """Keep the plans of an agent before, those of the jobs' NICs; return those that were not compared yet."""
        others = {number_of(job): job for job, is_assumed in known.items() if is_planned_id(job) and not is_assumed}
        unknown = [job for job in assumed if job not in known and job not in self._wanted and number_of(job) in others]
        kept = {
            job: replace(assumed[job], job_id=others[number_of(job)], collectives=(), assumed=False) for job in unknown
        }
        for job in unknown[:MAX_READ]:
            request = kept.pop(job)
            if self._is_of_its_nics(assumed[job], request.job_id):
                self._wanted[job] = request
        return kept

    def _is_of_its_nics(self, assumed: JobRequest, plan: str) -> bool:
        """Return whether a plan is one by what the job says or has connected: its id is a digest of that."""
        try:
            sends = self._calls.pairs(plan)[1]
            with suppress(InputError):
                if sends and said_request(assumed, sent_collective(sends)).job_id == plan:
                    self._said[assumed.job_id] = sends, True
                    return True
            flows = Counter((flow.src_nic, flow.dst_nic) for flow in self._calls.flows(plan))
        except UnavailableError:
            raise
        except HeddleError:
            return False  # it has ended meanwhile
        return observed_id(assumed, flows) == plan

    def _read(self, assumed: JobRequest, current: str, now_s: float, *, is_observed: bool) -> None:
        """Read what a job says and has connected; where the latter is another plan's for MIN_AGREEMENT_S, it is wanted.

        What it has connected counts where it was assumed, and while it says nothing.
        """
        job = assumed.job_id
        try:
            pairs, sends = self._calls.pairs(current)
            if self._is_said(assumed, sends) or not is_observed:
                self._seen[job] = self._seen.pop(job, ("", now_s))
                return
            found = observed_id(assumed, pairs) if pairs else current
            before, since_s = self._seen.pop(job, ("", now_s))
            self._seen[job] = found, since_s if found == before else now_s
            if found == current or found != before or now_s - since_s < MIN_AGREEMENT_S:
                return
            if self._replans.get(job, 0) < MAX_REPLANS:
                self._replans[job] = self._replans.get(job, 0) + 1
                self._seen[job] = "", now_s
                request = observed_request(assumed, pairs, self._ports(current)) if found != job else assumed
                if self._is_admitted(request):
                    self._replan(job, request)
        except UnavailableError:
            raise
        except HeddleError:
            return  # it has ended meanwhile, or the controller is older

    def _is_said(self, assumed: JobRequest, sends: str) -> bool:
        """Want what a job says that it sends, once; return whether that is its plan. Raises HeddleError."""
        job = assumed.job_id
        before, is_planned = self._said.get(job, ("", False))
        if sends in ("", before) or self._replans.get(job, 0) >= MAX_REPLANS:
            return is_planned  # a controller that was started anew has not heard it yet
        try:
            request = said_request(assumed, sent_collective(sends))
            if is_admitted := self._is_admitted(request):
                self._replan(job, request)
        except InputError as error:
            self._log(one_line(f"{job}: {error}"))
            is_admitted = False
        self._replans[job] = self._replans.get(job, 0) + 1
        self._said[job] = sends, is_admitted
        return is_admitted

    def _replan(self, job: str, request: JobRequest) -> None:
        former = self._wanted.get(job)
        if former is not None and former.collectives:
            self._former[job] = former
        self._wanted[job] = request
        self.planned_again += 1

    def _ports(self, job: str) -> dict[Pair, list[int]]:
        """Return the ports of the pairs of a plan, in the order of their queue pairs; none where none may be fixed."""
        found: dict[Pair, list[int]] = {}
        if traits_of(self._calls.fabric()).fixed_port_refusal:
            return found
        for flow in sorted(self._calls.flows(job), key=lambda flow: (flow.collective, flow.queue_pair)):
            found.setdefault((flow.src_nic, flow.dst_nic), []).append(flow.udp_source_port)
        return found

"""Which assumed jobs are planned again by what they have connected: pairs that two readings in a row agree on.

Nothing of it must survive: nodes report again under the id of the new plan, and the next agent finds the same id there.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from heddle.controller.model.error import HeddleError, UnavailableError
from heddle.controller.model.job import JobRequest
from heddle.controller.schedulers.slurm_jobs import number_of
from heddle.controller.schedulers.slurm_observed import Pair, observed_id, observed_request
from heddle.v1 import heddle_pb2 as pb

MAX_READ = 64
"""Jobs whose pairs are read in a pass, those first that were read longest ago."""
MAX_REPLANS = 8
"""Of a job: one that connects other pairs without an end keeps its last plan."""


class Calls(Protocol):
    """What is asked of the controller; each raises HeddleError."""

    def pairs(self, job: str) -> dict[Pair, int]:
        """Return the queue pairs that a job has connected between NICs."""

    def flows(self, job: str) -> list[pb.FlowPlan]:
        """Return the flows of a job's plan."""


class ObservedJobs:
    """What is wanted instead of assumed jobs; `planned_again` counts the changes."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._wanted: dict[str, JobRequest] = {}
        self._seen: dict[str, str] = {}
        self._replans: dict[str, int] = {}
        self.planned_again = 0

    def wanted(self, assumed: Mapping[str, JobRequest], known: Mapping[str, bool]) -> dict[str, JobRequest]:
        """Return the requests by their ids; `known` says of each planned job whether its flows are assumed.

        Raises UnavailableError.
        """
        self._wanted = {job: request for job, request in self._wanted.items() if job in assumed}
        self._seen = {job: found for job, found in self._seen.items() if job in assumed}
        self._replans = {job: count for job, count in self._replans.items() if job in assumed}
        others: dict[str, str] = {}
        for job in known:
            if job.startswith("slurm-") and job not in assumed:
                others[number_of(job)] = job
        due = {
            job: job if job in known else others[number_of(job)]
            for job in assumed
            if known.get(job) or (job not in known and number_of(job) in others)
        }
        turns = {job: turn for turn, job in enumerate(self._seen)}  # the one that was read last has the last turn
        for job in sorted(due, key=lambda job: turns.get(job, -1))[:MAX_READ]:
            self._read(assumed[job], due[job])
        found = (self._wanted.get(job, request) for job, request in assumed.items())
        return {request.job_id: request for request in found}

    def refused(self, job_id: str) -> None:
        """Note that a request was refused: the assumption of its job is wanted again, and stays."""
        for job, request in [*self._wanted.items()]:
            if request.job_id == job_id:
                del self._wanted[job]
                self._replans[job] = MAX_REPLANS

    def _read(self, assumed: JobRequest, current: str) -> None:
        """Read what a job has connected; where it is another plan's than the current one's twice, that is wanted."""
        job = assumed.job_id
        try:
            pairs = self._calls.pairs(current)
            found = observed_id(assumed, pairs) if pairs else ""
            before = self._seen.pop(job, "")
            self._seen[job] = found
            if found == current != job:
                self._wanted.setdefault(job, replace(assumed, job_id=current, assumed=False))
            elif found not in ("", current) and found == before and self._replans.get(job, 0) < MAX_REPLANS:
                request = observed_request(assumed, pairs, self._ports(current)) if found != job else assumed
                self._wanted[job] = request
                self._replans[job] = self._replans.get(job, 0) + 1
                self.planned_again += 1
        except UnavailableError:
            raise
        except HeddleError:
            return  # it has ended meanwhile, or the controller is older

    def _ports(self, job: str) -> dict[Pair, list[int]]:
        """Return the ports of the pairs of a plan."""
        found: dict[Pair, list[int]] = {}
        for flow in self._calls.flows(job):
            found.setdefault((flow.src_nic, flow.dst_nic), []).append(flow.udp_source_port)
        return found

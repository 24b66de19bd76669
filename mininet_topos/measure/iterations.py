"""Jobs that compute and communicate in turns: each iteration ends when the slowest flow of the job is acknowledged.

    job a   |send|....compute....|send  |....compute....|      send: all flows of the job, `size_bytes` each
    job b      |send    |...compute...|send|...compute...|     an iteration: from one end of sending to the next

The NICs say when they are done; this process says when they send again. What that takes is part of each iteration, the
same in every mode. `lateness_ns` is how much later than due this process said it: the machine's own part.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heddle.mininet_topos.host.child import Child
from heddle.mininet_topos.host.json_lines import wait_readable
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.nic.control import COMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class IteratedJob:
    """A job whose flows all send `size_bytes`, whole packets, then compute, and so on.

    `compute_ns` has the time of each computation, used in turn. No NIC sends for two jobs.
    """

    name: str
    requests: Sequence[FlowRequest]
    compute_ns: Sequence[int]


class Iterations:
    """The progress of jobs: `ended_ns` of each job has the ends of its iterations from the common start."""

    def __init__(self, jobs: Sequence[IteratedJob], nics: Mapping[str, Child]) -> None:
        """Raise ValueError where a NIC sends for two jobs, or flows of a job differ in size."""
        self._jobs = {job.name: job for job in jobs}
        senders = [nic for job in jobs for nic in {request.src_nic for request in job.requests}]
        if len(set(senders)) < len(senders):
            raise ValueError("a NIC sends for two jobs")
        if any(len({request.size_bytes for request in job.requests}) > 1 for job in jobs):
            raise ValueError("flows of one job have different sizes")
        self._nics = {nic: nics[nic] for nic in senders}
        self._job_of = {request.src_nic: job.name for job in jobs for request in job.requests}
        self._sending: dict[str, set[str]] = {}
        self._due_ns: dict[str, int] = {}
        self.ended_ns: dict[str, list[int]] = {name: [] for name in self._jobs}
        self.lateness_ns: list[int] = []

    def drive(self, numbers: Mapping[str, int], start_ns: int, seconds: float) -> None:
        """Keep the jobs going until the time is over; `numbers` has the sending queue pair of each flow."""
        end_ns = start_ns + int(seconds * 1e9)
        self._sending = {name: {one.src_nic for one in job.requests} for name, job in self._jobs.items()}
        by_fd = {child.fd: child for child in self._nics.values()}
        while (now_ns := time.monotonic_ns()) < end_ns:
            for name in [name for name, due_ns in self._due_ns.items() if due_ns <= now_ns]:
                self._post(self._jobs[name], numbers, now_ns)
            self._take_events(start_ns)
            wake_ns = min(end_ns, *self._due_ns.values()) if self._due_ns else end_ns
            for fd in wait_readable(by_fd, max(0.0, (wake_ns - time.monotonic_ns()) / 1e9)):
                by_fd[fd].poll_events()
            self._take_events(start_ns)

    def _take_events(self, start_ns: int) -> None:
        """Note the NICs that are done, and the ends of iterations."""
        now_ns = time.monotonic_ns()
        for nic, child in self._nics.items():
            if any(event["event"] == COMPLETE for event in child.events):
                child.events.clear()
                name = self._job_of[nic]
                self._sending[name].discard(nic)
                if not self._sending[name]:
                    ended = self.ended_ns[name]
                    ended.append(now_ns - start_ns)
                    times = self._jobs[name].compute_ns
                    self._due_ns[name] = now_ns + times[len(ended) % len(times)]

    def _post(self, job: IteratedJob, numbers: Mapping[str, int], now_ns: int) -> None:
        """Let the flows of a job send once more."""
        self.lateness_ns.append(now_ns - self._due_ns.pop(job.name))
        of_nic: dict[str, list[int]] = {}
        for request in job.requests:
            of_nic.setdefault(request.src_nic, []).append(numbers[request.flow_id])
        self._sending[job.name] = set(of_nic)
        for nic, qpns in of_nic.items():
            self._nics[nic].send_request(op="post", qpns=qpns, size_bytes=job.requests[0].size_bytes)
        for nic in of_nic:
            self._nics[nic].read_reply()

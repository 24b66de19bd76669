"""The planned ports of the jobs whose processes run on a node: sought when a process first asks, then each period.

The thread that serves requests reads what is known and never waits; `run_passes` seeks, in another one. A job is known
for a user: processes of two users that name the same job do not change each other's turns.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import NamedTuple, Protocol

from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import HeddleError, NotFoundError, UnavailableError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.limit import MAX_QPS_PER_FLOW
from heddle.programs.console.launch.node.claim import MAX_BYTES, Claim, claim_of, sends_of
from heddle.programs.console.launch.planned_ports import PlannedPorts, address_in
from heddle.programs.console.launch.responder import LOWEST_PORT, NO_GID, Caller
from heddle.v1 import heddle_pb2 as pb

MAX_JOBS = 1_024
MAX_JOBS_OF_A_USER = 64
"""Beyond, the user's job that was asked about least recently is forgotten: one that makes up names forgets its own."""
IDLE_S = 600.0
"""After so long without a request, a job that the controller does not have is forgotten."""
MAX_PAIRS = 4_096
"""Of a job at this node; further ones are not reported."""
MAX_QPS_OF_A_PAIR = MAX_QPS_PER_FLOW
PROC = Path("/proc")


class Calls(Protocol):
    """What is requested of the controller; each raises HeddleError."""

    def fabric(self) -> Fabric:
        """Return the fabric."""

    def plans(self, prefix: str) -> list[pb.JobPlan]:
        """Return the plans, without flows, of jobs whose ids begin with a prefix, the oldest first."""

    def flows(self, job: str) -> list[pb.FlowPlan]:
        """Return all flows of a job."""

    def report_pairs(self, job: str, host: str, pairs: Mapping[tuple[str, str], int], sends: str = "") -> None:
        """Report how many queue pairs a job has connected between NICs, and what it says that it sends."""


GidPair = tuple[bytes, bytes]


class Key(NamedTuple):
    """A user, and the job that a process of it belongs to."""

    uid: int
    claim: Claim


@dataclass(slots=True)
class Known:
    """What is known of a job: `ports` once it was planned, `is_sought` once the controller was requested for it.

    `connected` are the queue pairs of each pair of GIDs, of a job whose flows are an assumption; `sends` is what one of
    its processes says, the first that says anything.
    """

    requested_s: float
    ports: PlannedPorts | None = None
    plan: tuple[str, int] = ("", 0)
    is_sought: bool = False
    is_running: bool = False
    is_assumed: bool = False
    connected: dict[GidPair, set[int]] = field(default_factory=dict)
    sends: str = ""


@dataclass(slots=True)
class Counts:
    """Requests by their outcome: a planned port; a pair that its job's plan lacks; a process or job without a plan."""

    planned: int = 0
    unplanned: int = 0
    unknown: int = 0
    forgotten: int = 0


class NodeJobs:
    """The jobs of a node, which has the NICs of `hosts`: one, in general."""

    def __init__(self, calls: Calls, hosts: Iterable[str], log: Callable[[str], None], proc: Path = PROC) -> None:
        self._calls, self._hosts, self._log, self._proc = calls, frozenset(hosts), log, proc
        self._lock = Lock()
        self._known: dict[Key, Known] = {}
        self._new = Event()
        self._unread = self._unreported = ""
        self.counts = Counts()

    def ports(self, caller: Caller) -> Callable[[bytes, bytes, int], int | None]:
        """Return what has the ports of a process."""
        claim, sends = self._claim(caller)
        return partial(self._port, None if claim is None else Key(caller.uid, claim), sends)

    def _port(self, key: Key | None, sends: str, src_gid: bytes, dst_gid: bytes, queue_pair: int) -> int | None:
        """Return the port of a queue pair, 0 for none, None while its job is sought; announcements likewise."""
        is_announced = src_gid == dst_gid == NO_GID
        if key is None:
            self.counts.unknown += not is_announced
            return 0
        known = self._requested(key)
        known.sends = known.sends or sends
        if not known.is_sought:
            return None
        if is_announced:
            return LOWEST_PORT
        if known.ports is None:
            self.counts.unknown += 1
            return 0
        port = known.ports.port(src_gid, dst_gid, queue_pair)
        self._connects(known, (src_gid, dst_gid), queue_pair)
        if port:
            self.counts.planned += 1
        else:
            self.counts.unplanned += 1
        return port

    def run_passes(self, ended: Event, period_s: float) -> None:
        """Seek new jobs at once and all others each period, until `ended`."""
        next_s = time.monotonic() + period_s
        while not ended.is_set():
            is_new = self._new.wait(max(0.0, next_s - time.monotonic()))
            self._new.clear()
            now_s = time.monotonic()
            only_new = is_new and now_s < next_s  # else jobs that keep coming would leave all others unread
            self.run_pass(now_s, only_new=only_new)
            if not only_new:
                next_s = time.monotonic() + period_s

    def wake(self) -> None:
        """Make `run_passes` look whether it is to end."""
        self._new.set()

    def run_pass(self, now_s: float, *, only_new: bool = False) -> None:
        """Seek jobs, and report pairs but with `only_new`; an error is logged when it begins and when it has passed."""
        with self._lock:
            wanted = [(key, known) for key, known in self._known.items() if not (only_new and known.is_sought)]
        why, is_reached = "", True
        for key, known in wanted:
            try:
                if is_reached:  # else each job would wait for the controller in turn
                    self._seek(key, known)
            except HeddleError as error:
                why, is_reached = one_line(str(error).partition("\n")[0]), not isinstance(error, UnavailableError)
            known.is_sought = True
            if not known.is_running and now_s - known.requested_s > IDLE_S:
                with self._lock:
                    self._known.pop(key, None)
        if wanted:
            self._unread = self._noted("plans are not read", "plans are read again", why, self._unread)
        if not only_new and is_reached:
            why = self._report_all()
            self._unreported = self._noted("pairs are not reported", "pairs are reported again", why, self._unreported)

    def known_jobs(self) -> tuple[int, int]:
        """Return how many jobs have a plan that is known, and how many have none."""
        with self._lock:
            planned = sum(known.ports is not None for known in self._known.values())
            return planned, len(self._known) - planned

    @property
    def reads_plans(self) -> bool:
        """Return whether the controller replied when plans were read last."""
        return not self._unread

    def _noted(self, fails: str, passed: str, why: str, before: str) -> str:
        """Log an error that is another one than before; return it."""
        if why != before:
            self._log(f"{fails}: {why}" if why else passed)
        return why

    def _claim(self, caller: Caller) -> tuple[Claim | None, str]:
        """Return the job of a process, and what it says that this sends.

        No job where the process has ended, or is in another PID namespace.
        """
        if not caller.pid:
            return None, ""
        folder = self._proc / str(caller.pid)
        with suppress(OSError):
            with open(folder / "environ", "rb") as file:
                environment = file.read(MAX_BYTES)
            return claim_of((folder / "cgroup").read_text(errors="replace"), environment), sends_of(environment)
        return None, ""

    def _requested(self, key: Key) -> Known:
        """Return what is known of a job; a new one is sought, in the place of another where there are too many."""
        now_s = time.monotonic()
        with self._lock:
            known = self._known.pop(key, None)  # the one that was asked about last is the last of the dictionary
            if known is None:
                known = Known(now_s)
                self._make_room(key.uid)
                self._new.set()
            self._known[key] = known
        known.requested_s = now_s
        return known

    def _connects(self, known: Known, pair: GidPair, queue_pair: int) -> None:
        """Note a queue pair of a job whose flows are an assumption."""
        if not known.is_assumed or (pair not in known.connected and len(known.connected) >= MAX_PAIRS):
            return
        numbers = known.connected.setdefault(pair, set())
        if len(numbers) < MAX_QPS_OF_A_PAIR:
            numbers.add(queue_pair)

    def _report_all(self) -> str:
        """Report what assumed jobs have connected; return why not, empty where the controller has it all.

        A report takes the place of the one before, so all claims to a job are joined. It is repeated each time: another
        controller, or one that was started anew, does not have it.
        """
        with self._lock:
            found = [each for each in self._known.values() if (each.is_assumed or each.sends) and each.is_running]
        plans: dict[str, dict[GidPair, set[int]]] = {}
        sends = {known.plan[0]: known.sends for known in reversed(found) if known.sends}
        for known in found:
            joined = plans.setdefault(known.plan[0], {})
            for pair, numbers in known.connected.copy().items():
                if pair in joined or len(joined) < MAX_PAIRS:
                    joined.setdefault(pair, set()).update(numbers.copy())
        why = ""
        for plan, joined in plans.items():
            try:
                self._report(plan, joined, sends.get(plan, ""))
            except HeddleError as error:
                why = one_line(str(error).partition("\n")[0])
                if isinstance(error, UnavailableError):
                    break
        return why

    def _report(self, plan: str, connected: Mapping[GidPair, set[int]], sends: str) -> None:
        """Report what a job has connected, and what it says that it sends; raises HeddleError."""
        nics = self._calls.fabric().nics if connected or sends else ()
        named = {nic.ip: nic for nic in nics}
        ours = {nic.host for nic in nics if sends} & self._hosts
        found: dict[str, dict[tuple[str, str], int]] = {host: {} for host in sorted(ours)}
        for pair, numbers in connected.items():
            src, dst = (named.get(address_in(gid) or 0) for gid in pair)
            if src is not None and dst is not None and src.host in self._hosts:
                found.setdefault(src.host, {})[src.id, dst.id] = min(len(numbers), MAX_QPS_OF_A_PAIR)
        for host, pairs in found.items():
            self._calls.report_pairs(plan, host, pairs, sends)

    def _make_room(self, uid: int) -> None:
        own = [key for key in self._known if key.uid == uid]
        if len(own) >= MAX_JOBS_OF_A_USER or len(self._known) >= MAX_JOBS:
            del self._known[own[0] if len(own) >= MAX_JOBS_OF_A_USER else next(iter(self._known))]
            self.counts.forgotten += 1

    def _seek(self, key: Key, known: Known) -> None:
        """Read the plan of a job where it is another than before; raises HeddleError."""
        found = [plan for plan in self._calls.plans(key.claim.text) if key.claim.fits(plan.job_id)]
        known.is_running = bool(found)
        if not found:
            return
        plan = found[-1]
        if known.plan != (plan.job_id, plan.generation):
            self._read(key, known, plan)
        known.is_assumed |= plan.certificate.assumed

    def _read(self, key: Key, known: Known, plan: pb.JobPlan) -> None:
        """Read the flows of a plan; raises HeddleError."""
        try:
            flows = self._calls.flows(plan.job_id)
        except NotFoundError:
            return  # it has ended meanwhile
        ports = known.ports or self._empty()
        ports.update(flows, whole=True)
        if known.ports is None:
            self._log(f"{plan.job_id}: its plan is known, for processes of user {key.uid}")
        known.ports, known.plan = ports, (plan.job_id, plan.generation)

    def _empty(self) -> PlannedPorts:
        """Return the ports of a job of which nothing is known yet."""
        nics = self._calls.fabric().nics
        ours = {nic.id for nic in nics if nic.host in self._hosts}
        addresses = {nic.id: nic.ip for nic in nics}
        return PlannedPorts(addresses, lambda flow: flow.src_nic in ours or flow.dst_nic in ours)

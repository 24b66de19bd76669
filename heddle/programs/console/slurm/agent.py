"""`heddle slurm agent`: plan every job that Slurm runs on several hosts of the fabric, release it when it has ended.

A pass compares `squeue` with the controller's jobs; it runs every period, and at once for a hook, which only wakes it:
no job depends on a hook having run. A pass that fails, of Slurm or of the controller, changes nothing more, and the
next one goes on from what is found; while Slurm does not list its jobs, those that are planned keep their leases. An
agent that ends leaves its jobs to the next one; without one their leases end.
"""

import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import AlreadyExistsError, HeddleError, InputError, NotFoundError, UnavailableError
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.schedulers.slurm_descriptions import (
    DESCRIBE,
    Description,
    collective_by_rule,
    described_collective,
    description_of,
)
from heddle.controller.schedulers.slurm_jobs import (
    MAX_JOBS,
    SQUEUE,
    Reconciler,
    nics_of_hosts,
    number_of,
    running_jobs,
    wanted_jobs,
)
from heddle.programs.console.slurm.background_checks import BackgroundChecks
from heddle.programs.console.slurm.commands import run_slurm
from heddle.programs.console.slurm.drainer import Drainer
from heddle.programs.console.slurm.job_rules import JobRules
from heddle.programs.console.slurm.observed_jobs import ObservedJobs
from heddle.programs.console.slurm.planned_jobs import PlannedJobs
from heddle.programs.console.slurm.topology_keeper import TopologyKeeper
from heddle.programs.console.slurm.wake_socket import MAX_WAITING, WakeSocket

SQUEUE_TIMEOUT_S = 10.0
MAX_SILENT_S = 3_600.0
"""For so long jobs keep their plans while squeue fails: Slurm's nodes run them on without slurmctld."""
MIN_PERIODS = 3
"""Of a lease: it is renewed after a third."""
Log = Callable[[str], None]


class Agent:
    """One pass at a time; `failing` is why the last one failed, empty where it did not."""

    def __init__(
        self, jobs: PlannedJobs, lease_ms: int, log: Log, *, tenants: bool = False, rules: JobRules | None = None
    ) -> None:
        self._jobs = jobs
        self._rules = rules
        self._observed = ObservedJobs(jobs, self._is_admitted, log)
        self._tenants = tenants
        self._lease_ms = lease_ms
        self._log = log
        self._reconciler = Reconciler(lease_ms / 1000)
        self._is_full = False
        self._heard_s = time.monotonic()
        self.failing = ""

    def run_pass(self) -> None:
        """Compare and act; an error is logged when it begins and when it has passed."""
        try:
            self._reconcile()
        except HeddleError as error:
            why = one_line(str(error).partition("\n")[0])
            if why != self.failing:
                self._log(f"no pass: {why}")
            self.failing = why
            return
        if self.failing:
            self._log("passes go on")
        self.failing = ""

    def _reconcile(self) -> None:
        """Do what `Reconciler` says; raises HeddleError, and the rest is left to the next pass."""
        running = self._running()
        wanted = wanted_jobs(running, nics_of_hosts(self._jobs.fabric()), self._lease_ms)
        if (is_full := len(wanted) == MAX_JOBS) and not self._is_full:
            self._log(f"the first {MAX_JOBS:,} jobs are planned, others are not")
        self._is_full = is_full
        known = self._jobs.known()
        now_s = time.monotonic()
        steps = self._reconciler.steps(self._observed.wanted(wanted, known, now_s), known, now_s)
        for job in steps.release:
            self._released(job)
        for job in steps.renew:
            self._renewed(job)
        for request in steps.submit:
            self._submitted(request)

    def _running(self) -> dict[int, tuple[str, ...]]:
        """Return the nodes of running jobs; where Slurm does not say, renew all planned jobs and raise HeddleError."""
        try:
            found = running_jobs(run_slurm(*SQUEUE, timeout_s=SQUEUE_TIMEOUT_S))
        except HeddleError:
            now_s = time.monotonic()
            if now_s - self._heard_s <= MAX_SILENT_S:
                for job in self._reconciler.renewals(self._jobs.known(), now_s):
                    self._renewed(job)
            raise
        self._heard_s = time.monotonic()
        return found

    def _is_admitted(self, request: JobRequest) -> bool:
        """Return whether a job would be planned by what it says or connects, beside the plan that it has.

        Raises UnavailableError. Ports that a job has fixed are those of its own plan, which is released first. A
        comment counts more than what an environment says.
        """
        if self._tenants or _is_said(request):
            text = run_slurm(*DESCRIBE, number_of(request.job_id), timeout_s=SQUEUE_TIMEOUT_S)
            description = description_of(text)
            if _is_said(request) and self._by_comment(request.job_id, description) is not None:
                return False
            request = replace(request, tenant=description.account) if self._tenants else request
        try:
            with suppress(AlreadyExistsError):
                self._jobs.preview(request)
        except UnavailableError:
            raise
        except HeddleError as error:
            self._log(one_line(f"{request.job_id}: the plan before stays: {error}"))
            return False
        return True

    def _submitted(self, assumed: JobRequest) -> None:
        """Submit a job as it says it is, else by a rule, else as assumed; raises UnavailableError."""
        text = run_slurm(*DESCRIBE, number_of(assumed.job_id), timeout_s=SQUEUE_TIMEOUT_S)
        if not text:
            return  # it has ended meanwhile
        found = self._described(assumed, description_of(text))
        while found:
            request, how = found.pop(0)
            try:
                plan = self._jobs.submit(request)
            except UnavailableError:
                raise
            except HeddleError as error:
                self._log(one_line(f"{request.job_id}: not planned {how}: {error}"))
                if isinstance(error, InputError) and found:
                    continue  # what is wrong once is never right
                self._reconciler.refused(request.job_id, time.monotonic())
                self._observed.refused(request.job_id)
                return
            self._reconciler.held(request.job_id, time.monotonic())
            fullest = f"{plan.certificate.own_max_link_utilisation:.2f}"
            self._log(f"{request.job_id}: planned {how}, {plan.flow_count:,} flows, its fullest link {fullest}")
            return

    def _described(self, assumed: JobRequest, description: Description) -> list[tuple[JobRequest, str]]:
        """Return the requests by what the job, then a rule says of it, then the assumption; with a word for each."""
        request = replace(assumed, tenant=description.account) if self._tenants else assumed
        if not assumed.assumed:
            return [(request, "as its environment says" if _is_said(request) else "as it connects")]
        comment, rule = self._by_comment(assumed.job_id, description), None
        if self._rules is not None:
            rule = collective_by_rule(self._rules.current(), description)
        return [
            *(
                (replace(request, collectives=(collective,), assumed=False), how)
                for collective, how in ((comment, "as it says"), (rule, "by a rule"))
                if collective is not None
            ),
            (request, "as assumed"),
        ]

    def _by_comment(self, job: str, description: Description) -> Collective | None:
        """Return what a comment describes; one that is wrong is a line."""
        try:
            return described_collective(description.comment)
        except InputError as error:
            self._log(one_line(f"{job}: {error}"))
            return None

    def _released(self, job: str) -> None:
        try:
            self._jobs.release(job)
        except NotFoundError:
            return  # its lease has ended meanwhile
        self._log(f"{job}: released")

    def _renewed(self, job: str) -> None:
        try:
            self._jobs.renew(job)
        except NotFoundError:
            return  # submitted by the next pass
        self._reconciler.held(job, time.monotonic())


def _is_said(request: JobRequest) -> bool:
    """Return whether a request is one by what a job's environment says."""
    return not request.assumed and all(each.kind is not CollectiveKind.CUSTOM for each in request.collectives)


class SlurmAgentOptions(NamedTuple):
    """What an agent does beside planning Slurm's jobs, and how it plans them."""

    topology: Path | None = None
    """The file that it keeps current."""
    drain: bool = False
    tenants: bool = False
    policy: Path | None = None


DEFAULTS = SlurmAgentOptions()


def run_agent(
    server: str, socket: Path, period_s: float, lease_s: float, log: Log, options: SlurmAgentOptions = DEFAULTS
) -> None:
    """Run passes until SIGTERM or SIGINT; keep a topology file and drain nodes beside them.

    Raises PrerequisiteError where another agent has the socket, InputError for a policy file that is wrong,
    or a lease that ends between two passes.
    """
    if lease_s < MIN_PERIODS * period_s:
        raise InputError(f"--lease: must be at least {MIN_PERIODS} times --period, {MIN_PERIODS * period_s:g} s")
    rules = None if options.policy is None else JobRules(options.policy, log)
    hooks = WakeSocket(socket)
    jobs = PlannedJobs(server, round(lease_s * 1000))
    agent = Agent(jobs, round(lease_s * 1000), log, tenants=options.tenants, rules=rules)
    keeper = None if options.topology is None else TopologyKeeper(options.topology, log)
    checks = BackgroundChecks(server, keeper, Drainer(log) if options.drain else None, lambda: bool(agent.failing))
    log(f"listening at {socket}, a pass every {period_s:g} s")
    next_s = time.monotonic()
    with closing(hooks), closing(jobs), closing(checks), suppress(KeyboardInterrupt):
        while True:
            turned_away = hooks.turned_away
            waiting = hooks.wait(next_s - time.monotonic())
            if hooks.turned_away > turned_away:
                log(f"{hooks.turned_away - turned_away} hooks did not wait: more than {MAX_WAITING} at once")
            next_s = time.monotonic() + period_s
            agent.run_pass()
            hooks.release(waiting)
            checks.raise_error()

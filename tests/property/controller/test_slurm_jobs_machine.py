"""Whatever Slurm, the controller and the agent do, the planned jobs become those that run, and no other is touched."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heddle.controller.schedulers.slurm_jobs import NicOfHost, Reconciler, running_jobs, wanted_jobs
from tests.support.examples import examples

LEASE_S = 90
HOSTS = [f"h{number}" for number in range(1, 7)]
NICS = {host: [NicOfHost(f"{host}-n0", 0)] for host in HOSTS}
OTHERS = {"train", "slurm-3", "slurm-3.0", "slurm-3-abc", "slurm-x-0123456789ab"}
NODES = st.lists(st.sampled_from([*HOSTS, "login"]), min_size=1, max_size=4, unique=True)


class Reconciling(RuleBasedStateMachine):
    """Slurm as jobs with nodes, the controller as jobs with the end of their leases."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.slurm: dict[int, list[str]] = {}
        self.controller: dict[str, float] = dict.fromkeys(OTHERS, float("inf"))
        self.ranks: dict[str, tuple[str, ...]] = {}
        self.reconciler = Reconciler(LEASE_S)
        self.next_job = 1
        self.submitted = 0
        self.refuses = False
        self.is_reached = True

    @rule(nodes=NODES)
    def a_job_starts(self, nodes):
        self.slurm[self.next_job] = nodes
        self.next_job += 1

    @precondition(lambda self: self.slurm)
    @rule(data=st.data())
    def a_job_ends(self, data):
        del self.slurm[data.draw(st.sampled_from(sorted(self.slurm)))]

    @precondition(lambda self: self.slurm)
    @rule(data=st.data(), nodes=NODES)
    def a_job_is_requeued(self, data, nodes):
        self.slurm[data.draw(st.sampled_from(sorted(self.slurm)))] = nodes

    @rule()
    def the_agent_starts_anew(self):
        self.reconciler = Reconciler(LEASE_S)

    @rule()
    def the_controller_forgets_its_jobs(self):
        self.controller = dict.fromkeys(OTHERS, float("inf"))

    @precondition(lambda self: self.slurm)
    @rule(data=st.data(), step=st.sampled_from(["", ".0", ".17"]), ends=st.booleans())
    def a_job_runs_under_heddle_exec_or_does_no_longer(self, data, step, ends):
        name = f"slurm-{data.draw(st.sampled_from(sorted(self.slurm)))}{step}"
        if not ends:
            self.controller[name] = float("inf")
        elif name not in OTHERS:
            self.controller.pop(name, None)

    @rule(refuses=st.booleans())
    def the_controller_refuses_or_takes_requests(self, refuses):
        self.refuses = refuses

    @rule(is_reached=st.booleans())
    def the_controller_is_reached_or_not(self, is_reached):
        self.is_reached = is_reached

    @rule(seconds=st.sampled_from([1, 5, 29, 31, 200]))
    def time_passes(self, seconds):
        self.now += seconds
        self.controller = {job: end for job, end in self.controller.items() if end > self.now}

    @rule(done=st.integers(0, 3))
    def a_pass_is_cut_short(self, done):
        self.reconcile(done)

    @rule()
    def a_pass(self):
        self.reconcile(None)

    def reconcile(self, limit):
        if not self.is_reached:
            return
        text = "".join(f"{job}|{job}|{','.join(nodes)}\n" for job, nodes in self.slurm.items())
        wanted = wanted_jobs(running_jobs(text), NICS, LEASE_S * 1000)
        steps = self.reconciler.steps(wanted, set(self.controller), self.now)
        for job in steps.release[:limit]:
            assert job not in OTHERS
            number = int(job.split("-")[1])
            assert self.planned_ranks(number) != self.ranks[job], "a running job was released"
            del self.controller[job]
        for job in steps.renew[:limit]:
            self.controller[job] = self.now + LEASE_S
            self.reconciler.held(job, self.now)
        for request in steps.submit[:limit]:
            if self.refuses:
                self.reconciler.refused(request.job_id, self.now)
                continue
            self.controller[request.job_id] = self.now + LEASE_S
            self.ranks[request.job_id] = request.ranks
            self.submitted += 1
            self.reconciler.held(request.job_id, self.now)

    @precondition(lambda self: self.is_reached)
    @rule()
    def slurm_lists_no_jobs_for_ten_leases_and_no_planned_one_is_lost(self):
        planned = self.planned()
        for _ in range(30):
            for job in self.reconciler.renewals(list(self.controller), self.now):
                assert job not in OTHERS
                self.controller[job] = self.now + LEASE_S
                self.reconciler.held(job, self.now)
            self.time_passes(LEASE_S / 3)
        assert self.planned() == planned

    def planned_ranks(self, job):
        """Return the ranks that a job of Slurm should have; None where it should have none."""
        if any(name.split(".")[0] == f"slurm-{job}" for name in self.controller):
            return None  # `heddle exec` has said what it sends
        hosts = [host for host in self.slurm.get(job, ()) if host in HOSTS]
        return tuple(f"{host}-n0" for host in hosts) if len(hosts) > 1 else None

    @rule()
    def after_the_longest_wait_the_planned_jobs_are_those_that_run(self):
        self.is_reached, self.refuses = True, False
        self.time_passes(600)
        self.reconcile(None)
        wanted = {job: ranks for job in self.slurm if (ranks := self.planned_ranks(job)) is not None}
        assert self.planned() == wanted
        submitted = self.submitted
        for _ in range(4):  # with a pass every third of a lease none of them is lost, and submitted again
            self.time_passes(LEASE_S / 3)
            self.reconcile(None)
            assert (self.planned(), self.submitted) == (wanted, submitted)

    def planned(self):
        """Return the ranks of the jobs that the agent has submitted."""
        return {int(job.split("-")[1]): self.ranks[job] for job in self.controller if job in self.ranks}

    @invariant()
    def jobs_of_others_stay(self):
        assert set(self.controller) >= OTHERS


TestReconciling = Reconciling.TestCase
TestReconciling.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)

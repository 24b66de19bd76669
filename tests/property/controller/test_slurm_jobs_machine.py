"""Whatever Slurm, the controller and the agent do, the planned jobs become those that run, and no other is touched.

Hosts report what jobs connect, so that jobs are planned again; agents that restart know nothing of the one before.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heddle.controller.config.load import parse_fabric
from heddle.controller.schedulers.slurm_jobs import NicOfHost, Reconciler, running_jobs, wanted_jobs
from heddle.programs.console.slurm.observed_jobs import ObservedJobs
from heddle.v1 import heddle_pb2 as pb
from tests.support.examples import examples

LEASE_S = 90
HOSTS = [f"h{number}" for number in range(1, 7)]
NICS = {host: [NicOfHost(f"{host}-n0", 0)] for host in HOSTS}
FABRIC = parse_fabric(
    "version: 1\nname: f\ngenerate: {kind: spine_leaf, spines: 1, leaves: 1, hosts_per_leaf: 6}\n", "f"
)
OTHERS = {"train", "slurm-3", "slurm-3.0", "slurm-3-abc", "slurm-x-0123456789ab"}
NODES = st.lists(st.sampled_from([*HOSTS, "login"]), min_size=1, max_size=7, unique=True)


class Reconciling(RuleBasedStateMachine):
    """Slurm as jobs with nodes, the controller as jobs with the end of their leases."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.slurm: dict[int, list[str]] = {}
        self.controller: dict[str, float] = dict.fromkeys(OTHERS, float("inf"))
        self.ranks: dict[str, tuple[str, ...]] = {}
        self.flows_of: dict[str, list[pb.FlowPlan]] = {}
        self.is_assumed: dict[str, bool] = {}
        self.connected: dict[int, dict[tuple[str, str], int]] = {}
        self.sends: dict[int, str] = {}
        self.refuses_previews = False
        self.the_agent_starts_anew()
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
        job = data.draw(st.sampled_from(sorted(self.slurm)))
        self.slurm[job] = nodes
        self.connected.pop(job, None)
        self.sends.pop(job, None)

    @precondition(lambda self: self.slurm)
    @rule(data=st.data(), sends=st.sampled_from(["collective=ALL_TO_ALL", "qps=2", "collective=NONE"]))
    def the_environment_of_a_job_says_what_it_sends(self, data, sends):
        self.sends.setdefault(data.draw(st.sampled_from(sorted(self.slurm))), sends)  # the first one counts

    @precondition(lambda self: self.slurm)
    @rule(data=st.data(), queue_pairs=st.integers(1, 3))
    def a_job_connects_two_of_its_nics(self, data, queue_pairs):
        job = data.draw(st.sampled_from(sorted(self.slurm)))
        src, dst = (f"{data.draw(st.sampled_from(self.slurm[job]))}-n0" for _ in range(2))
        self.connected.setdefault(job, {})[src, dst] = queue_pairs

    @rule(nodes=st.permutations(HOSTS), is_reported=st.booleans(), is_requeued=st.booleans())
    def agents_restart_below_a_job_that_was_planned_again(self, nodes, is_reported, is_requeued):
        job = self.next_job
        self.a_job_starts(nodes[:5])
        self.connected[job] = {(f"{nodes[0]}-n0", f"{nodes[2]}-n0"): 1}
        self.three_passes()
        if is_requeued:
            self.slurm[job] = nodes
        if is_requeued or not is_reported:
            del self.connected[job]
        self.the_agent_starts_anew()
        self.reconcile(None)
        if self.is_reached and not self.refuses:
            assert self.planned().get(job) == self.planned_ranks(job)

    @rule()
    def the_controller_forgets_what_is_connected(self):
        self.connected.clear()

    @rule(refuses=st.booleans())
    def the_controller_refuses_previews_or_does_not(self, refuses):
        self.refuses_previews = refuses

    def fabric(self):
        return FABRIC

    def pairs(self, job):
        assert job in self.controller
        number = int(job.split("-")[1])
        return self.connected.get(number, {}), self.sends.get(number, "")

    def flows(self, job):
        return self.flows_of.get(job, [])

    @rule()
    def the_agent_starts_anew(self):
        self.reconciler = Reconciler(LEASE_S)
        self.observed = ObservedJobs(self, lambda request: not self.refuses_previews, lambda line: None)

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

    @rule()
    def three_passes(self):
        for _ in range(3):
            self.time_passes(10)
            self.reconcile(None)

    def reconcile(self, limit):
        if not self.is_reached:
            return
        text = "".join(f"{job}|{job}|{','.join(nodes)}\n" for job, nodes in self.slurm.items())
        wanted = wanted_jobs(running_jobs(text), NICS, LEASE_S * 1000)
        known = {job: self.is_assumed.get(job, False) for job in self.controller}
        steps = self.reconciler.steps(self.observed.wanted(wanted, known, self.now), set(self.controller), self.now)
        submitted = {int(request.job_id.split("-")[1]): request for request in steps.submit}
        for job in steps.release[:limit]:
            assert job not in OTHERS
            number = int(job.split("-")[1])
            if self.planned_ranks(number) == self.ranks[job]:
                request = submitted[number]
                is_said = number in self.sends and not request.assumed and not request.collectives[0].flows
                assert is_said or self.is_planned_for_what_is_connected(number, request), "a running job was released"
            del self.controller[job]
        for job in steps.renew[:limit]:
            self.controller[job] = self.now + LEASE_S
            self.reconciler.held(job, self.now)
        for request in steps.submit[:limit]:
            if self.refuses:
                self.reconciler.refused(request.job_id, self.now)
                continue
            self.controller[request.job_id] = self.now + LEASE_S
            assert request.collectives
            self.ranks[request.job_id] = request.ranks
            self.is_assumed[request.job_id] = request.assumed
            self.flows_of[request.job_id] = [
                pb.FlowPlan(src_nic=request.ranks[flow.src_rank], dst_nic=request.ranks[flow.dst_rank])
                for one in request.collectives
                for flow in one.flows
            ]
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
        self.refuses_previews = True  # else jobs are planned again for what they have connected meanwhile
        for _ in range(4):  # with a pass every third of a lease none of them is lost, and submitted again
            self.time_passes(LEASE_S / 3)
            self.reconcile(None)
            assert (self.planned(), self.submitted) == (wanted, submitted)

    def is_planned_for_what_is_connected(self, job, request):
        """Return whether a request has the pairs that the job has connected, or is the assumption that has them all."""
        connected = self.connected.get(job, {})
        found = {pair for pair in connected if pair[0] != pair[1] and {*pair} <= {*request.ranks}}
        ranks = request.ranks
        ring = {(ranks[n - 1], ranks[n]) for n in range(len(ranks))}
        flows = [flow for one in request.collectives for flow in one.flows]
        sent = {(ranks[flow.src_rank], ranks[flow.dst_rank]) for flow in flows} if flows else ring
        return (
            bool(connected) and not self.refuses_previews and all(pair in sent or pair[::-1] in sent for pair in found)
        )

    def planned(self):
        """Return the ranks of the jobs that the agent has submitted."""
        return {int(job.split("-")[1]): self.ranks[job] for job in self.controller if job in self.ranks}

    @invariant()
    def jobs_of_others_stay(self):
        assert set(self.controller) >= OTHERS


TestReconciling = Reconciling.TestCase
TestReconciling.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)

"""A leaf that is mute, refuses rules, changes them or reboots harms the jobs that cross it, and no other.

The oracle knows which leaves a job crosses from its NICs alone, and what a switch holds from the bytes it was sent.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from heddle.controller.brain.state import wanted
from heddle.controller.model.error import NoAdmissiblePlanError, UnavailableError
from heddle.controller.model.event import PortStatus, Release, Submit, Tick
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair, Steering
from heddle.controller.model.plan import JobPlan
from heddle.controller.model.rule import ChangeOp
from heddle.controller.rules.diff import diff
from tests.support.examples import examples
from tests.support.fabrics.faulty_fabric import FaultyFabric
from tests.unit.brain.driver import small_fabric

BAD, ELSEWHERE = "leaf1", (3, 4, 5, 6, 7, 8)
"""The leaf at fault has hosts 1 and 2."""
ANY = st.integers(0, 10**6)
STEERINGS = st.sampled_from([Steering.PIN, Steering.PIN, Steering.SOURCE_PORT])
EXAMPLES, STEPS = 60, 30


def job(name: str, hosts: list[int], steering: Steering) -> JobRequest:
    """A job in which each of these hosts sends to the next."""
    pairs = tuple(RankPair(src_rank=at, dst_rank=(at + 1) % len(hosts)) for at in range(len(hosts)))
    return JobRequest(
        job_id=name,
        ranks=tuple(f"h{host}-n0" for host in hosts),
        collectives=(Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=pairs),),
        steering=steering,
    )


class OneBadLeafMachine(RuleBasedStateMachine):
    """Two spines, four leaves; whatever happens to one leaf, jobs between the others are answered at once."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = FaultyFabric(small_fabric())
        self.driver.connect_all()
        self.calls = 0
        self.running: set[str] = set()
        self.waiting: dict[int, str] = {}
        self.lies = False
        """Whether the leaf's rules have changed since it reported them, which only an audit reveals."""

    def submit(self, hosts: list[int], steering: Steering, where: str) -> tuple[int, str]:
        self.calls += 1
        name = f"{where}-{self.calls}"
        self.driver.feed(Submit(reply=self.calls, request=job(name, hosts, steering)))
        return self.calls, name

    @rule(hosts=st.permutations(ELSEWHERE), count=st.integers(2, 6), steering=STEERINGS)
    def a_job_elsewhere_is_answered_at_once(self, hosts: list[int], count: int, steering: Steering) -> None:
        reply, name = self.submit(hosts[:count], steering, "elsewhere")
        plan = self.driver.reply_to(reply)
        assert isinstance(plan, JobPlan), plan
        assert plan.state == "running"
        self.running.add(name)

    @rule(host=st.sampled_from([1, 2]), hosts=st.permutations(ELSEWHERE), count=st.integers(1, 5), steering=STEERINGS)
    def a_job_crosses_the_leaf(self, host: int, hosts: list[int], count: int, steering: Steering) -> None:
        reply, name = self.submit([host, *hosts[:count]], steering, "crosses")
        self.waiting[reply] = name

    @rule(number=ANY)
    def a_job_ends(self, number: int) -> None:
        known = sorted({*self.driver.state.jobs, *self.waiting.values()})
        if known:
            self.calls += 1
            self.driver.feed(Release(reply=self.calls, job_id=known[number % len(known)]))
            self.running.discard(known[number % len(known)])
            assert self.calls in self.driver.replies

    @rule()
    def it_replies_to_no_barrier(self) -> None:
        self.driver.mute.add(BAD)

    @rule()
    def it_replies_to_its_barriers(self) -> None:
        self.driver.speak(BAD)

    @rule(kept=st.sampled_from([0, 0.5, 1]), returns=st.booleans())
    def its_session_ends(self, kept: float, returns: bool) -> None:
        self.driver.lose(BAD, kept)
        if returns:
            self.it_connects()

    @rule()
    def it_connects(self) -> None:
        self.lies = False
        self.driver.connect(BAD)

    @rule()
    def it_refuses_or_accepts_changes(self) -> None:
        self.driver.refuse ^= {BAD}

    @rule(place=ANY)
    def it_holds_other_rules_than_it_said(self, place: int) -> None:
        self.driver.strange(BAD, place)
        self.lies = True

    @rule(up=st.booleans(), number=st.integers(1, 2))
    def one_of_its_links_changes(self, up: bool, number: int) -> None:
        self.driver.feed(PortStatus(switch=BAD, port=number, up=up))

    @rule(ms=st.sampled_from([100, 1_000, 6_000]))
    def time_passes(self, ms: int) -> None:
        self.driver.now += ms
        self.driver.feed(Tick())

    @invariant()
    def only_callers_that_need_the_leaf_wait(self) -> None:
        unanswered = set(range(1, self.calls + 1)) - self.driver.replies.keys()
        assert unanswered <= self.waiting.keys()
        assert not unanswered or BAD in self.driver.mute
        assert all(len(replies) == 1 for replies in self.driver.replies.values())

    @invariant()
    def a_job_is_acknowledged_only_where_its_switches_hold_their_rules(self) -> None:
        """A job over the leaf is running only if the leaf has had its rules since, which the fault may have ended."""
        for reply, name in list(self.waiting.items()):
            outcome = self.driver.replies.get(reply)
            if outcome is None:
                continue
            del self.waiting[reply]
            if isinstance(outcome[0], JobPlan) and name in self.driver.state.jobs:
                assert self.lies or self.missing(BAD) == 0
            else:
                assert isinstance(outcome[0], JobPlan | UnavailableError | NoAdmissiblePlanError)

    @invariant()
    def switches_elsewhere_hold_the_wanted_rules(self) -> None:
        assert set(self.driver.differing()) <= {BAD} | self.behind_an_installation()

    def behind_an_installation(self) -> set[str]:
        """An installation that nothing else waits for may have sent no later step yet."""
        return {
            switch for install, _ in self.driver.stuck.values() for step in install.steps for switch in step.changes
        }

    @invariant()
    def no_job_elsewhere_is_degraded_by_the_leaf(self) -> None:
        reasons = [self.driver.state.jobs[name].reason for name in self.running]
        assert not [reason for reason in reasons if "lacks rules" in reason]

    def missing(self, switch: str) -> int:
        deletes = (ChangeOp.RULE_DELETE, ChangeOp.GROUP_DELETE)
        changes = diff(self.driver.held[switch], wanted(self.driver.state, switch))
        return sum(change.op not in deletes for change in changes)

    def teardown(self) -> None:
        self.driver.calm_down()
        assert set(self.driver.replies) == set(range(1, self.calls + 1))
        assert self.driver.differing() == []
        assert self.driver.state.lacking == frozenset()


OneBadLeafMachine.TestCase.settings = settings(
    max_examples=examples(EXAMPLES), stateful_step_count=STEPS, deadline=None
)
test_one_bad_leaf_machine = OneBadLeafMachine.TestCase

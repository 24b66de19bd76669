"""The brain under any order of events: every caller gets one reply, and switches hold the wanted rules."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from heddle.controller.model.cabling import Peer
from heddle.controller.model.effect import Diagnose, Install, Place, Solve
from heddle.controller.model.event import (
    Due,
    Heard,
    PortStatus,
    Release,
    Submit,
    Suggest,
    SwitchDown,
    SwitchUp,
    Tick,
    Withdraw,
)
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.job import Steering
from heddle.controller.model.placement import Shape
from heddle.controller.model.rule import SwitchRules
from tests.support.examples import examples
from tests.unit.brain.driver import Driver, shift_job, small_fabric

JOBS = st.sampled_from(["a", "b", "c"])
SWITCHES = st.sampled_from(["spine1", "spine2", "leaf1", "leaf2"])
PLACES = st.tuples(SWITCHES, st.integers(1, 3))
HEARINGS = st.dictionaries(PLACES, st.none() | PLACES, max_size=4)


class BrainMachine(RuleBasedStateMachine):
    """Two spines, two leaves, four hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(small_fabric(leaves=2))
        self.driver.connect_all()
        self.calls = 0
        self.left: set[int] = set()

    def next_reply(self) -> int:
        self.calls += 1
        return self.calls

    @rule(job=JOBS, by=st.integers(1, 3), pinned=st.booleans(), preview=st.booleans())
    def submit(self, job: str, by: int, pinned: bool, preview: bool) -> None:
        steering = Steering.PIN if pinned else Steering.SOURCE_PORT
        request = shift_job(job, ranks=4, by=by, steering=steering, lease_ms=3_000)
        self.driver.feed(Submit(reply=self.next_reply(), request=request, preview=preview))

    @rule(ranks=st.integers(0, 5))
    def suggest(self, ranks: int) -> None:
        self.driver.feed(
            Suggest(reply=self.next_reply(), shape=Shape(ranks=ranks, collectives=shift_job("x").collectives[:0]))
        )

    @rule(job=JOBS)
    def release(self, job: str) -> None:
        self.driver.feed(Release(reply=self.next_reply(), job_id=job))

    @rule(back=st.integers(0, 5))
    def a_caller_leaves(self, back: int) -> None:
        self.left.add(self.calls - back)
        self.driver.feed(Withdraw(reply=self.calls - back))

    @rule(switch=SWITCHES, port=st.integers(1, 2), up=st.booleans())
    def port_changes(self, switch: str, port: int, up: bool) -> None:
        self.driver.feed(PortStatus(switch=switch, port=port, up=up))

    @rule(hearings=HEARINGS)
    def ports_hear(self, hearings: dict[tuple[str, int], tuple[str, int] | None]) -> None:
        changes = {PortRef(*place): Peer(*peer) if peer is not None else None for place, peer in hearings.items()}
        self.driver.feed(Heard(changes=changes))

    @rule(switch=SWITCHES, keeps=st.booleans())
    def reconnect(self, switch: str, keeps: bool) -> None:
        self.driver.feed(SwitchDown(switch=switch, reason="test"))
        if not keeps:
            self.driver.held[switch] = SwitchRules()
        self.driver.feed(SwitchUp(switch=switch, ports={}, installed=self.driver.held[switch]))

    @rule(switch=SWITCHES)
    def a_switch_refuses_then_recovers(self, switch: str) -> None:
        self.driver.refuse = {switch}
        self.driver.feed(Submit(reply=self.next_reply(), request=shift_job("x", ranks=4, steering=Steering.PIN)))
        self.driver.feed(Release(reply=self.next_reply(), job_id="x"))
        self.driver.refuse = set()
        self.driver.feed(SwitchDown(switch=switch, reason="test"))
        self.driver.feed(SwitchUp(switch=switch, ports={}, installed=self.driver.held[switch]))

    @rule()
    def slow_outside(self) -> None:
        self.driver.hold = (Diagnose, Install, Place, Solve)

    @rule(ms=st.integers(0, 4_000), event=st.sampled_from([Tick(), Due()]))
    def time_passes(self, ms: int, event: Tick | Due) -> None:
        self.driver.now += ms
        self.driver.feed(event)

    @invariant()
    def no_caller_gets_two_replies(self) -> None:
        assert all(len(replies) == 1 for replies in self.driver.replies.values())

    @rule()
    def outside_answers(self) -> None:
        self.driver.release_held()

    @invariant()
    def what_is_left_out_is_a_cable_and_few(self) -> None:
        state = self.driver.state
        left_out = state.cabling.verdict.left_out
        assert left_out <= {cable.id for cable in state.fabric.cables}
        assert len(left_out) <= len(state.fabric.cables) * state.settings.cabling_max_percent // 100

    @invariant()
    def at_rest_every_caller_has_a_reply_and_switches_hold_the_wanted_rules(self) -> None:
        if self.driver.waiting or self.driver.hold:
            return
        assert self.driver.state.active is None
        assert self.driver.state.queue == ()
        assert set(self.driver.replies) | self.left >= set(range(1, self.calls + 1))
        assert self.driver.differing() == []

    def teardown(self) -> None:
        self.driver.release_held()
        self.at_rest_every_caller_has_a_reply_and_switches_hold_the_wanted_rules()


BrainMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=20, deadline=None)
test_brain_machine = BrainMachine.TestCase

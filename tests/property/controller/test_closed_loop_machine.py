"""The closed loop under random faults in any order: after each quiet period plans, rules, paths and states are right.

Independent oracles decide: the plan checker, the interpreter of rules, and networkx.
"""

import functools
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from heddle.controller.brain import install
from heddle.controller.brain.install import MAX_CHANGES, within_grace
from heddle.controller.model.effect import Compile, Install, Place, ReadRules, Solve
from heddle.controller.model.error import InputError
from heddle.controller.model.event import (
    CablesJudged,
    Compiled,
    Congested,
    Drain,
    Due,
    HotLink,
    Installed,
    InstallFailed,
    JudgedCable,
    PortStatus,
    Release,
    Renew,
    RulesRead,
    Solved,
    Submit,
    Suggest,
    SwitchDown,
    SwitchUp,
    Tick,
    Withdraw,
)
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, RankPair, Steering
from heddle.controller.model.placement import Shape
from heddle.controller.model.rule import SwitchRules
from tests.support.examples import examples
from tests.support.fabrics.faulty_fabric import FaultyFabric
from tests.support.fabrics.hot_links import hot_link
from tests.support.fabrics.quiet_fabric import faults
from tests.support.fabrics.small_fabrics import clos3, rails
from tests.unit.brain.driver import small_fabric

STEPS = 60
EXAMPLES = 340
"""A normal run tries half of them, so 10,200 steps; see `examples`."""
JOBS = st.sampled_from(["a", "b", "c", "d"])
ANY = st.integers(0, 10**6)
"""Any number: it is taken modulo the number of things to choose from."""
DELAYS = st.sets(st.sampled_from([Solve, Compile, Install, ReadRules, Place])).map(frozenset)


@functools.cache
def fabrics() -> tuple[Fabric, ...]:
    return small_fabric(spines=2, leaves=3), small_fabric(spines=3, leaves=2), clos3(2, 2, 2, 2), rails()


def collectives(ranks: int) -> st.SearchStrategy[Collective]:
    pair = st.lists(st.integers(0, ranks - 1), min_size=2, max_size=2, unique=True).map(tuple)
    pairs = st.lists(pair, min_size=1, max_size=6, unique=True)
    phases, queue_pairs = st.integers(0, 1), st.sampled_from([1, 1, 2])
    return st.one_of(
        st.builds(
            lambda kind, phase, pairs: Collective(kind=kind, size_bytes=1000, phase=phase, qps_per_flow=pairs),
            st.sampled_from([CollectiveKind.RING_ALL_REDUCE, CollectiveKind.ALL_TO_ALL, CollectiveKind.GATHER]),
            phases, queue_pairs,
        ),
        st.builds(
            lambda chosen, phase, count: Collective(
                kind=CollectiveKind.SEND_RECV, size_bytes=1000, phase=phase, qps_per_flow=count,
                pairs=tuple(RankPair(*each) for each in chosen),
            ),
            pairs, phases, queue_pairs,
        ),
        st.builds(
            lambda chosen, rate: Collective(
                kind=CollectiveKind.CUSTOM,
                flows=tuple(FlowDemand(src_rank=a, dst_rank=b, rate_bps=rate) for a, b in chosen),
            ),
            pairs, st.sampled_from([0, 10**6, 5_000_000, 3 * 10**8]),
        ),
    )  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> JobRequest:
    """Draw a job; its ranks are numbers, which a machine maps to the NICs of its fabric."""
    ranks = draw(st.lists(st.integers(0, 3), min_size=2, max_size=4, unique=True))
    return JobRequest(
        job_id=draw(JOBS),
        ranks=tuple(map(str, ranks)),
        collectives=tuple(draw(st.lists(collectives(len(ranks)), min_size=1, max_size=2))),
        priority=draw(st.integers(0, 2)),
        steering=draw(st.sampled_from([Steering.SOURCE_PORT, Steering.SOURCE_PORT, Steering.PIN])),
        lease_ms=draw(st.sampled_from([0, 0, 0, 30_000])),
    )


class ClosedLoopMachine(RuleBasedStateMachine):
    """One fabric and one controller, which starts again now and then."""

    @initialize(number=ANY)
    def begin(self, number: int) -> None:
        fabric = fabrics()[number % len(fabrics())]
        # every other run installs the underlay a switch or two at a time
        install.MAX_CHANGES = (MAX_CHANGES, 5)[number // len(fabrics()) % 2]
        self.driver = FaultyFabric(fabric)
        self.switches = sorted(self.driver.held)
        self.calls, self.left = 0, set[int]()
        self.driver.connect_all()

    def call(self) -> int:
        self.calls += 1
        return self.calls

    def switch(self, number: int) -> str:
        return self.switches[number % len(self.switches)]

    @rule(request=requests(), turn=ANY, preview=st.sampled_from([False, False, False, True]))
    def a_job_arrives(self, request: JobRequest, turn: int, preview: bool) -> None:
        nics = self.driver.fabric.nics
        ranks = tuple(nics[(int(rank) + turn) % len(nics)].id for rank in request.ranks)
        self.driver.feed(Submit(reply=self.call(), request=replace(request, ranks=ranks), preview=preview))

    @rule(job=JOBS)
    def a_job_leaves(self, job: str) -> None:
        self.driver.feed(Release(reply=self.call(), job_id=job))

    @rule(job=JOBS)
    def a_lease_is_renewed(self, job: str) -> None:
        self.driver.feed(Renew(reply=self.call(), job_id=job))

    @rule(ranks=st.integers(1, 4))
    def a_place_is_sought(self, ranks: int) -> None:
        ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000)
        self.driver.feed(Suggest(reply=self.call(), shape=Shape(ranks=ranks, collectives=(ring,))))

    @rule(back=st.integers(0, 5))
    def a_caller_leaves(self, back: int) -> None:
        self.left.add(self.calls - back)
        self.driver.feed(Withdraw(reply=self.calls - back))

    @rule(port=ANY)
    def a_port_goes_down(self, port: int) -> None:
        self.driver.turn(self.driver.ports[port % len(self.driver.ports)], up=False)

    @rule(port=ANY)
    def a_cut_port_comes_up(self, port: int) -> None:
        if self.driver.down:
            self.driver.turn(sorted(self.driver.down)[port % len(self.driver.down)], up=True)

    @rule(port=ANY, times=st.integers(1, 6), ms=st.integers(0, 700))
    def a_port_flaps(self, port: int, times: int, ms: int) -> None:
        for number in range(times):
            self.driver.turn(self.driver.ports[port % len(self.driver.ports)], up=bool(number % 2))
            self.time_passes(ms, Tick())

    @rule(number=ANY, kept=st.sampled_from([0, 0.5, 1]), returns=st.booleans())
    def a_switch_loses_its_session(self, number: int, kept: float, returns: bool) -> None:
        self.driver.lose(self.switch(number), kept)
        if returns:
            self.driver.connect(self.switch(number))

    @rule(number=ANY)
    def a_switch_connects(self, number: int) -> None:
        self.driver.connect(self.switch(number))

    @rule(number=ANY)
    def a_switch_refuses_changes(self, number: int) -> None:
        self.driver.refuse ^= {self.switch(number)}

    @rule(number=ANY)
    def a_switch_replies_to_no_barrier(self, number: int) -> None:
        self.driver.mute.add(self.switch(number))

    @rule(number=ANY)
    def a_switch_replies_to_its_barriers(self, number: int) -> None:
        self.driver.speak(self.switch(number))

    @rule(number=ANY, place=ANY)
    def a_stranger_changes_rules(self, number: int, place: int) -> None:
        self.driver.strange(self.switch(number), place)

    @rule(number=ANY, undrain=st.booleans())
    def a_cable_or_switch_is_drained(self, number: int, undrain: bool) -> None:
        targets = [*(cable.id for cable in self.driver.fabric.cables), *self.switches]
        if undrain:
            targets = sorted(self.driver.state.drained)
        if targets:
            self.driver.feed(Drain(reply=self.call(), target=targets[number % len(targets)], undrain=undrain))

    @rule(number=ANY, gbps=st.sampled_from([0.5, 1.0, 1.9]), stale=st.booleans())
    def a_link_is_congested(self, number: int, gbps: float, stale: bool) -> None:
        cables = self.driver.fabric.cables
        link = cables[number % len(cables)].up_link
        measured = round(gbps * cables[0].capacity_bps)
        hot = hot_link(self.driver.state, link, measured)
        self.driver.feed(Congested(hot=() if stale else (hot,), stale=(hot.port,) if stale else ()))

    @rule(number=ANY, shares=st.lists(st.sampled_from([0.25, 0.5, 0.9]), max_size=2))
    def cables_are_judged(self, number: int, shares: list[float]) -> None:
        cables = self.driver.fabric.cables
        bad = [
            JudgedCable(cable=cables[(number + 3 * at) % len(cables)].id, rate_share=share)
            for at, share in enumerate(shares)
        ]
        self.driver.feed(CablesJudged(cables=tuple(bad)))

    @rule(delays=DELAYS)
    def the_outside_is_slow(self, delays: frozenset[type]) -> None:
        self.driver.delays = delays

    @rule(place=ANY, replied=st.booleans())
    def something_late_happens(self, place: int, replied: bool) -> None:
        self.driver.something_late_happens(place, replied=replied)

    @rule(ms=st.sampled_from([0, 100, 600, 1_000, 5_000, 40_000]), event=st.sampled_from([Tick(), Due()]))
    def time_passes(self, ms: int, event: Tick | Due) -> None:
        self.driver.now += ms
        self.driver.feed(event)

    @precondition(lambda self: self.driver.state.next_token > 20)
    @rule()
    def the_controller_starts_again(self) -> None:
        self.left |= set(range(1, self.calls + 1)) - self.driver.replies.keys()
        self.driver.restart()

    @rule(number=ANY, age=st.integers(1, 5))
    def a_result_of_other_work_arrives(self, number: int, age: int) -> None:
        """A token that is not in use any more, or not yet; unknown ports, switches, links and jobs."""
        state, switch = self.driver.state, self.switch(number)
        works = (state.active, state.installing, state.compiling, *state.previews, *state.suggestions)
        token = state.next_token - age
        if token not in {work.token for work in works if work is not None}:
            self.driver.feed(Solved(token=token, outcome=InputError("late"), solve_ns=1))
            self.driver.feed(Installed(token=token, install_ns=1))
            self.driver.feed(InstallFailed(token=token, switch=switch, reason="late"))
            self.driver.feed(Compiled(token=token, underlay={}, differing=frozenset(), pins={}))
        unknown = HotLink(
            port="gone:1", link="gone:1>gone:2", priority=3, measured_bps=10**9, planned_bps=0, excess_bps=10**9
        )
        self.driver.feed(Congested(hot=(unknown,), over=(("gone", 10**9),), stale=("gone:2",)))
        self.driver.feed(PortStatus(switch=switch, port=999, up=bool(number % 2)))
        self.driver.feed(PortStatus(switch="gone", port=1, up=bool(number % 2)))
        self.driver.feed(RulesRead(switch="gone", installed=SwitchRules(), audit=number))
        self.driver.feed(SwitchDown(switch="gone", reason="unknown"))
        self.driver.feed(SwitchUp(switch="gone", ports={}, installed=SwitchRules()))

    @invariant()
    def no_caller_gets_two_replies(self) -> None:
        assert all(len(replies) == 1 for replies in self.driver.replies.values())

    @invariant()
    def pins_of_unknown_jobs_stay_for_the_grace_time(self) -> None:
        if within_grace(self.driver.state, self.driver.now):
            assert self.driver.lost_pins() == []

    @rule()
    def a_quiet_period(self) -> None:
        self.driver.calm_down()
        found = faults(self.driver)
        assert not found, "FAULTS " + " | ".join(found)
        assert set(self.driver.replies) | self.left >= set(range(1, self.calls + 1))

    def teardown(self) -> None:
        try:
            self.a_quiet_period()
        finally:
            install.MAX_CHANGES = MAX_CHANGES


ClosedLoopMachine.TestCase.settings = settings(
    max_examples=examples(EXAMPLES), stateful_step_count=STEPS, deadline=None, suppress_health_check=list(HealthCheck)
)
test_closed_loop_machine = ClosedLoopMachine.TestCase

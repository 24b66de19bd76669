"""Ownership in a pair under losses, reordering, repetition, crashes, stops and broken data processes.

If a member could serve, a share is without a server for one second at most. Two members serve a share no longer than
documented while they hear each other.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from heddle.dataplane.control.pair.ownership import GIVEN_MARGIN_TICKS, Ownership, SendHeartbeat, Terms
from tests.fakes.gateway.pair_world import COPYING_MS, INTERVAL_MS, MAX_DELAY_MS, World
from tests.support.examples import examples

MAX_NONE_MS = 1000
MAX_TWO_MS = COPYING_MS + (GIVEN_MARGIN_TICKS + 2) * INTERVAL_MS + 2 * MAX_DELAY_MS
MEMBER = st.sampled_from([0, 1])


class PairMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 32), active_active=st.booleans(), preempt=st.booleans())
    def begin(self, seed: int, active_active: bool, preempt: bool) -> None:
        self.world = World(seed, active_active=active_active, preempt=preempt)
        self.world.start(0)
        self.world.start(1)

    @rule(ms=st.sampled_from([10, 50, 130, 300, 600, 1500, 4000]))
    def time_passes(self, ms: int) -> None:
        self.world.run(ms)

    @rule(member=MEMBER)
    def a_member_dies(self, member: int) -> None:
        self.world.kill(member)

    @rule(member=MEMBER)
    def a_member_starts(self, member: int) -> None:
        self.world.start(member)

    @rule(member=MEMBER, ms=st.sampled_from([50, 150, 400, 700, 3000]))
    def a_member_is_stopped(self, member: int, ms: int) -> None:
        self.world.stop(member, ms)

    @rule(member=MEMBER, well=st.booleans())
    def a_data_process_fails_or_recovers(self, member: int, well: bool) -> None:
        self.world.health(member, well)

    @rule(member=MEMBER, loss=st.sampled_from([0.0, 0.0, 0.3, 0.8, 1.0]))
    def the_network_changes(self, member: int, loss: float) -> None:
        self.world.loss[member] = loss

    @rule(delay=st.sampled_from([1, 5, MAX_DELAY_MS]), repeats=st.sampled_from([0.0, 0.5]))
    def delays_change(self, delay: int, repeats: float) -> None:
        self.world.delay_ms, self.world.repeats = delay, repeats

    @rule(refuses=st.booleans())
    def dead_members_machines_reply_or_not(self, refuses: bool) -> None:
        self.world.refuses = refuses

    @rule(member=MEMBER, copied=st.booleans())
    def copies_are_complete_or_not(self, member: int, copied: bool) -> None:
        core = self.world.members[member].core
        if core:
            core.set_copied(copied)

    @rule(member=MEMBER)
    def an_operator_drains_a_member(self, member: int) -> None:
        core = self.world.members[member].core
        if core and self.world.members[member].runs(self.world.now):
            self.world._perform(member, core.hand_over(core.holds))

    @invariant()
    def a_share_has_a_server_within_a_second_and_never_two_for_long(self) -> None:
        assert self.world.longest_none <= MAX_NONE_MS
        assert self.world.longest_two <= MAX_TWO_MS


TestPair = PairMachine.TestCase
TestPair.settings = settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def settled(**options: bool) -> World:
    world = World(1, **options)
    world.start(0)
    world.start(1)
    world.run(2000)
    return world


def holdings(world: World) -> list[frozenset[str]]:
    return [member.served for member in world.members]


def test_in_active_standby_the_lower_id_serves() -> None:
    assert holdings(settled()) == [{"a"}, set()]


def test_in_active_active_each_serves_its_own() -> None:
    assert holdings(settled(active_active=True)) == [{"a"}, {"b"}]


@pytest.mark.parametrize(("refuses", "ms"), [(False, 700), (True, 300)])
def test_a_dead_members_share_is_taken_over_and_announced(refuses: bool, ms: int) -> None:
    world = settled(active_active=True)
    world.refuses = refuses
    died = world.now
    world.kill(0)
    world.run(ms)
    assert holdings(world) == [set(), {"a", "b"}]
    assert died < world.members[1].announced <= died + ms


def test_a_port_unreachable_is_ignored_while_heartbeats_arrive() -> None:
    world = settled()
    for _ in range(50):
        world.run(37)
        assert world.core(1).partner_gone() == []
    assert holdings(world) == [{"a"}, set()]


def test_a_returning_member_takes_over_nothing_by_itself() -> None:
    world = settled()
    world.kill(0)
    world.run(3000)
    world.start(0)
    world.core(0).set_copied(True)
    world.run(60_000)
    assert holdings(world) == [set(), {"a"}]


def test_after_a_short_absence_the_partner_serves() -> None:
    world = settled()
    world.kill(0)
    world.core(1).set_copied(True)
    world.run(200)
    world.start(0)
    world.run(1000)
    assert holdings(world) == [set(), {"a"}]
    assert world.longest_none <= 600


def test_with_preemption_a_share_returns_once_after_the_hold_time_without_a_gap() -> None:
    world = settled(preempt=True)
    world.kill(0)
    world.run(3000)
    world.start(0)
    world.run(10_000)
    assert holdings(world) == [set(), {"a"}]  # it does not know the connections yet
    world.core(0).set_copied(True)
    world.longest_none = 0
    world.run(5000)
    assert holdings(world) == [{"a"}, set()]
    assert world.longest_none == 0
    assert world.core(0).takeovers == 1


def test_a_flapping_partner_moves_no_share() -> None:
    world = settled(preempt=True)
    world.kill(0)
    world.run(3000)
    for _ in range(20):
        world.start(0)
        world.core(0).set_copied(True)
        world.run(1500)
        world.kill(0)
        world.run(1500)
    assert world.core(1).takeovers == 1


def test_an_operator_moves_a_share_without_a_gap() -> None:
    world = settled()
    world.longest_none = 0
    world._perform(0, world.core(0).hand_over({"a"}))
    world.run(1000)
    assert holdings(world) == [set(), {"a"}]
    assert world.longest_none == 0


def test_a_broken_data_process_hands_over_at_once() -> None:
    world = settled()
    world.longest_none = 0
    world.health(0, False)
    world.run(500)
    assert holdings(world) == [set(), {"a"}]
    assert world.longest_none <= 2 * INTERVAL_MS


@pytest.mark.parametrize("active_active", [False, True])
def test_after_a_split_each_keeps_its_own_share_and_announces_it(active_active: bool) -> None:
    world = settled(active_active=active_active)
    before = holdings(world)
    world.loss = [1.0, 1.0]
    world.run(5000)
    assert holdings(world) == [world.roles, world.roles]
    world.loss = [0.0, 0.0]
    healed = world.now
    world.run(COPYING_MS - INTERVAL_MS)
    assert holdings(world) == [world.roles, world.roles]  # each has connections that the other does not know yet
    world.run(2000)
    assert holdings(world) == before
    assert world.members[0].announced > healed
    assert world.longest_two <= MAX_TWO_MS


@pytest.mark.parametrize("deaf", [0, 1])
def test_a_one_way_link_leaves_one_server(deaf: int) -> None:
    world = settled(active_active=True)
    world.loss[1 - deaf] = 1.0
    world.run(5000)
    served = holdings(world)
    assert served[0] | served[1] == world.roles
    assert not served[0] & served[1]


def test_a_resumed_member_does_not_declare_its_partner_dead() -> None:
    world = settled()
    world.stop(1, 5000)
    world.run(10_000)
    assert holdings(world) == [{"a"}, set()]
    assert world.core(1).takeovers == 0


def test_old_repeated_and_foreign_heartbeats_are_ignored_and_counted() -> None:
    one, two = (
        Ownership(Terms(me=me, partner=it, roles=frozenset("a")), boot=1) for me, it in (("a", "b"), ("b", "a"))
    )
    first, second = (effect.heartbeat for _ in range(2) for effect in one.tick() if isinstance(effect, SendHeartbeat))
    two.heard(second)
    for beat in (first, second, first._replace(sender="c"), second._replace(sequence=99, receiver="c")):
        assert two.heard(beat) == []
    assert two.ignored == 4

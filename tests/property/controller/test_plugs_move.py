"""Plugs move, frames are lost and ports fall silent in any order: no sound cable is called wrong, and all clears."""

from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.brain.durable import restored
from heddle.controller.brain.settings import Settings
from heddle.controller.model.cabling import CablingPolicy, Peer
from heddle.controller.model.effect import Follow
from heddle.controller.model.event import Heard, PortStatus, Tick
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.found_cabling import as_described, with_found
from tests.support.examples import examples
from tests.unit.brain.driver import Driver, small_fabric

FABRIC = small_fabric(spines=4, leaves=3, hosts_per_leaf=1)
ENDS = sorted(FABRIC.cable_by_port)
END = st.sampled_from(ENDS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("exchange"), END, END),
        st.tuples(st.just("pull"), END),
        st.tuples(st.just("repair"), END),
        st.tuples(st.just("hear"), st.sets(END)),
    ),
    max_size=12,
)

MAX_ROUNDS = 25
"""Rounds of a minute: longer than the longest wait before the cabling is followed."""


class Hall:
    """Where plugs are, and a brain that hears of it."""

    def __init__(self, policy: CablingPolicy = CablingPolicy.EXCLUDE) -> None:
        self.driver = Driver(FABRIC, Settings(cabling=policy))
        self.driver.connect_all()
        self.built: dict[PortRef, PortRef] = {}
        for cable in FABRIC.cables:
            self.built |= {cable.lower: cable.upper, cable.upper: cable.lower}
        self.far = dict(self.built)

    def _leave(self, end: PortRef) -> PortRef | None:
        """Pull the plug out of a port; return the other end of its cable."""
        far = self.far.pop(end, None)
        for port in (end, far):
            if port is not None:
                self.far.pop(port, None)
                self.driver.feed(PortStatus(switch=port.switch, port=port.number, up=False))
                self.driver.feed(Heard(changes={port: None}))
        return far

    def _plug(self, a: PortRef, b: PortRef | None) -> None:
        if b is not None:
            self.far |= {a: b, b: a}
            for port in (a, b):
                self.driver.feed(PortStatus(switch=port.switch, port=port.number, up=True))

    def exchange(self, a: PortRef, b: PortRef) -> None:
        """Exchange the plugs in two ports."""
        if a != b and self.far.get(a) != b:
            far_a, far_b = self._leave(a), self._leave(b)
            self._plug(a, far_b)
            self._plug(b, far_a)

    def pull(self, a: PortRef) -> None:
        """Pull the plug out of a port."""
        self._leave(a)

    def repair(self, a: PortRef) -> None:
        """Put the cable of a port where it belongs."""
        for end in (a, self.built[a]):
            if self.far.get(end) != self.built[end]:
                self._leave(end)
        if a not in self.far:
            self._plug(a, self.built[a])

    def hear(self, ends: set[PortRef]) -> None:
        """Let some ports hear what is there, and time pass."""
        self.driver.feed(Heard(changes={end: Peer(*self.far[end]) for end in sorted(ends) if end in self.far}))
        self.driver.now += 60_000
        for _ in range(3):
            self.driver.now += 1_000
            self.driver.feed(Tick())

    def follow(self) -> bool:
        """Begin the next life of the controller, if one is to begin; its ports hear what they heard."""
        before = self.driver
        found = [effect.found for effect in before.effects if isinstance(effect, Follow)]
        if not found:
            return False
        for cable in (cable for each in found[-1] for cable in each.cables):
            assert self.far[cable.lower] == cable.upper
        fabric = with_found(before.fabric, found[-1])
        self.driver = Driver(fabric, before.settings, now=before.now)
        values: dict[str, dict[str, object]] = {
            "follow": {str(at): at for at in before.state.cabling.followed},
            "port": {str(port): port for port in before.state.down_ports},
            "joining": {name: name for name in before.state.cabling.joining},
        }
        self.driver.state = restored(self.driver.state, values, before.now)
        self.driver.connect_all()
        self.driver.feed(Heard(changes=dict(before.state.cabling.heard)))
        return True

    def wrong(self) -> set[str]:
        """Return the cables with a plug that is elsewhere or pulled."""
        return {FABRIC.cable_by_port[end].id for end in ENDS if self.far.get(end) != self.built[end]}


@hypothesis_settings(max_examples=examples(30), deadline=None)
@given(STEPS)
def test_no_sound_cable_is_wrong_and_everything_clears_when_it_is_repaired(steps):
    hall = Hall()
    state = hall.driver.state
    for step, *ends in steps:
        getattr(hall, step)(*ends)
        hall.hear(set())
        state = hall.driver.state
        verdict, wrong = state.cabling.verdict, hall.wrong()
        assert verdict.wrong <= wrong
        heard_right = {
            FABRIC.cable_by_port[end].id
            for end, peer in state.cabling.heard.items()
            if (peer.switch, peer.port) == hall.built[end]
        }
        assert verdict.left_out.isdisjoint(heard_right)
        assert len(verdict.left_out) <= len(FABRIC.cables) * state.settings.cabling_max_percent // 100
    for end in ENDS:
        hall.repair(end)
    hall.hear(set(ENDS))
    assert hall.driver.conditions == {}
    assert hall.driver.state.out_of_use.whole
    assert hall.driver.differing() == []
    assert len(state.cabling.heard) <= len(ENDS)


@hypothesis_settings(max_examples=examples(20), deadline=None)
@given(STEPS)
@example([("exchange", ENDS[0], ENDS[1]), ("pull", ENDS[0])])
@example([("exchange", ENDS[0], ENDS[1]), ("exchange", ENDS[1], ENDS[6]), ("repair", ENDS[0])])
def test_what_is_followed_is_plugged_so_and_the_file_is_in_force_again_once_all_is_repaired(steps):
    hall = Hall(CablingPolicy.FOLLOW)
    for step, *ends in steps:
        getattr(hall, step)(*ends)
        hall.hear(set(ENDS))
        hall.follow()
        assert as_described(hall.driver.fabric).cables == FABRIC.cables
    for end in ENDS:
        hall.repair(end)
    for _ in range(MAX_ROUNDS):
        hall.hear(set(ENDS))
        hall.follow()
    assert hall.driver.fabric == FABRIC
    assert hall.driver.conditions == {}
    assert hall.driver.state.out_of_use.whole
    assert hall.driver.differing() == []

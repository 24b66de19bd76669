"""The brain on a fabric whose packets name their paths, under any order of events: nothing is installed or sought."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from heddle.controller.brain.settings import Settings
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.effect import Compile, FindPorts, Install, Solve
from heddle.controller.model.event import Drain, PortStatus, Release, Submit, Tick, Withdraw
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.model.job_state import JobState
from heddle.controller.model.srv6 import Sids
from tests.oracles.usid_walk import walk
from tests.property.controller.test_srv6_paths import world
from tests.support.examples import examples
from tests.unit.brain.driver import Driver, shift_job, small_fabric

JOBS = st.sampled_from(["a", "b", "c"])
CABLES = st.sampled_from([("leaf1", 1), ("leaf2", 2), ("leaf3", 3)])


class Srv6Machine(RuleBasedStateMachine):
    """Three spines, four leaves, eight hosts; a walk of the entries, not the plan, says where packets go."""

    def __init__(self) -> None:
        super().__init__()
        fabric = replace(small_fabric(spines=3), steered_by=SteeredBy.SRV6)
        self.driver, self.world = Driver(fabric, settings=Settings()), world(fabric)
        self.calls = 0
        self.down: set[str] = set()

    def next_reply(self) -> int:
        self.calls += 1
        return self.calls

    @rule(job=JOBS, by=st.integers(1, 7), preview=st.booleans())
    def submit(self, job: str, by: int, preview: bool) -> None:
        request = shift_job(job, by=by, lease_ms=3_000)
        self.driver.feed(Submit(reply=self.next_reply(), request=request, preview=preview))

    @rule(job=JOBS)
    def release(self, job: str) -> None:
        self.driver.feed(Release(reply=self.next_reply(), job_id=job))

    @rule(back=st.integers(0, 5))
    def a_caller_leaves(self, back: int) -> None:
        self.driver.feed(Withdraw(reply=self.calls - back))

    @rule(cable=CABLES, up=st.booleans())
    def port_changes(self, cable: tuple[str, int], up: bool) -> None:
        switch, port = cable
        name = f"{switch}:{port}>spine{port}:{switch[-1]}"
        (self.down.discard if up else self.down.add)(name)
        self.driver.feed(PortStatus(switch=switch, port=port, up=up))

    @rule(undrain=st.booleans())
    def drain(self, undrain: bool) -> None:
        self.driver.feed(Drain(reply=self.next_reply(), target="spine3", undrain=undrain))

    @rule()
    def slow_planner(self) -> None:
        self.driver.hold = (Solve,)

    @rule()
    def planner_answers(self) -> None:
        self.driver.release_held()

    @rule(ms=st.integers(0, 4_000))
    def time_passes(self, ms: int) -> None:
        self.driver.now += ms
        self.driver.feed(Tick())

    @invariant()
    def nothing_is_installed_compiled_or_sought(self) -> None:
        for effect in self.driver.effects:
            assert not isinstance(effect, Compile | FindPorts)
            assert not (isinstance(effect, Install) and effect.steps)

    @invariant()
    def no_job_waits_for_a_switch(self) -> None:
        assert JobState.PLANNED not in {job.state for job in self.driver.state.jobs.values()}

    @invariant()
    def at_rest_packets_take_live_cables_to_their_nic_and_acks_back(self) -> None:
        if self.driver.hold or self.driver.state.active is not None or self.driver.state.queue:
            return
        sids, nics = Sids(self.driver.fabric), self.driver.fabric.nic_by_id
        for job in self.driver.state.jobs.values():
            for flow in job.flows.flows if not job.stranded else ():
                ways = ((flow.links, flow.src_nic, flow.dst_nic), (flow.reverse_links, flow.dst_nic, flow.src_nic))
                for links, source, target in ways:
                    address = ipv6_text(sids.destination(links, target))
                    taken, end, _ = walk(self.world, nics[source].port.switch, address)
                    cables = {f"{one[0]}:{one[1]}>{other[0]}:{other[1]}" for one, other in taken}
                    cables |= {f"{other[0]}:{other[1]}>{one[0]}:{one[1]}" for one, other in taken}
                    assert end == target
                    assert not cables & self.down


Srv6Machine.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=20, deadline=None)
test_srv6_machine = Srv6Machine.TestCase

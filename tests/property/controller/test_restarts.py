"""The brain ends at any moment and begins again with what it has written: nothing acknowledged is lost, or returns."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from heddle.controller.brain import durable
from heddle.controller.brain.begin import begin
from heddle.controller.brain.settings import Settings
from heddle.controller.model.effect import Install, Persist, Reply
from heddle.controller.model.event import Drain, Release, Renew, Submit, SwitchUp
from heddle.controller.model.job_state import JobState
from heddle.controller.model.plan import JobPlan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.recording.batch import Turn
from heddle.controller.runtime.journal import jobs, values
from tests.property.controller.test_brain_machine import JOBS, SWITCHES, BrainMachine
from tests.support.examples import examples
from tests.unit.brain.driver import Driver

LINKS = st.sampled_from(["leaf1:1>spine1:1", "leaf2:2>spine2:2"])
JOURNALED = Settings(is_journaled=True)


class RestartMachine(BrainMachine):
    """The machine of the brain's own test, with drains, renewals and ends of the process."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[tuple[str, str], object] = {}
        self.submitted: dict[int, str] = {}
        self.released: dict[int, str] = {}
        self.acknowledged: dict[str, JobPlan] = {}
        self.driver = Driver(self.driver.fabric, settings=JOURNALED)
        self.driver.on_turn = self.take_turn
        self.driver.connect_all()
        for number, job in enumerate(("a", "b", "c"), 1):
            self.submit(job, number, pinned=job == "b", preview=False)

    def take_turn(self, turn: Turn) -> None:
        """Write what a turn persists, then note what it acknowledges; and what ends without a caller."""
        for effect in turn.effects:
            if isinstance(effect, Persist):
                self.written |= effect.values
        for event in turn.events:
            if isinstance(event, Submit) and not event.preview:
                self.submitted[event.reply] = event.request.job_id
            elif isinstance(event, Release):
                self.released[event.reply] = event.job_id
        for name in self.acknowledged.keys() - self.driver.state.jobs.keys():
            del self.acknowledged[name]  # its lease ended
        for effect in turn.effects:
            if isinstance(effect, Reply) and isinstance(effect.outcome, JobPlan) and effect.reply in self.submitted:
                self.acknowledged[effect.outcome.job_id] = effect.outcome

    @rule(link=LINKS, undrain=st.booleans())
    def drain(self, link: str, undrain: bool) -> None:
        self.driver.feed(Drain(reply=self.next_reply(), target=link, undrain=undrain))

    @rule(job=JOBS, ms=st.integers(1_000, 5_000))
    def renew(self, job: str, ms: int) -> None:
        self.driver.feed(Renew(reply=self.next_reply(), job_id=job, lease_ms=ms))

    @rule(job=JOBS)
    def it_ends_after_a_release(self, job: str) -> None:
        self.release(job)
        self.the_process_ends_and_starts_again()

    @rule(job=JOBS, by=st.integers(1, 3), pinned=st.booleans())
    def it_ends_while_switches_get_a_job(self, job: str, by: int, pinned: bool) -> None:
        self.driver.hold = (Install,)
        self.submit(job, by, pinned=pinned, preview=False)
        self.the_process_ends_and_starts_again()

    @rule(switch=SWITCHES, port=st.integers(1, 2), up=st.booleans())
    def it_ends_after_a_port_has_changed(self, switch: str, port: int, up: bool) -> None:
        self.port_changes(switch, port, up)
        self.the_process_ends_and_starts_again()

    @rule()
    def the_process_ends_and_starts_again(self) -> None:
        """Start with what is written; calls, effects and events under way are lost."""
        before, fabric = self.driver, self.driver.fabric
        self.left |= set(range(1, self.calls + 1))
        after = Driver(fabric, settings=JOURNALED, now=before.now + 500)
        after.state = durable.restored(begin(fabric, JOURNALED, after.now), self.read(), after.now)
        after.held, after.replies, after.on_turn = dict(before.held), before.replies, self.take_turn
        self.driver = after
        assert self.acknowledged.keys() <= after.state.jobs.keys()
        assert all(job.state is not JobState.PLANNED for job in after.state.jobs.values())
        assert all(job.lease_expires_unix_ms == after.now + job.lease_ms for job in after.state.jobs.values())
        assert set(self.released.values()) & after.state.jobs.keys() <= self.acknowledged.keys()
        for name, job in after.state.jobs.items():  # whole, and as it was, for as long as it was known
            was = before.state.jobs[name]
            assert (job.request, list(job.flows.flows), job.generation) == (
                was.request,
                list(was.flows.flows),
                was.generation,
            )
        for switch in fabric.switches:
            ports = {port.number: False for port in before.state.down_ports if port.switch == switch.id}
            after.feed(SwitchUp(switch=switch.id, ports=ports, installed=after.held[switch.id]))

    def read(self) -> durable.Values:
        """Return what is written, encoded and decoded."""
        topology, found = topology_of(self.driver.fabric), dict[str, dict[str, object]]()
        for (kind, name), value in self.written.items():
            if value is None:
                continue
            if kind == "job":
                again: object = jobs.decode(topology, jobs.encode(topology, value), None)  # type: ignore[arg-type]
            else:
                again = values.decode(durable.TYPES[kind], values.encode(value))
            found.setdefault(kind, {})[name] = again
        return found


RestartMachine.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=20, deadline=None)
test_restarts = RestartMachine.TestCase

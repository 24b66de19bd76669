"""The brain on a fabric that hashes, under any order of events: jobs that run have ports that lead over their paths."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from heddle.controller.brain.settings import Settings
from heddle.controller.model.effect import FindPorts, Solve
from heddle.controller.model.event import Drain, PortsFound, PortStatus, Release, Renew, Submit, Tick, Withdraw
from heddle.controller.model.fabric import SteeredBy
from heddle.probing.flow import Found
from tests.fakes.probing.hashing_fabric import Hash, crc_modulo, mixing, xor
from tests.fakes.probing.hashing_switches import HashingSwitches
from tests.support.examples import examples
from tests.unit.brain.driver import Driver, shift_job, small_fabric

JOBS = st.sampled_from(["a", "b", "c"])
CABLES = st.sampled_from([("leaf1", 1), ("leaf2", 2), ("leaf3", 3)])


class HashMachine(RuleBasedStateMachine):
    """Three spines, four leaves, eight hosts, no session of any switch."""

    def __init__(self) -> None:
        super().__init__()
        fabric = replace(small_fabric(spines=3), steered_by=SteeredBy.HASH)
        self.driver = Driver(fabric, settings=Settings(), hashing=HashingSwitches(fabric))
        self.calls = 0
        self.left: set[int] = set()

    @property
    def hashing(self) -> HashingSwitches:
        """Return the switches, which may change until the first job comes."""
        assert self.driver.hashing is not None
        return self.driver.hashing

    def next_reply(self) -> int:
        self.calls += 1
        return self.calls

    @rule(hashes=st.sampled_from([mixing, crc_modulo, xor]))
    def hashes_before_the_first_job(self, hashes: Hash) -> None:
        if self.calls == 0:
            self.driver.hashing = HashingSwitches(self.driver.fabric, hashes)

    @rule(job=JOBS, by=st.integers(1, 7), preview=st.booleans())
    def submit(self, job: str, by: int, preview: bool) -> None:
        request = shift_job(job, by=by, lease_ms=3_000)
        self.driver.feed(Submit(reply=self.next_reply(), request=request, preview=preview))

    @rule(job=JOBS)
    def release(self, job: str) -> None:
        self.driver.feed(Release(reply=self.next_reply(), job_id=job))

    @rule(job=JOBS)
    def renew(self, job: str) -> None:
        self.driver.feed(Renew(reply=self.next_reply(), job_id=job, lease_ms=3_000))

    @rule(back=st.integers(0, 5))
    def a_caller_leaves(self, back: int) -> None:
        self.left.add(self.calls - back)
        self.driver.feed(Withdraw(reply=self.calls - back))

    @rule(cable=CABLES, up=st.booleans())
    def port_changes(self, cable: tuple[str, int], up: bool) -> None:
        switch, port = cable
        name = f"{switch}:{port}>spine{port}:{switch[-1]}"
        self.hashing.down = self.hashing.down - {name} if up else self.hashing.down | {name}
        self.driver.feed(PortStatus(switch=switch, port=port, up=up))

    @rule(undrain=st.booleans(), dry_run=st.booleans())
    def drain(self, undrain: bool, dry_run: bool) -> None:
        self.driver.feed(Drain(reply=self.next_reply(), target="spine3", undrain=undrain, dry_run=dry_run))

    @rule(host=st.integers(0, 7), gone=st.booleans())
    def an_agent_comes_or_goes(self, host: int, gone: bool) -> None:
        ip = self.driver.fabric.nics[host].ip
        self.hashing.silent = {ip} if gone else set()

    @rule(token=st.integers(1, 60))
    def a_late_or_foreign_result_arrives(self, token: int) -> None:
        active = self.driver.state.active
        if active is None or active.seeking is None or active.seeking.token != token:
            before = self.driver.state.jobs
            self.driver.feed(PortsFound(token=token, found=Found({"a/0/0-1/0": 1}, {}, 9), search_ns=1))
            assert self.driver.state.jobs == before

    @rule()
    def slow_outside(self) -> None:
        self.driver.hold = (FindPorts, Solve)

    @rule()
    def outside_answers(self) -> None:
        self.driver.release_held()

    @rule(ms=st.integers(0, 4_000))
    def time_passes(self, ms: int) -> None:
        self.driver.now += ms
        self.driver.feed(Tick())

    @invariant()
    def no_caller_gets_two_replies(self) -> None:
        assert all(len(replies) == 1 for replies in self.driver.replies.values())

    @invariant()
    def every_flow_of_a_running_job_has_a_port_that_probes_have_seen_on_its_path(self) -> None:
        for job in self.driver.state.jobs.values():
            assert job.effort.probed
            assert job.effort.paths_confirmed + job.stranded <= len(job.flows.flows)

    @invariant()
    def at_rest_a_confirmed_job_takes_its_paths(self) -> None:
        hashing, nics = self.hashing, self.driver.fabric.nic_by_id
        if self.driver.waiting or self.driver.hold or self.is_held():
            return
        for job in self.driver.state.jobs.values():
            if job.effort.paths_confirmed == len(job.flows.flows):
                for flow in job.flows.flows:
                    path = hashing.path(nics[flow.src_nic], nics[flow.dst_nic], flow.udp_source_port)
                    assert path == flow.links

    def is_held(self) -> bool:
        """Return whether a link is up that is not in use yet: switches hash over it, the controller does not know."""
        return any(hold.until_unix_ms is not None for hold in self.driver.state.holds.values())

    @invariant()
    def at_rest_every_caller_has_a_reply(self) -> None:
        if self.driver.waiting or self.driver.hold:
            return
        assert self.driver.state.active is None
        assert self.driver.state.queue == ()
        assert set(self.driver.replies) | self.left >= set(range(1, self.calls + 1))

    def teardown(self) -> None:
        self.driver.release_held()
        self.at_rest_every_caller_has_a_reply()


HashMachine.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=20, deadline=None)
test_hash_machine = HashMachine.TestCase


def test_paths_are_confirmed_again_where_a_link_fails_that_was_not_in_use_yet() -> None:
    machine, cable = HashMachine(), ("leaf1", 1)
    machine.port_changes(cable=cable, up=False)
    machine.port_changes(cable=cable, up=True)
    machine.submit(job="a", by=1, preview=False)
    machine.port_changes(cable=cable, up=False)
    (job,) = machine.driver.state.jobs.values()
    assert job.effort.paths_confirmed == len(job.flows.flows)
    machine.at_rest_a_confirmed_job_takes_its_paths()

"""Changes of plans in their order: rates fall, rules change, rates rise. A controller may end at any moment of them.

At every prefix of every installation, the traffic that hosts send by what was published last fits on the links that it
takes by the rules that switches hold.
"""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import event, given, settings
from hypothesis import strategies as st

from heddle.controller.model.effect import Announce, Effect, Install
from heddle.controller.model.event import Congested, Drain, Event, HotLink, Installed, Release, Submit
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair, Steering
from heddle.controller.model.job_state import JobState
from heddle.controller.model.plan import FlowPlan
from heddle.controller.rules.trace import Packet, Tracer
from tests.support.examples import examples
from tests.support.fabrics.rule_changes import apply_changes
from tests.unit.brain.driver import Driver, small_fabric

ROUNDING = 1 + 1e-6
PERIOD_MS, LONGEST_PAUSE_MS = 1_000, 400_000


@dataclass
class Followed(Driver):
    """A Driver with hosts that send what was published last; `overloads` are links over their capacity, and when."""

    sent: dict[str, tuple[FlowPlan, ...]] = field(default_factory=dict)
    overloads: list[str] = field(default_factory=list)
    slowed: int = 0

    def _announce(self, effect: Announce) -> list[Event]:
        plan = effect.plan
        self.sent[plan.job_id] = tuple(plan.flows.flows) if plan.state is JobState.RUNNING else ()
        self.slowed += "slower while" in plan.reason
        return super()._announce(effect)

    def _install(self, effect: Install) -> list[Event]:
        self.check("before an installation")
        for step in effect.steps:
            for switch, changes in step.changes.items():
                for count in (len(changes) // 2, len(changes)):
                    held = self.held[switch]
                    self.held[switch] = apply_changes(held, changes[:count])
                    self.check(f"after {count} of {len(changes)} changes on {switch}")
                    self.held[switch] = held if count < len(changes) else self.held[switch]
        return [Installed(token=effect.token, install_ns=7)]

    def perform(self, effect: Effect) -> list[Event]:
        return self._install(effect) if isinstance(effect, Install) else super().perform(effect)

    def check(self, when: str) -> None:
        """Record the links that carry more than they can; jobs have one phase each."""
        tracer, load = Tracer(self.fabric, self.held), Counter[str]()
        for flows in self.sent.values():
            for flow in flows:
                ends = self.fabric.nic_by_id[flow.src_nic], self.fabric.nic_by_id[flow.dst_nic]
                packet = Packet.roce(src_ip=ends[0].ip, dst_ip=ends[1].ip, udp_src=flow.udp_source_port)
                load.update(dict.fromkeys(tracer.trace(flow.src_nic, packet).links, flow.rate_bps))
        for cable in self.fabric.cables:
            for link in (cable.up_link, cable.down_link):
                if load[link] > cable.capacity_bps * ROUNDING:
                    self.overloads.append(f"{when}: {link} at {load[link] / cable.capacity_bps:.3f}")


@st.composite
def requests(draw: st.DrawFn, name: str, nics: list[str], steering: Steering) -> JobRequest:
    """Draw a job of pairs; no NIC of it sends or receives twice."""
    order, count = draw(st.permutations(range(len(nics)))), draw(st.integers(2, len(nics)))
    pairs = tuple(RankPair(src_rank=order[place], dst_rank=order[place - 1]) for place in range(count))
    wanted = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=pairs)
    return JobRequest(job_id=name, ranks=tuple(nics), collectives=(wanted,), steering=steering)


def crowd(driver: Followed, data: st.DataObject) -> None:
    """Report a link of jobs as full of other traffic, and then a link that their flows have taken instead, if any."""
    before = taken(driver)
    for wait_ms in (LONGEST_PAUSE_MS, PERIOD_MS):
        links = taken(driver) - before or before
        if links:
            driver.now += wait_ms
            driver.feed(crowded(data.draw(st.sampled_from(sorted(links)))))
            driver.check("after a hog")


def taken(driver: Followed) -> set[str]:
    """Return the links between switches that jobs take."""
    return {link for job in driver.state.jobs.values() for link in job.flows.link_loads_bps if "spine" in link}


def crowded(link: str) -> Congested:
    hot = HotLink(
        port=link.split(">")[0], link=link, priority=3, measured_bps=19 * 10**8, planned_bps=10**9,
        excess_bps=9 * 10**8, senders=1, jobs=(),
    )  # fmt: skip
    return Congested(hot=(hot,), over=())


@given(data=st.data(), spines=st.integers(2, 3), steering=st.sampled_from(Steering))
@settings(max_examples=examples(60), deadline=None)
def test_at_no_moment_of_a_change_do_links_get_more_than_they_carry(data, spines, steering):
    driver = Followed(small_fabric(spines=spines))
    driver.connect_all()
    nics = [nic.id for nic in driver.fabric.nics]
    targets = [*(f"spine{number + 1}" for number in range(spines)), *(cable.id for cable in driver.fabric.cables)]
    what_happens = st.lists(
        st.sampled_from(["a", "b", "drain", "drain", "undrain", "hog", "hog"]), min_size=2, max_size=8
    )
    for calls, what in enumerate(data.draw(what_happens), 1):
        if what == "drain":
            driver.feed(Drain(reply=calls, target=data.draw(st.sampled_from(targets))))
        elif what == "undrain" and driver.state.drained:
            driver.feed(Drain(reply=calls, target=min(driver.state.drained), undrain=True))
        elif what == "hog":
            crowd(driver, data)
        elif what in driver.state.jobs:
            driver.sent[what] = ()
            driver.feed(Release(reply=calls, job_id=what))
        elif what in ("a", "b"):
            driver.feed(Submit(reply=calls, request=data.draw(requests(what, nics, steering))))
        driver.check(f"after {what}")
    event(f"{steering.name}: {'slower' if driver.slowed else 'as before'} for a move")
    assert driver.overloads == []

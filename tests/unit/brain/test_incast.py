"""An incast of more senders than planned: planned senders share what is left, until the others have gone."""

import pytest

from heddle.controller.brain.settings import Settings
from heddle.controller.model.event import Congested, Submit
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, Incast, JobRequest
from tests.support.fabrics.hot_links import hot_link
from tests.unit.brain.driver import Driver, small_fabric

PERIOD_MS, PAUSE_MS = 200, 2_000
LINE_BPS = 10**9


def started(*senders: int, acts: bool = True, incast: Incast = Incast.UNSPECIFIED) -> tuple[Driver, str]:
    """Return a driver with a job that sends to the first NIC at full rate, and that NIC's link."""
    driver = Driver(small_fabric(), Settings(period_ms=PERIOD_MS, congestion_pause_ms=PAUSE_MS, acts_on_telemetry=acts))
    driver.connect_all()
    flows = tuple(FlowDemand(src_rank=sender, dst_rank=0, rate_bps=LINE_BPS) for sender in senders)
    ranks = tuple(nic.id for nic in driver.fabric.nics)
    gather = Collective(kind=CollectiveKind.CUSTOM, flows=flows)
    driver.feed(Submit(reply=1, request=JobRequest(job_id="a", ranks=ranks, collectives=(gather,), incast=incast)))
    return driver, driver.fabric.nics[0].down_link


def crowded(driver: Driver, link: str, excess_bps: int, *others: str) -> None:
    """Report a full link into a NIC on which NICs of no job send, a period later."""
    driver.now += PERIOD_MS
    hot = hot_link(driver.state, link, sum(rates(driver)) + excess_bps)
    driver.feed(Congested(hot=(hot,), over=tuple((nic, excess_bps) for nic in others)))


def rates(driver: Driver) -> list[int]:
    return [flow.rate_bps for flow in driver.state.jobs["a"].flows.flows]


def quiet(driver: Driver, link: str, left_bps: int = 0) -> None:
    """Let time pass without congestion; `left_bps` is what NICs of no job still send."""
    for _ in range(50):
        driver.now += PERIOD_MS
        calm = hot_link(driver.state, link, sum(rates(driver)) + left_bps)
        driver.feed(Congested(hot=(), calm=(calm,)))


def test_planned_senders_share_what_one_more_leaves_and_its_name_is_in_the_reason():
    driver, link = started(2, 3, 4)
    crowded(driver, link, 200_000_000, "h8-n0")
    job = driver.state.jobs["a"]
    assert rates(driver) == [pytest.approx(750_000_000 / 3, abs=2)] * 3
    assert job.generation == 2
    assert "h8-n0 (200.0 Mbit/s): its planned senders share what is left" in job.reason
    assert "0.95 of its rate less traffic of no job shared" in job.reason
    assert driver.announced[-1] == job.as_plan(driver.state.certificate)


def test_a_sender_that_takes_all_it_can_leaves_the_others_their_fair_share():
    driver, link = started(2, 3, 4)
    crowded(driver, link, 900_000_000, "h8-n0")
    assert rates(driver) == [pytest.approx(0.95 * LINE_BPS / 4, abs=2)] * 3


def test_one_planned_sender_gives_way_too():
    driver, link = started(2)
    crowded(driver, link, 900_000_000, "h8-n0")
    assert rates(driver) == [pytest.approx(LINE_BPS / 2, abs=2)]


def test_paths_and_figures_stay_as_they_were():
    driver, link = started(2, 3, 4)
    before, certificate = driver.state.jobs["a"].flows, driver.state.certificate
    crowded(driver, link, 300_000_000, "h8-n0")
    after = driver.state.jobs["a"].flows
    assert [flow.links for flow in after.flows] == [flow.links for flow in before.flows]
    assert driver.state.certificate == certificate
    assert after.predicted_completion_ns >= before.predicted_completion_ns


def test_rates_return_when_the_other_senders_have_gone():
    driver, link = started(2, 3, 4)
    before = rates(driver)
    crowded(driver, link, 300_000_000, "h8-n0")
    quiet(driver, link)
    assert rates(driver) == before
    assert "carries no unplanned traffic any more: rates as before" in driver.state.jobs["a"].reason
    assert not driver.state.hot_ports


def test_rates_stay_while_the_other_senders_are_there_though_nothing_is_congested():
    driver, link = started(2, 3, 4)
    crowded(driver, link, 300_000_000, "h8-n0")
    lowered = rates(driver)
    quiet(driver, link, left_bps=300_000_000)
    assert rates(driver) == lowered


def test_rates_stay_while_telemetry_is_stale():
    driver, link = started(2, 3, 4)
    crowded(driver, link, 300_000_000, "h8-n0")
    lowered = rates(driver)
    for _ in range(50):
        driver.now += PERIOD_MS
        driver.feed(Congested(hot=(), stale=(link.partition(">")[0],)))
    assert rates(driver) == lowered


def test_a_small_change_of_the_excess_is_no_new_generation():
    driver, link = started(2, 3, 4)
    for excess_bps, generation in ((100, 2), (130, 2), (90, 2), (149, 2), (151, 3)):
        driver.now += 64 * PAUSE_MS
        crowded(driver, link, excess_bps * 10**6, "h8-n0")
        assert driver.state.jobs["a"].generation == generation


def test_rates_change_at_most_once_per_pause():
    driver, link = started(2, 3, 4)
    crowded(driver, link, 100_000_000, "h8-n0")
    crowded(driver, link, 400_000_000, "h8-n0", "h7-n0")
    assert driver.state.jobs["a"].generation == 2


def test_a_job_that_arrives_later_gets_what_is_left_too():
    driver, link = started(2, 3)
    crowded(driver, link, 200_000_000, "h8-n0")
    flows = (FlowDemand(src_rank=0, dst_rank=1, rate_bps=LINE_BPS),)
    later = Collective(kind=CollectiveKind.CUSTOM, flows=flows)
    driver.feed(Submit(reply=2, request=JobRequest(job_id="b", ranks=("h5-n0", "h1-n0"), collectives=(later,))))
    both = [*rates(driver), *(flow.rate_bps for flow in driver.state.jobs["b"].flows.flows)]
    assert sum(both) == pytest.approx(750_000_000, abs=4)


def test_telemetry_that_cannot_be_trusted_changes_no_rate():
    driver, link = started(2, 3, 4, acts=False)
    before = rates(driver)
    crowded(driver, link, 300_000_000, "h8-n0")
    assert rates(driver) == before
    assert "h8-n0" in driver.notes[-1].text


def test_senders_in_turns_share_what_is_left():
    driver, link = started(2, 3, 4, incast=Incast.WINDOWS)

    def mean_bps() -> float:
        return sum(flow.rate_bps / max(1, flow.window.slots) for flow in driver.state.jobs["a"].flows.flows)

    assert all(flow.window.slots == 3 for flow in driver.state.jobs["a"].flows.flows)
    assert mean_bps() == pytest.approx(0.95 * LINE_BPS, rel=1e-6)
    driver.now += PERIOD_MS
    hot = hot_link(driver.state, link, round(mean_bps()) + 200_000_000)
    driver.feed(Congested(hot=(hot,), over=(("h8-n0", 200_000_000),)))
    assert mean_bps() == pytest.approx(750_000_000, rel=1e-6)

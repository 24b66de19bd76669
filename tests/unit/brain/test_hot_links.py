"""What telemetry shows of a congested link: its planned flows, other traffic, and senders over their rates."""

from dataclasses import replace

import numpy as np
import pytest

from heddle.controller.config.telemetry import ports_of
from heddle.controller.model.event import FlowsOfJob, Submit
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.views.hot_links import hot_links
from heddle.controller.views.measured import Totals
from heddle.controller.views.planned_traffic import PlannedTraffic
from heddle.telemetry.detection.signal import Signal, SignalKind
from heddle.telemetry.samples.counters import COLUMNS, port_column
from tests.unit.brain.driver import Driver, shift_job, small_fabric
from tests.unit.store.snapshots import snapshot

LINE_BPS = 10**9
S = 10**9


@pytest.fixture
def driver() -> Driver:
    """Four flows at full rate, h1 to h3 and so on: each is alone on its links."""
    found = Driver(small_fabric())
    found.connect_all()
    found.feed(Submit(reply=1, request=shift_job("a", ranks=4)))
    return found


def uplink(driver: Driver, source: str) -> str:
    return next(flow.links[1] for flow in driver.state.jobs["a"].flows.flows if flow.src_nic == source)


def sent(driver: Driver, **shares: float) -> dict[str, float]:
    """Return the utilisation of the links out of NICs: planned senders at their rate, others silent, but for some."""
    planned = {flow.src_nic for flow in driver.state.jobs["a"].flows.flows}
    usual = {nic.id: 1.0 if nic.id in planned else 0.0 for nic in driver.fabric.nics}
    usual |= {f"{host}-n0": share for host, share in shares.items()}
    return {driver.fabric.nic_by_id[nic].up_link: share for nic, share in usual.items()}


def test_a_full_link_shows_a_hog_in_what_the_planned_sender_does_not_get_through(driver):
    link = uplink(driver, "h1-n0")
    traffic = PlannedTraffic(driver.state, sent(driver, h1=0.4, h7=0.6) | {link: 1.0})
    hot = traffic.link(link, priority=3)
    assert (hot.measured_bps, hot.planned_bps, hot.excess_bps) == (LINE_BPS, LINE_BPS, 6 * LINE_BPS // 10)
    assert traffic.over() == (("h7-n0", 6 * LINE_BPS // 10),)
    assert (hot.port, hot.senders, hot.jobs) == (link.split(">")[0], 1, (FlowsOfJob("a", 1, ("a/0/0-2/0",)),))


def test_senders_that_pause_are_no_traffic_of_others(driver):
    link = uplink(driver, "h1-n0")
    assert PlannedTraffic(driver.state, sent(driver, h1=0.4) | {link: 0.4}).link(link).excess_bps == 0


def test_a_hog_elsewhere_counts_at_most_with_what_it_sends(driver):
    link = uplink(driver, "h1-n0")
    traffic = PlannedTraffic(driver.state, sent(driver, h1=0.2, h7=0.1) | {link: 1.0})
    assert traffic.link(link).excess_bps == LINE_BPS // 10


def test_where_no_nic_is_measured_only_what_is_beyond_the_plan_counts(driver):
    link = uplink(driver, "h1-n0")
    assert PlannedTraffic(driver.state, {link: 1.0}).link(link).excess_bps == 0
    assert PlannedTraffic(driver.state, {link: 1.2}).link(link).excess_bps == LINE_BPS // 5


def test_a_sender_that_ignores_its_rate_in_an_incast_is_named():
    driver = Driver(small_fabric())
    driver.connect_all()
    flows = tuple(FlowDemand(src_rank=sender, dst_rank=0, rate_bps=LINE_BPS) for sender in (2, 3, 4))
    gather = Collective(kind=CollectiveKind.CUSTOM, flows=flows)
    ranks = tuple(nic.id for nic in driver.fabric.nics)
    driver.feed(Submit(reply=1, request=JobRequest(job_id="a", ranks=ranks, collectives=(gather,))))
    link, rate = driver.fabric.nics[0].down_link, 0.95 / 3
    traffic = PlannedTraffic(driver.state, sent(driver, h3=rate, h4=0.6, h5=0.1) | {link: 1.0})
    hot = traffic.link(link)
    assert [nic for nic, _ in traffic.over()] == ["h4-n0"]
    assert hot.senders == 3
    assert hot.planned_bps == pytest.approx(0.95 * LINE_BPS, abs=3)
    assert hot.excess_bps == pytest.approx((0.05 + rate - 0.1) * LINE_BPS, abs=3)


def test_a_link_without_planned_flows_carries_others_only(driver):
    link = next(cable.up_link for cable in driver.fabric.cables if cable.lower.switch == "leaf4")
    hot = PlannedTraffic(driver.state, sent(driver) | {link: 0.7}).link(link)
    assert (hot.planned_bps, hot.excess_bps, hot.senders, hot.jobs) == (0, 7 * LINE_BPS // 10, 0, ())


def test_the_first_flows_of_each_job_on_a_link_are_named(driver):
    driver.feed(Submit(reply=2, request=shift_job("b", ranks=4, by=2)))
    link = driver.fabric.nic_by_id["h3-n0"].down_link
    hot = PlannedTraffic(driver.state, {link: 1.0}).link(link)
    assert hot.jobs == (FlowsOfJob("a", 1, ("a/0/0-2/0",)), FlowsOfJob("b", 1, ("b/0/0-2/0",)))


def raised(port: str, *, stale: bool = False) -> Signal:
    return Signal(
        kind=SignalKind.CONGESTION, port=port, priority=3, raised=True, value=0.5, threshold=0.05, since_unix_ns=1,
        sampled_unix_ns=2, stale=stale,
    )  # fmt: skip


def measured(driver: Driver, at_s: float, **tx_bytes: int):
    """Return a snapshot in which ports have sent so many bytes; names are those of switch ports, `leaf1_1`."""
    names = ports_of(driver.fabric).names
    total = np.zeros((len(names), COLUMNS), dtype=np.uint64)
    for port, count in tx_bytes.items():
        total[names.index(port.replace("_", ":")), port_column("tx_bytes")] = count
    found = snapshot(at_s, total, names=names)
    return replace(found, timestamp_ns=np.full(len(names), round(at_s * S), dtype=np.int64))


def test_rates_of_a_congested_link_are_those_since_the_totals_given(driver):
    port = uplink(driver, "h1-n0").split(">")[0].replace(":", "_")
    before = Totals.of(measured(driver, 1.0, **{port: 500}))
    now = measured(driver, 1.6, **{port: 500 + LINE_BPS * 6 // 80})
    (hot,) = hot_links(driver.state, now, [raised(port.replace("_", ":"))], before).hot
    assert hot.measured_bps == LINE_BPS


def test_a_port_to_a_nic_is_reported_and_a_nics_own_port_is_not(driver):
    nic = driver.fabric.nics[0]
    now, before = measured(driver, 1.0), Totals.of(measured(driver, 0.5))
    found = hot_links(driver.state, now, [raised(str(nic.port)), raised(nic.id)], before)
    assert [hot.link for hot in found.hot] == [nic.down_link]


def test_a_port_that_was_congested_is_reported_until_it_is_forgotten_and_stale_without_samples(driver):
    port = uplink(driver, "h1-n0").split(">")[0]
    now, before = measured(driver, 1.0), Totals.of(measured(driver, 0.5))
    driver.feed(hot_links(driver.state, now, [raised(port)], before))
    assert [calm.port for calm in hot_links(driver.state, now, [], before).calm] == [port]
    silent = replace(now, stale=~now.stale)
    assert hot_links(driver.state, silent, [], before).stale == (port,)
    assert hot_links(driver.state, silent, [raised(port, stale=True)], before).stale == (port,)


def test_a_sender_that_may_exceed_its_plan_is_not_over_it_and_its_excess_is_no_traffic_of_others(driver):
    job = driver.state.jobs["a"]
    table = job.flows.flows
    assert isinstance(table, FlowTable)
    link, halves = uplink(driver, "h1-n0"), table.rates // 2

    def seen(conserving, part=0.9) -> PlannedTraffic:
        flows = replace(job.flows, flows=table.with_rates(halves, None, conserving))
        state = replace(driver.state, jobs={"a": replace(job, flows=flows)})
        return PlannedTraffic(state, sent(driver, h1=part) | {link: 0.9})

    all_may = np.ones(len(table), dtype=np.bool_)
    capped, free = seen(None), seen(all_may)
    assert "h1-n0" in dict(capped.over())
    assert capped.link(link).excess_bps == 4 * LINE_BPS // 10
    assert (free.over(), free.link(link).excess_bps) == ((), 0)
    by_plan = seen(all_may, 0.5)
    assert by_plan.link(link).excess_bps == 4 * LINE_BPS // 10, "its sender keeps to the plan, so this is of others"

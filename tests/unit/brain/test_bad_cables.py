"""A bad cable is planned with what it has left, drained where the running jobs lose nothing by it, and repaired."""

from typing import Any

import pytest

from heddle.controller.api.services.topology import topology_to
from heddle.controller.brain.begin import begin
from heddle.controller.brain.durable import KnownBadCable, restored
from heddle.controller.brain.settings import Settings
from heddle.controller.brain.state import ReplanWork
from heddle.controller.brain.transactions.bad_cables import JUDGE_PAUSE_MS, MAX_BAD_CABLES
from heddle.controller.model.effect import Persist
from heddle.controller.model.event import CablesJudged, Drain, JudgedCable, PortStatus, Release, Submit, Tick
from heddle.controller.model.goodput import goodput_share, left_bps
from heddle.controller.model.moves import Cause
from heddle.controller.model.steering import layout_of
from heddle.controller.views.bad_cables import judged_by_all, judged_cables
from heddle.controller.views.view import explain
from heddle.telemetry.detection.signal import Signal, SignalKind
from tests.unit.brain.driver import Driver, shift_job, small_fabric

CABLE = "leaf1:1>spine1:1"


def running(spines=2, **settings) -> Driver:
    """Return two spines that a job fills, or four, of which it needs half."""
    driver = Driver(small_fabric(spines=spines), Settings(**settings))
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("a")))
    return driver


def bad(driver, loss=0.0, rate_share=1.0, cable=CABLE, ms=0) -> None:
    driver.now += ms
    driver.feed(CablesJudged(cables=(JudgedCable(cable=cable, loss=loss, rate_share=rate_share, ports=("leaf1:1",)),)))


def later(driver, ms=JUDGE_PAUSE_MS) -> None:
    driver.now += ms
    driver.feed(Tick())


def repaired(driver) -> None:
    driver.feed(CablesJudged(cables=()))


def used(driver, job="a") -> set[str]:
    flows = driver.state.jobs[job].flows
    return {cable.id for link in flows.link_loads_bps if (cable := driver.fabric.cable_by_link.get(link)) is not None}


def texts(driver, subject=CABLE) -> list[str]:
    return [note.text for note in driver.notes if note.subject == subject]


def test_a_full_fabric_keeps_the_cable_at_its_goodput_and_says_why_and_what_repairs_it():
    driver = running()
    layout = layout_of(driver.fabric)
    bad(driver, rate_share=0.8)
    job = driver.state.jobs["a"]
    assert job.state == "degraded"
    assert "its fullest link rises from 1.00 to 1.25" in job.reason
    assert min(flow.rate_bps for flow in job.flows.flows) == 800_000_000
    later(driver)
    assert driver.state.left_out == frozenset()
    assert driver.state.out_of_use.whole
    first, kept = texts(driver)
    assert first == (
        "has 80% of its rate: 0.8 Gbit/s are left; clean or replace the optics of leaf1:1 and spine1:1, or the cable"
    )
    assert kept.startswith("kept at what it has left: without it the fullest link would go from 1.25 to 2.00; clean")
    assert layout_of(driver.fabric) == driver.state.layout == layout
    assert driver.differing() == []


def test_what_operators_read_names_the_cable_its_rate_and_the_repair():
    driver = running()
    bad(driver, loss=0.1, rate_share=0.9)
    later(driver)
    left = driver.state.bad_cables[CABLE].left_bps
    topology = {link.id: link for link in topology_to(driver.state).links}
    assert {topology[name].left_bps for name in (CABLE, "spine1:1>leaf1:1")} == {left}
    assert [name for name, link in topology.items() if link.fault] == [CABLE, "spine1:1>leaf1:1"]
    fullest = max(link.planned_utilisation for link in topology.values())
    assert fullest == driver.state.certificate.max_link_utilisation == 10**9 / left
    (flow, *_) = [flow for flow in driver.state.jobs["a"].flows.flows if CABLE in flow.links]
    text = explain(driver.state, flow.flow_id).text
    assert f"Cable {CABLE} is bad: it loses 0.1 of its frames and has 90% of its rate: " in text
    assert "clean or replace the optics of leaf1:1 and spine1:1, or the cable; kept at what it has left" in text


def test_a_cable_that_no_job_needs_is_left_out_and_its_flows_leave_first():
    driver = running(spines=4)
    bad(driver, loss=0.2)
    later(driver)
    assert driver.state.left_out == {CABLE}
    assert CABLE in driver.state.out_of_use.down_cables
    assert CABLE not in used(driver)
    assert driver.state.jobs["a"].state == "running"
    assert driver.state.certificate.max_link_utilisation == 1.0
    assert "left out of plans: the running jobs lose nothing by it" in texts(driver)[-1]
    assert driver.differing() == []


def test_a_cable_that_gets_worse_stays_left_out():
    driver = running(spines=4)
    bad(driver, loss=0.2)
    later(driver)
    bad(driver, loss=0.9)
    assert driver.state.left_out == {CABLE}
    later(driver)
    assert driver.state.left_out == {CABLE}
    assert CABLE not in used(driver)


def test_a_repaired_cable_is_used_again():
    for spines, share in ((2, 0.8), (4, 0.1)):
        driver = running(spines=spines)
        bad(driver, rate_share=share)
        later(driver)
        repaired(driver)
        assert driver.state.bad_cables == {}
        assert driver.state.out_of_use.whole
        assert driver.state.jobs["a"].state == "running"
        assert driver.state.certificate.max_link_utilisation == 1.0
        assert texts(driver)[-1] == "repaired: its counters are sound, it has its rate again"
        assert driver.differing() == []


def test_a_cable_that_was_left_out_is_used_again_when_a_job_arrives_that_needs_it():
    driver = running(spines=4)
    bad(driver, rate_share=0.9)
    later(driver)
    assert driver.state.left_out == {CABLE}
    driver.feed(Submit(reply=2, request=shift_job("b")))
    assert driver.state.certificate.max_link_utilisation > 1.2
    later(driver, ms=1)
    assert driver.state.left_out == {CABLE}  # a decision a while
    later(driver)
    assert driver.state.left_out == frozenset()
    assert driver.state.certificate.max_link_utilisation < 1.2
    assert any(text.startswith("used again: the fullest link goes from ") for text in texts(driver))
    driver.feed(Release(reply=3, job_id="b"))
    later(driver)
    assert driver.state.left_out == {CABLE}
    assert driver.differing() == []


def test_a_journal_of_before_bad_cables_were_kept_plans_jobs_again_that_were_planned_with_one():
    """What telemetry said of the cable is not known; one that was repaired meanwhile must not cost a job its rate."""
    driver = running(is_journaled=True)
    bad(driver, rate_share=0.8)
    written = [effect.values for effect in driver.effects if isinstance(effect, Persist)]
    assert {("bad_cable", CABLE): 800_000_000}.items() <= {k: v for each in written for k, v in each.items()}.items()
    values: dict[str, dict[str, Any]] = {"job": {"a": driver.state.jobs["a"]}, "bad_cable": {CABLE: 800_000_000}}
    state = restored(begin(driver.fabric), values, driver.now)
    assert [work.cause for work in state.queue if isinstance(work, ReplanWork)] == [Cause.RECOVERY]
    assert restored(begin(driver.fabric), {"job": values["job"]}, driver.now).queue == ()
    driver.state = state
    driver.connect_all()
    assert driver.state.jobs["a"].state == "running"
    assert {flow.rate_bps for flow in driver.state.jobs["a"].flows.flows} == {10**9}


@pytest.mark.parametrize("spines", [2, 4])
def test_a_restart_keeps_bad_cables_as_they_were_and_plans_nothing_again(spines):
    driver = running(spines=spines, is_journaled=True)
    bad(driver, loss=0.2)
    later(driver)
    values: dict[str, dict[str, Any]] = {}
    for each in (effect for effect in driver.effects if isinstance(effect, Persist)):
        for (kind, name), value in each.values.items():
            values.setdefault(kind, {})[name] = value
    before = driver.state
    again = restored(begin(driver.fabric, before.settings), values, driver.now)
    assert again.degraded == before.degraded
    assert again.left_out == before.left_out == (set() if spines == 2 else {CABLE})
    assert again.out_of_use == before.out_of_use == again.compiled_for
    assert again.queue == ()
    assert {name: each.found for name, each in again.bad_cables.items()} == {CABLE: before.bad_cables[CABLE].found}
    driver.state = again
    driver.connect_all()
    later(driver)
    assert driver.state.left_out == before.left_out
    repaired(driver)
    assert driver.state.out_of_use.whole
    assert driver.differing() == []


def test_where_telemetry_raises_alarms_only_a_restart_forgets_bad_cables_and_plans_again():
    driver = running(is_journaled=True)
    bad(driver, rate_share=0.8)
    known = KnownBadCable(found=driver.state.bad_cables[CABLE].found, left_out=True)
    values: dict[str, dict[str, Any]] = {
        "job": {"a": driver.state.jobs["a"]}, "bad_cable": {CABLE: 800_000_000}, "known_bad_cable": {CABLE: known},
    }  # fmt: skip
    again = restored(begin(driver.fabric, Settings(acts_on_telemetry=False)), values, driver.now)
    assert (again.bad_cables, again.left_out) == ({}, frozenset())
    assert [work.cause for work in again.queue if isinstance(work, ReplanWork)] == [Cause.RECOVERY]
    values["known_bad_cable"] = {"leaf9:1>spine1:9": known}
    assert restored(begin(driver.fabric), values, driver.now).bad_cables == {}, "the file has no such cable any more"


def test_the_same_finding_plans_nothing_again_and_a_much_worse_one_does():
    driver = running()
    bad(driver, rate_share=0.8)
    later(driver)
    generation, notes = driver.state.jobs["a"].generation, len(driver.notes)
    bad(driver, rate_share=0.79)
    later(driver)
    assert (driver.state.jobs["a"].generation, len(driver.notes)) == (generation, notes)
    assert driver.state.bad_cables[CABLE].found.rate_share == 0.79
    bad(driver, rate_share=0.5)
    assert driver.state.jobs["a"].generation > generation


@pytest.mark.parametrize(("loss", "rate_share"), [(1.0, 1.0), (0.0, 0.0), (float("inf"), -1.0), (-1.0, 5.0)])
def test_a_rate_of_zero_or_of_nonsense_is_a_valid_state(loss, rate_share):
    driver = running(spines=4)
    bad(driver, loss=loss, rate_share=rate_share)
    later(driver)
    assert driver.state.jobs["a"].state == "running"
    assert driver.state.certificate.max_link_utilisation == 1.0
    repaired(driver)
    assert driver.differing() == []


def test_unknown_cables_and_those_beyond_the_limit_are_left_as_they_are():
    driver = running()
    ghosts = tuple(JudgedCable(cable=f"ghost{n}:1>spine1:9", loss=0.5) for n in range(MAX_BAD_CABLES))
    driver.feed(CablesJudged(cables=(*ghosts, JudgedCable(cable=CABLE, loss=0.5))))
    assert driver.state.bad_cables == {}


def test_where_telemetry_raises_alarms_only_the_cable_is_named_and_nothing_is_planned():
    driver = running(spines=4, acts_on_telemetry=False)
    before = driver.state.jobs["a"]
    bad(driver, loss=0.2)
    later(driver)
    assert driver.state.jobs["a"] is before
    assert driver.state.degraded == {}
    assert driver.state.left_out == frozenset()
    assert len(texts(driver)) == 1


def test_a_bad_cable_that_goes_down_and_an_operators_drain_are_independent_of_the_rule():
    driver = running(spines=4)
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    bad(driver, loss=0.2)
    later(driver)
    assert driver.state.left_out == frozenset()  # it is out of use already
    driver.port_up("leaf1", 1)
    later(driver)
    assert driver.state.left_out == {CABLE}
    driver.feed(Drain(reply=5, target=CABLE, undrain=False, dry_run=False))
    repaired(driver)
    assert driver.state.out_of_use.down_cables == {CABLE}
    assert driver.differing() == []


def test_goodput_is_that_of_go_back_n_with_the_packets_in_flight():
    assert goodput_share(1e-4, 400e9) == pytest.approx(1 / (1 + 1e-4 * 122.07), rel=1e-4)
    assert goodput_share(1e-3, 400e9) == pytest.approx(0.891, abs=1e-3)
    assert goodput_share(0.0, 400e9) == 1.0
    assert goodput_share(0.5, 20e6) == pytest.approx(1 / 1.5)
    assert left_bps(400 * 10**9, 1e-3, 0.5) == pytest.approx(200e9 / (1 + 1e-3 * 61.04), rel=1e-4)


def signal(kind, port, value, *, stale=False) -> Signal:
    return Signal(
        kind=kind, port=port, priority=None, raised=True, value=value, threshold=0.1, since_unix_ns=1,
        sampled_unix_ns=2, stale=stale,
    )  # fmt: skip


def test_conditions_at_both_ends_are_one_cable_the_worst_first_and_nics_are_none():
    fabric = small_fabric()
    found = judged_cables(
        fabric,
        [
            signal(SignalKind.LOSS, "leaf1:1", 1.23e-3),
            signal(SignalKind.LOSS, "spine1:1", 4.4e-4, stale=True),
            signal(SignalKind.SLOW, "leaf1:1", 0.2501),
            signal(SignalKind.LOSS, "leaf2:2", 0.02),
            signal(SignalKind.LOSS, "leaf1:3", 0.5),
            signal(SignalKind.LOSS, "h1-n0", 0.5),
            signal(SignalKind.DROP, "leaf3:1", 9.0),
        ],
    )
    assert found.cables == (
        JudgedCable(cable="leaf2:2>spine2:2", loss=0.02, ports=("leaf2:2",), lossy=("leaf2:2",)),
        JudgedCable(
            cable=CABLE, loss=1e-3, rate_share=0.25, ports=("leaf1:1", "spine1:1"), lossy=("leaf1:1", "spine1:1"),
            slow=("leaf1:1",),
        ),
    )  # fmt: skip


def test_what_probes_show_lowers_a_cable_also_where_telemetry_may_not_move_flows():
    driver = running(acts_on_telemetry=False)
    bad(driver, rate_share=0.5)
    assert driver.state.degraded == {}
    assert min(flow.rate_bps for flow in driver.state.jobs["a"].flows.flows) == 10**9
    found = JudgedCable(cable=CABLE, loss=0.02, probed=("spine1:1>leaf1:1",))
    driver.feed(CablesJudged(cables=(found,)))
    assert driver.state.degraded == {CABLE: left_bps(10**9, 0.02, 1.0)}
    assert min(flow.rate_bps for flow in driver.state.jobs["a"].flows.flows) < 10**9
    later(driver)
    assert driver.state.bad_cables[CABLE].verdict.startswith("kept at what it has left")
    assert "loses 0.02 of its probes over spine1:1>leaf1:1: " in texts(driver)[1]
    repaired(driver)
    assert texts(driver)[-1] == "repaired: its probes are sound, it has its rate again"
    assert min(flow.rate_bps for flow in driver.state.jobs["a"].flows.flows) == 10**9


def test_of_a_cable_that_several_sources_judge_the_worse_counts():
    counters = (
        JudgedCable(cable=CABLE, loss=1e-3, rate_share=0.5, ports=("leaf1:1",)),
        JudgedCable(cable="b", loss=0.5),
    )
    probes = (JudgedCable(cable=CABLE, loss=0.02, probed=("spine1:1>leaf1:1",)), JudgedCable(cable="c", loss=0.1))
    together = JudgedCable(
        cable=CABLE, loss=0.02, rate_share=0.5, ports=("leaf1:1",), probed=("spine1:1>leaf1:1",)
    )  # fmt: skip
    found = judged_by_all([counters, probes]).cables
    assert found == (counters[1], probes[1], together) == judged_by_all([probes, counters]).cables

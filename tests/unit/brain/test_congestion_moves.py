"""Flows leave a link that unplanned traffic congests, at most once per pause, and return where that does harm."""

from dataclasses import replace
from itertools import pairwise

import pytest

from heddle.controller.brain.settings import Settings
from heddle.controller.model.effect import Announce, Install, Solve
from heddle.controller.model.event import Congested, FlowsOfJob, HotLink, PortStatus, Solved, Submit, Tick
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, Steering
from heddle.controller.model.moves import DEFAULT_MOVES, NO_MOVES, Cause
from heddle.controller.model.plan import FlowPlan, Infeasible
from tests.unit.brain.driver import Driver, shift_job, small_fabric

PERIOD_MS, PAUSE_MS = 200, 2_000


def started(spines: int, *, acts: bool = True, steering: Steering = Steering.SOURCE_PORT) -> tuple[Driver, str]:
    """Return a driver with one job that leaves a spine unused if there are three, and a link of the job."""
    settings = Settings(period_ms=PERIOD_MS, congestion_pause_ms=PAUSE_MS, acts_on_telemetry=acts)
    driver = Driver(small_fabric(spines=spines), settings)
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("a", steering=steering)))
    link = next(link for link in driver.state.jobs["a"].flows.link_loads_bps if link.startswith("leaf1:"))
    return driver, link


def hot(link: str, measured_bps: int = 1_900_000_000, planned_bps: int = 10**9) -> Congested:
    there = HotLink(
        port=link.split(">")[0], link=link, priority=3, measured_bps=measured_bps, planned_bps=planned_bps,
        excess_bps=max(0, measured_bps - planned_bps), senders=1, jobs=(FlowsOfJob("a", 1, ("a/0/0-2/0",)),),
    )  # fmt: skip
    return Congested(hot=(there,), over=(("h7-n0", 10**9),))


def period(driver: Driver, event: Congested, periods: int = 1) -> None:
    for _ in range(periods):
        driver.now += PERIOD_MS
        driver.feed(event)


@pytest.mark.parametrize("steering", Steering)
def test_planned_flows_leave_a_link_that_unplanned_traffic_congests(steering):
    driver, link = started(3, steering=steering)
    period(driver, hot(link))
    job = driver.state.jobs["a"]
    assert all(link not in flow.links for flow in job.flows.flows)
    assert job.generation == 2
    assert "NICs that send more than planned: h7-n0 (1000.0 Mbit/s)" in job.reason
    assert driver.announced[-1] == job.as_plan(driver.state.certificate)
    assert job.state == "running"


def test_nothing_moves_where_no_other_path_has_room_and_the_cause_is_named():
    driver, link = started(2)
    period(driver, hot(link))
    assert driver.state.jobs["a"].generation == 1
    assert [note.text for note in driver.notes if note.subject == link.split(">")[0]] == [
        "congested: 1900.0 Mbit/s, of which 1000.0 planned; NICs that send more than planned: h7-n0 (1000.0 Mbit/s)"
        "; planned flows there: 1 of job a (a/0/0-2/0)",
        "no other path has room: nothing is moved",
    ]


def test_a_flow_does_not_leave_for_a_path_where_it_is_slower_once_the_hog_has_gone():
    driver = Driver(small_fabric(), Settings(period_ms=PERIOD_MS, congestion_pause_ms=PAUSE_MS))
    driver.connect_all()
    for job_id, ranks, rate_bps in (("a", ("h1-n0", "h3-n0"), 10**9), ("b", ("h2-n0", "h5-n0"), 5 * 10**8)):
        flow = FlowDemand(src_rank=0, dst_rank=1, rate_bps=rate_bps)
        one = Collective(kind=CollectiveKind.CUSTOM, flows=(flow,))
        driver.feed(Submit(reply=1, request=JobRequest(job_id=job_id, ranks=ranks, collectives=(one,))))
    link = driver.state.jobs["a"].flows.flows[0].links[1]
    assert link not in driver.state.jobs["b"].flows.flows[0].links
    period(driver, hot(link))
    assert driver.state.jobs["a"].generation == 1
    assert driver.notes[-1].text == "no other path has room: nothing is moved"


def test_a_link_that_carries_what_is_planned_moves_nothing():
    driver, link = started(3)
    period(driver, hot(link, measured_bps=1_010_000_000))
    assert driver.state.jobs["a"].generation == 1
    assert "no unplanned traffic, nothing to move" in driver.notes[-1].text


def test_telemetry_that_cannot_be_trusted_raises_alarms_only():
    driver, link = started(3, acts=False)
    period(driver, hot(link))
    assert driver.state.jobs["a"].generation == 1
    assert "h7-n0" in driver.notes[-1].text
    driver.feed(Submit(reply=2, request=shift_job("b", by=4)))
    assert not solves(driver)[-1].background


def solves(driver: Driver) -> list[Solve]:
    return [effect for effect in driver.effects if isinstance(effect, Solve)]


def texts(driver: Driver, port: str) -> list[str]:
    return [note.text for note in driver.notes if note.subject == port]


def test_where_no_flow_may_move_for_congestion_the_log_says_so():
    driver, link = started(3)
    settings = replace(driver.state.settings, moves={**DEFAULT_MOVES, Cause.CONGESTION: NO_MOVES})
    driver.state = replace(driver.state, settings=settings)
    period(driver, hot(link))
    assert driver.notes[-1].text == "the limit for congestion is none: nothing is moved"


def test_where_planning_fails_the_log_says_so_and_not_that_no_path_has_room():
    driver, link = started(3)
    driver.hold = (Solve,)
    period(driver, hot(link))
    driver.feed(Solved(token=solves(driver)[-1].token, outcome=Infeasible(why="the test fails it"), solve_ns=1))
    assert len(texts(driver, link.partition(">")[0])) == 1
    assert driver.notes[-1].text.endswith("but plans stay: the test fails it")


def uplinks_of_leaf1(driver: Driver) -> list[str]:
    return [
        link for link in driver.state.jobs["a"].flows.link_loads_bps if link.startswith("leaf1:") and "spine" in link
    ]


def test_a_plan_that_a_failure_makes_void_says_nothing_about_room_and_its_successor_watches_the_new_links():
    driver, link = started(4)
    driver.hold = (Solve,)
    period(driver, hot(link))
    driver.feed(PortStatus(switch="leaf3", port=1, up=False))
    driver.release_held()
    port = link.partition(">")[0]
    assert all(link not in flow.links for flow in driver.state.jobs["a"].flows.flows)
    assert not [text for text in texts(driver, port) if "no other path" in text]
    assert driver.state.hot_ports[port].watched


def test_two_ports_that_one_plan_relieves_are_both_watched():
    driver, _ = started(4)
    links = uplinks_of_leaf1(driver)
    assert len(links) == 2
    both = Congested(hot=tuple(each for link in links for each in hot(link).hot), over=(("h7-n0", 10**9),))
    period(driver, both)
    assert all(link not in flow.links for flow in driver.state.jobs["a"].flows.flows for link in links)
    watched = [driver.state.hot_ports[link.partition(">")[0]].watched for link in links]
    assert watched[0] == watched[1] != frozenset()


def test_the_log_names_the_planned_flows_of_a_hot_port_job_by_job():
    driver, link = started(2)
    jobs = tuple(FlowsOfJob(f"j{n}", n, (f"j{n}/0/0-1/0",)) for n in range(1, 7))
    (only,) = hot(link).hot
    period(driver, Congested(hot=(replace(only, jobs=jobs),)))
    assert texts(driver, only.port)[0].endswith(
        "planned flows there: 1 of job j1 (j1/0/0-1/0), 2 of job j2 (j2/0/0-1/0, ...), 3 of job j3 (j3/0/0-1/0, ...), "
        "4 of job j4 (j4/0/0-1/0, ...) and of 2 more jobs"
    )


@pytest.mark.parametrize(("count", "end"), [(4, "(j4/0/0-1/0)"), (5, "(j4/0/0-1/0) and of 1 more jobs")])
def test_the_log_names_four_jobs_of_a_hot_port(count, end):
    driver, link = started(2)
    jobs = tuple(FlowsOfJob(f"j{n}", 1, (f"j{n}/0/0-1/0",)) for n in range(1, count + 1))
    (only,) = hot(link).hot
    period(driver, Congested(hot=(replace(only, jobs=jobs),)))
    assert texts(driver, only.port)[0].endswith(end)


def test_a_hog_that_is_still_there_is_remembered_and_one_that_has_left_is_forgotten():
    driver, link = started(3)
    period(driver, hot(link))
    (alone,) = hot(link, measured_bps=9 * 10**8, planned_bps=0).hot
    period(driver, Congested(hot=(), calm=(alone,)), 50)
    assert driver.state.hot_ports[alone.port].excess_bps == 9 * 10**8
    period(driver, Congested(hot=(), calm=(replace(alone, measured_bps=0, excess_bps=0),)), 50)
    assert not driver.state.hot_ports


def test_stale_telemetry_moves_nothing_and_says_so():
    driver, link = started(2)
    period(driver, hot(link))
    solves = sum(isinstance(effect, Solve) for effect in driver.effects)
    driver.now += PAUSE_MS * 2
    driver.feed(Congested(hot=(), stale=(link.split(">")[0],)))
    assert driver.notes[-1].text == "its telemetry is stale: no action"
    assert sum(isinstance(effect, Solve) for effect in driver.effects) == solves


def test_flows_return_where_their_new_link_becomes_congested():
    driver, link = started(3)
    before = list(driver.state.jobs["a"].flows.flows)
    period(driver, hot(link))
    moved = driver.state.jobs["a"].flows.link_loads_bps
    taken = next(new for new in moved if new.startswith("leaf1:") and new not in {x for f in before for x in f.links})
    period(driver, hot(taken))
    job = driver.state.jobs["a"]
    assert [flow.links for flow in job.flows.flows] == [flow.links for flow in before]
    assert job.reason.startswith("rolled back: ")
    assert job.generation == 3


def test_pinned_flows_that_return_get_their_rates_once_switches_hold_the_pins():
    driver, link = started(3, steering=Steering.PIN)
    before = list(driver.state.jobs["a"].flows.flows)
    period(driver, hot(link))
    done = len(driver.effects)
    period(driver, hot(new_uplink(driver, before)))
    steps = [type(effect) for effect in driver.effects[done:] if isinstance(effect, Install | Announce)]
    assert steps[:2] == [Install, Announce]
    assert driver.announced[-1].reason.startswith("rolled back: ")


def test_pinned_flows_stay_with_their_rates_where_a_switch_refuses_the_pins_of_their_return():
    driver, link = started(3, steering=Steering.PIN)
    before = list(driver.state.jobs["a"].flows.flows)
    period(driver, hot(link))
    moved, taken = list(driver.state.jobs["a"].flows.flows), new_uplink(driver, before)
    done = len(driver.announced)
    driver.refuse = {"leaf1"}
    period(driver, hot(taken))
    driver.refuse = set()
    assert list(driver.state.jobs["a"].flows.flows) == moved
    assert not any(plan.reason.startswith("rolled back: ") for plan in driver.announced[done:])
    driver.now += 60_000
    driver.feed(Tick())
    assert driver.differing() == []


def test_the_return_of_flows_is_a_decision_that_explain_names():
    driver, link = started(3)
    before = list(driver.state.jobs["a"].flows.flows)
    period(driver, hot(link))
    moved = {flow.flow_id: flow.links for flow in driver.state.jobs["a"].flows.flows}
    period(driver, hot(new_uplink(driver, before)))
    there, back = (record.moved for record in driver.state.moves)
    assert back.flows == there.flows
    assert dict(back.old_links) == {flow_id: moved[flow_id] for flow_id in there.old_links}


def test_flows_that_have_left_a_port_do_not_move_again_in_its_pause():
    driver, link = started(4)
    before = list(driver.state.jobs["a"].flows.flows)
    period(driver, hot(link))
    taken = new_uplink(driver, before)
    period(driver, Congested(hot=()), 8)  # the new links are not watched any more
    moved = driver.state.jobs["a"].flows.flows
    period(driver, hot(taken))
    assert driver.state.jobs["a"].flows.flows is moved
    assert "h7-n0" in texts(driver, taken.partition(">")[0])[-1]
    driver.now += PAUSE_MS
    period(driver, hot(taken))
    assert all(taken not in flow.links for flow in driver.state.jobs["a"].flows.flows)


def new_uplink(driver: Driver, before: list[FlowPlan]) -> str:
    """Return a link of leaf1 that flows take now, and did not take before."""
    old = {link for flow in before for link in flow.links}
    now = driver.state.jobs["a"].flows.link_loads_bps
    return next(link for link in now if link.startswith("leaf1:") and link not in old)


def test_flows_do_not_return_to_a_link_that_has_failed_since():
    driver, link = started(3)
    before = list(driver.state.jobs["a"].flows.flows)
    period(driver, hot(link))
    driver.feed(PortStatus(switch="leaf1", port=int(link.partition(">")[0].partition(":")[2]), up=False))
    period(driver, hot(new_uplink(driver, before)))
    assert all(link not in flow.links for flow in driver.state.jobs["a"].flows.flows)


def test_rates_are_computed_again_when_flows_return():
    driver, link = started(3)
    before = list(driver.state.jobs["a"].flows.flows)
    period(driver, hot(link))
    solves = sum(isinstance(effect, Solve) for effect in driver.effects)
    period(driver, hot(new_uplink(driver, before)))
    again = [effect for effect in driver.effects if isinstance(effect, Solve)][solves:]
    assert [effect.limit for effect in again] == [NO_MOVES]


def test_flows_return_only_after_the_plan_that_is_under_way():
    driver, link = started(3)
    before = list(driver.state.jobs["a"].flows.flows)
    period(driver, hot(link))
    moved = driver.state.jobs["a"].flows.flows
    driver.hold = (Solve,)
    driver.feed(Submit(reply=2, request=shift_job("b", by=4)))
    period(driver, hot(new_uplink(driver, before)))
    assert driver.state.jobs["a"].flows.flows is moved


@pytest.mark.parametrize("periods_on", [1, 2, 5])
def test_a_hog_that_switches_on_and_off_moves_flows_at_most_once_per_pause(periods_on):
    driver, link = started(3)
    times = [driver.now]
    generation = 1
    for _ in range(100):
        period(driver, hot(link), periods_on)
        period(driver, Congested(hot=()), periods_on)
        if driver.state.jobs["a"].generation != generation:
            generation = driver.state.jobs["a"].generation
            times.append(driver.now)
    assert len(times) > 1
    assert all(later - earlier >= PAUSE_MS for earlier, later in pairwise(times[1:]))


def test_a_port_that_stays_hot_in_its_pause_is_known_by_its_name_and_counted_once():
    driver, link = started(3)
    port = link.partition(">")[0]
    period(driver, hot(link), 3)
    assert set(driver.state.hot_ports) == {port}
    known = driver.state.hot_ports[port]
    assert (known.seen_unix_ms, known.decisions, known.stale) == (driver.now, 1, False)


def test_that_telemetry_is_stale_is_said_once_until_it_is_fresh_again():
    driver, link = started(2)
    port = link.partition(">")[0]
    period(driver, hot(link))
    for _ in range(2):
        period(driver, Congested(hot=(), over=(), stale=(port,)), 3)
        period(driver, hot(link))
    assert texts(driver, port).count("its telemetry is stale: no action") == 2


def test_after_the_check_of_a_move_nothing_is_kept_of_the_jobs_as_they_were():
    driver, link = started(3)
    port = link.partition(">")[0]
    period(driver, hot(link))
    assert set(driver.state.hot_ports[port].before) == {"a"}
    period(driver, hot(link, measured_bps=10**9), 2 * PAUSE_MS // PERIOD_MS)
    known = driver.state.hot_ports[port]
    assert (known.check_unix_ms, known.before) == (None, {})

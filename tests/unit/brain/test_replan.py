from dataclasses import replace

import pytest

from heddle.controller.brain.state import PlanWork, ReplanWork
from heddle.controller.brain.transactions.replan import after_replans
from heddle.controller.model.effect import Solve
from heddle.controller.model.error import UnavailableError
from heddle.controller.model.event import PortStatus, Release, Solved, Submit, Tick
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, Steering
from heddle.controller.model.moves import Cause
from heddle.controller.model.plan import JobPlan
from tests.unit.brain.driver import Driver, shift_job, small_fabric


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric())
    found.connect_all()
    return found


def into_h5(job_id: str, source: str, lease_ms: int = 0, steering: Steering = Steering.SOURCE_PORT) -> JobRequest:
    """A job that sends at line rate from one NIC into the NIC that all such jobs share."""
    one = Collective(kind=CollectiveKind.CUSTOM, flows=(FlowDemand(src_rank=0, dst_rank=1),))
    return JobRequest(job_id=job_id, ranks=(source, "h5-n0"), collectives=(one,), lease_ms=lease_ms, steering=steering)


def rates(driver: Driver) -> dict[str, int]:
    return {job_id: job.flows.flows[0].rate_bps for job_id, job in driver.state.jobs.items()}


def test_an_arriving_job_takes_its_share_of_the_rates_and_running_jobs_are_announced(driver):
    driver.feed(Submit(reply=1, request=into_h5("a", "h1-n0")))
    driver.feed(Submit(reply=2, request=into_h5("b", "h3-n0")))
    assert rates(driver) == {"a": 475_000_000, "b": 475_000_000}
    changed = driver.announced[-2]
    why, shared = changed.reason.split("; ")
    assert (changed.job_id, changed.generation, why) == ("a", 2, "job b arrived")
    assert shared == "sends into h5-n0 beside other jobs, at 475 Mbit/s"
    assert changed.flows.flows[0].rate_bps == 475_000_000


def test_a_leaving_job_returns_its_share_of_the_rates_and_the_others_are_announced(driver):
    driver.feed(Submit(reply=1, request=into_h5("a", "h1-n0")))
    before = driver.announced[-1].certificate
    driver.feed(Submit(reply=2, request=into_h5("b", "h3-n0")))
    driver.feed(Release(reply=3, job_id="b"))
    assert rates(driver) == {"a": 10**9}
    changed = driver.announced[-1]
    assert (changed.job_id, changed.generation, changed.reason) == ("a", 3, "job b released")
    assert (changed.certificate.mean_share, before.mean_share) == (1.0, 1.0)


def test_a_lease_that_ends_leaves_its_share_to_the_others_too(driver):
    driver.feed(Submit(reply=1, request=into_h5("a", "h1-n0")))
    driver.feed(Submit(reply=2, request=into_h5("b", "h3-n0", lease_ms=1_000)))
    driver.now += 2_000
    driver.feed(Tick())
    assert rates(driver) == {"a": 10**9}


def test_a_job_whose_rates_stay_keeps_its_generation(driver):
    driver.feed(Submit(reply=1, request=into_h5("a", "h1-n0")))
    other = into_h5("b", "h4-n0")
    driver.feed(
        Submit(reply=2, request=JobRequest(job_id="b", ranks=("h4-n0", "h7-n0"), collectives=other.collectives))
    )
    driver.feed(Release(reply=3, job_id="b"))
    assert driver.state.jobs["a"].generation == 1
    assert [plan.job_id for plan in driver.announced] == ["a", "b", "b"]


def test_a_job_that_a_switch_refuses_takes_nothing_from_those_that_run(driver):
    driver.feed(Submit(reply=1, request=into_h5("a", "h1-n0")))
    before = driver.state.jobs["a"]
    driver.refuse = {"leaf2"}
    driver.feed(Submit(reply=2, request=into_h5("b", "h3-n0")))
    assert driver.state.jobs == {"a": before}


def test_the_certificate_after_a_refused_job_is_that_of_the_jobs_that_run(driver):
    driver.feed(Submit(reply=1, request=into_h5("a", "h1-n0")))
    before = driver.state.certificate
    driver.refuse = {"leaf2"}
    driver.feed(Submit(reply=2, request=into_h5("b", "h3-n0")))
    assert driver.state.certificate == before


def test_a_nic_out_of_use_keeps_no_other_flow_from_a_new_path(driver):
    driver.feed(Submit(reply=1, request=shift_job("a", steering=Steering.SOURCE_PORT)))
    for port in (1, 2):
        driver.feed(PortStatus(switch="leaf1", port=port, up=False))
    driver.feed(PortStatus(switch="leaf4", port=3, up=False))
    driver.port_up("leaf1", 1)
    job = driver.state.jobs["a"]
    dead = [flow.flow_id for flow in job.flows.flows if "h7-n0" in (flow.src_nic, flow.dst_nic)]
    assert job.stranded == len(dead)
    gone = {"leaf1:2>spine2:1", "spine2:1>leaf1:2"}
    assert [flow for flow in job.flows.flows if flow.flow_id not in dead and gone & set(flow.links)] == []


def test_a_waiting_submission_goes_before_a_replan(driver):
    driver.feed(Submit(reply=1, request=into_h5("a", "h1-n0")))
    driver.feed(Submit(reply=2, request=into_h5("b", "h3-n0")))
    driver.hold = (Solve,)
    driver.feed(Submit(reply=3, request=into_h5("c", "h4-n0")))
    driver.feed(Release(reply=4, job_id="b"))
    driver.feed(Submit(reply=5, request=into_h5("d", "h7-n0")))
    driver.release_held()
    solved = [[request.job_id for request in effect.requests] for effect in driver.effects if isinstance(effect, Solve)]
    assert solved == [["a"], ["b"], ["c"], ["d"], []]
    assert len(set(rates(driver).values())) == 1


def test_rates_stay_where_the_planner_fails_and_the_reason_is_logged(driver):
    driver.feed(Submit(reply=1, request=into_h5("a", "h1-n0")))
    driver.feed(Submit(reply=2, request=into_h5("b", "h3-n0")))
    driver.hold = (Solve,)
    driver.feed(Release(reply=3, job_id="b"))
    (solve,) = driver.waiting
    assert isinstance(solve, Solve)
    driver.feed(Solved(token=solve.token, outcome=UnavailableError("the planner ended"), solve_ns=1))
    assert rates(driver) == {"a": 475_000_000}
    assert driver.notes[-1].text == "job b released, but plans stay: the planner ended"
    driver.waiting.clear()
    driver.hold = ()
    driver.feed(Submit(reply=4, request=into_h5("c", "h4-n0")))
    assert rates(driver) == {"a": 475_000_000, "c": 475_000_000}


def test_a_failure_is_planned_before_the_submissions_that_wait(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.hold = (Solve,)
    driver.feed(Submit(reply=2, request=shift_job("b", by=4)))
    driver.feed(Submit(reply=3, request=shift_job("c", by=6)))  # waits behind it
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    assert [request.job_id for request in driver.waiting[0].requests] == ["b"]
    assert [solve.requests for solve in driver.waiting[1:]] == [()]  # at once, and b is planned again after it
    assert driver.state.queue != ()
    driver.release_held()
    assert isinstance(driver.reply_to(2), JobPlan)
    assert all("leaf1:1" not in link for flow in driver.state.jobs["b"].flows.flows for link in flow.links)


def test_a_replan_that_starts_again_joins_the_one_that_waits_and_nothing_else_in_the_queue_is_lost(driver):
    waits, submitted = ReplanWork(cause=Cause.RELEASE, reason="a left", ports=("p",)), PlanWork(submissions=())
    again = ReplanWork(cause=Cause.FAILURE, reason="a link failed", ports=("q",), suspects=frozenset({"leaf1"}))
    queued = replace(driver.state, queue=(waits, submitted))
    assert after_replans(queued, again) == (replace(waits, ports=("p", "q"), suspects=again.suspects), submitted)
    assert after_replans(queued, submitted) == (waits, submitted, submitted)

"""Every reply about an admitted job is a valid message, whatever numbers its request has."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from heddle.controller.api.requests import read_job
from heddle.controller.api.translate import pages_of, plan_to, plans_to, request_from, request_to
from heddle.controller.brain.settings import Settings
from heddle.controller.model.event import Submit
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, Incast, JobRequest, RankPair, Steering
from heddle.controller.model.limit import (
    HIGHEST_FIXED_PORT,
    LOWEST_FIXED_PORT,
    MAX_GPU_MILLI,
    MAX_LEASE_MS,
    MAX_NIC_BPS,
    MAX_PRIORITY,
    MAX_QPS_PER_FLOW,
)
from heddle.controller.model.plan import JobPlan
from heddle.testing.plans.contract_flows import LISTED
from heddle.v1 import heddle_pb2 as pb
from tests.support.examples import examples
from tests.unit.brain.driver import Driver, shift_job, small_fabric

RANKS = 8
FABRIC = small_fabric()
UINT32, UINT64 = 2**32 - 1, 2**64 - 1


def edges(low: int, high: int):
    """Numbers of a range, its ends more often than others."""
    return st.sampled_from((low, high)) | st.integers(low, high)


ENDS = st.tuples(st.integers(0, RANKS - 1), st.integers(1, RANKS - 1)).map(lambda two: (two[0], sum(two) % RANKS))
PAIRS = st.lists(ENDS.map(lambda two: RankPair(*two)), min_size=1, max_size=4).map(tuple)
PORTS = st.just(0) | edges(LOWEST_FIXED_PORT, HIGHEST_FIXED_PORT)
FLOWS = st.lists(
    st.builds(lambda ends, rate, port: FlowDemand(ends[0], ends[1], rate, port), ENDS, edges(0, MAX_NIC_BPS), PORTS),
    min_size=1,
    max_size=4,
).map(tuple)
PHASES = edges(0, UINT32)
LISTLESS = [kind for kind in CollectiveKind if kind.name not in LISTED]
COLLECTIVES = (
    st.builds(
        Collective, kind=st.sampled_from(LISTLESS), size_bytes=edges(1, UINT64), root=st.integers(0, RANKS - 1),
        phase=PHASES, qps_per_flow=edges(1, MAX_QPS_PER_FLOW),
    )
    | st.builds(
        Collective, kind=st.just(CollectiveKind.SEND_RECV), size_bytes=edges(1, UINT64), pairs=PAIRS, phase=PHASES,
    )
    | st.builds(
        Collective, kind=st.just(CollectiveKind.CUSTOM), size_bytes=edges(0, UINT64), flows=FLOWS, phase=PHASES,
    )
)  # fmt: skip
JOBS = st.builds(
    JobRequest, job_id=st.just("a"), ranks=st.just(tuple(nic.id for nic in FABRIC.nics)),
    collectives=st.lists(COLLECTIVES, max_size=3).map(tuple), tenant=st.text(max_size=128).filter(str.isprintable),
    priority=edges(0, MAX_PRIORITY), lease_ms=edges(0, MAX_LEASE_MS), steering=st.sampled_from(Steering),
    gpu_milli=edges(0, MAX_GPU_MILLI), incast=st.sampled_from(Incast),
)  # fmt: skip
SLOWEST = Collective(kind=CollectiveKind.CUSTOM, size_bytes=UINT64, flows=(FlowDemand(0, 7, 1, 0),))


def published(plan: JobPlan) -> list[pb.JobPlan]:
    """Write every message about a plan, through bytes."""
    listed = pb.ListJobsReply(jobs=plans_to([plan]))
    pages = list(pages_of(plan.generation, plan.flows.flows))
    assert all(pb.FlowPlanPage.FromString(page.SerializeToString()) == page for page in pages)
    assert pb.ListJobsReply.FromString(listed.SerializeToString()) == listed
    return [pb.JobPlan.FromString(plan_to(plan).SerializeToString()), *listed.jobs]


@given(request=JOBS)
@example(request=JobRequest(job_id="a", ranks=("h1-n0",) * 7 + ("h8-n0",), collectives=(SLOWEST,)))
@settings(max_examples=examples(60))
def test_an_admitted_job_has_replies_that_protobuf_takes(request):
    driver = Driver(FABRIC, Settings(max_lease_ms=MAX_LEASE_MS), now=2**43)
    driver.connect_all()
    driver.feed(Submit(reply=1, request=read_job(request_to(request).SerializeToString(), FABRIC), checked=True))
    (outcome,) = driver.replies[1]
    if isinstance(outcome, JobPlan):  # else refused: a fixed port is taken twice
        driver.feed(Submit(reply=2, request=shift_job("b")))
        for plan in (outcome, *(job.as_plan(driver.state.certificate) for job in driver.state.jobs.values())):
            assert {message.job_id for message in published(plan)} == {plan.job_id}


@given(request=JOBS)
@settings(max_examples=examples(60))
def test_a_request_is_the_same_after_it_was_sent(request):
    assert request_from(pb.SubmitJobRequest.FromString(request_to(request).SerializeToString())) == request

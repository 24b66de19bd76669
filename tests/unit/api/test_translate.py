from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.api.translate import flow_to, plan_to, plans_to, request_from, request_to
from heddle.controller.model.error import InputError
from heddle.controller.model.job import (
    Algorithm,
    Collective,
    CollectiveKind,
    FlowDemand,
    Incast,
    JobRequest,
    RankPair,
    Steering,
)
from heddle.controller.model.job_state import JobState
from heddle.controller.model.plan import AdmissionWindow, Certificate, FlowPlan, JobFlows, JobPlan
from heddle.v1 import heddle_pb2 as pb

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
PAIRS = st.builds(RankPair, src_rank=U32, dst_rank=U32)
DEMANDS = st.builds(FlowDemand, src_rank=U32, dst_rank=U32, rate_bps=U64, udp_source_port=U32)
COLLECTIVES = st.builds(
    Collective,
    kind=st.sampled_from(CollectiveKind),
    size_bytes=U64,
    root=U32,
    pairs=st.lists(PAIRS, max_size=3).map(tuple),
    flows=st.lists(DEMANDS, max_size=3).map(tuple),
    qps_per_flow=st.integers(1, 2**32 - 1),
    members=st.lists(U32, max_size=3).map(tuple),
    phase=U32,
    algorithm=st.sampled_from(Algorithm),
    paths_per_flow=U32,
)
REQUESTS = st.builds(
    JobRequest,
    job_id=st.text(max_size=8),
    ranks=st.lists(st.text(max_size=8), max_size=3).map(tuple),
    collectives=st.lists(COLLECTIVES, max_size=3).map(tuple),
    tenant=st.text(max_size=8),
    priority=U32,
    lease_ms=U64,
    steering=st.sampled_from(Steering),
    require_utilisation=st.floats(allow_nan=False),
    gpu_milli=U32,
    incast=st.sampled_from(Incast),
    assumed=st.booleans(),
)


@given(REQUESTS)
def test_a_request_is_unchanged_after_encoding_and_decoding(request):
    assert request_from(type(request_to(request)).FromString(request_to(request).SerializeToString())) == request


def test_zero_queue_pairs_and_unspecified_steering_mean_the_defaults():
    message = request_to(JobRequest(job_id="a", ranks=(), collectives=()))
    message.ClearField("steering")
    message.collectives.add(kind=CollectiveKind.CUSTOM.name, qps_per_flow=0)
    request = request_from(message)
    assert request.steering is Steering.SOURCE_PORT
    assert request.collectives[0].qps_per_flow == 1


A_DEFAULT_CLIENT_TAKES_BYTES = 4 * 2**20


def plan_of(flows: int, job_id: str = "a", name: int = 5) -> JobPlan:
    links = (f"{'n' * name}>{'s' * name}:1", *[f"{'s' * name}:1>{'t' * name}:2"] * 4, f"{'s' * name}:9>{'n' * name}")
    one = FlowPlan(
        flow_id=f"{job_id}/0/0-1/0",
        src_nic="n" * name,
        dst_nic="n" * name,
        links=links,
        reverse_links=links,
        udp_source_port=50000,
        reverse_udp_source_port=50000,
        rate_bps=10**11,
        demand_bps=10**11,
        phase=0,
        src_rank=0,
        dst_rank=1,
        collective=0,
        queue_pair=0,
    )
    return JobPlan(
        job_id=job_id,
        tenant="t",
        priority=0,
        generation=1,
        state=JobState.RUNNING,
        reason="submitted",
        lease_expires_unix_ms=1,
        flows=JobFlows(job_id=job_id, flows=(one,) * flows, link_loads_bps={}, pinned=False),
        certificate=Certificate(),
    )


def test_ten_thousand_flows_fit_one_message():
    whole, more = plan_to(plan_of(10_000)), plan_to(plan_of(10_001))
    assert (len(whole.flows), whole.flows_truncated) == (10_000, False)
    assert (len(more.flows), more.flows_truncated) == (10_000, True)


def test_a_message_fits_a_client_that_knows_of_no_limits_however_long_the_names_are():
    written = plan_to(plan_of(10_000, job_id="j" * 128, name=63))
    assert A_DEFAULT_CLIENT_TAKES_BYTES / 2 < written.ByteSize() < A_DEFAULT_CLIENT_TAKES_BYTES
    assert written.flows_truncated


def test_a_list_of_jobs_fits_too_and_marks_jobs_whose_flows_are_left_out():
    written = plans_to([plan_of(9_000, "a", 30), plan_of(5_000, "b", 30), plan_of(0, "c")])
    assert pb.ListJobsReply(jobs=written).ByteSize() < A_DEFAULT_CLIENT_TAKES_BYTES
    assert [plan.job_id for plan in written] == ["a", "b", "c"]
    assert [plan.flows_truncated for plan in written] == [True, True, False]


def test_without_a_limit_all_flows_are_written():
    written = plan_to(plan_of(10_001), room=None)
    assert (len(written.flows), written.flows_truncated) == (10_001, False)


def test_an_unknown_kind_of_incast_sharing_is_refused():
    with pytest.raises(InputError, match="incast: 7"):
        request_from(pb.SubmitJobRequest(job_id="a", incast=7))  # type: ignore[arg-type]


def test_an_unknown_algorithm_is_refused():
    message = pb.SubmitJobRequest(job_id="a", collectives=[{"kind": "ALL_GATHER", "algorithm": 7}])
    with pytest.raises(InputError, match=r"collectives\[0\].algorithm: 7 is no algorithm; .* NCCL_NO_PXN"):
        request_from(message)


def test_a_window_is_written_where_there_is_one():
    (flow,) = plan_of(1).flows.flows
    windowed = flow_to(replace(flow, window=AdmissionWindow(slot=0, slots=3, slot_ns=100_000)))
    assert not flow_to(flow).HasField("window")
    assert (windowed.window.slot, windowed.window.slots, windowed.window.slot_ns) == (0, 3, 100_000)

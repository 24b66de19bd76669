from hypothesis import given
from hypothesis import strategies as st

from controller.api.translate import request_from, request_to
from controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, RankPair, Steering

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
)


@given(REQUESTS)
def test_a_request_survives_the_wire(request):
    assert request_from(type(request_to(request)).FromString(request_to(request).SerializeToString())) == request


def test_zero_queue_pairs_and_unspecified_steering_mean_the_defaults():
    message = request_to(JobRequest(job_id="a", ranks=(), collectives=()))
    message.ClearField("steering")
    message.collectives.add(kind=CollectiveKind.CUSTOM.name, qps_per_flow=0)
    request = request_from(message)
    assert request.steering is Steering.SOURCE_PORT
    assert request.collectives[0].qps_per_flow == 1

"""The count of flow plans and the NICs cut off equal those of a full enumeration."""

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config import parse_fabric
from heddle.controller.model.admission import flow_plans, problems
from heddle.controller.model.connectivity import cut_off
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, RankPair
from heddle.testing.plans.contract_flows import LISTED, flow_plan_count
from tests.oracles.reachable import reachable_pairs
from tests.support.examples import examples

RAILS = parse_fabric(
    "generate: {kind: rail_optimised, spines: 2, leaves: 4, nics_per_host: 2, hosts_per_leaf: 3}", "rails.yaml"
)
FABRICS = [
    RAILS,
    parse_fabric("generate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 1}", "two.yaml"),
    parse_fabric(
        "generate: {kind: clos3, spines: 4, leaves: 2, pods: 3, aggs_per_pod: 2, hosts_per_leaf: 1}", "three.yaml"
    ),
]


@st.composite
def collectives(draw, ranks):
    kind = draw(st.sampled_from(CollectiveKind))
    rank = st.integers(0, ranks - 1)
    ends = st.lists(st.tuples(rank, rank).filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=5)
    lists = LISTED.get(kind.name)
    if lists == "pairs":
        pairs = tuple(RankPair(src_rank=a, dst_rank=b) for a, b in draw(ends))
        return Collective(kind=kind, size_bytes=1, pairs=pairs, qps_per_flow=draw(st.integers(1, 16)))
    if lists == "flows":
        return Collective(kind=kind, flows=tuple(FlowDemand(src_rank=a, dst_rank=b) for a, b in draw(ends)))
    members = tuple(draw(st.lists(rank, unique=True, max_size=ranks)))
    root = draw(st.sampled_from(members)) if members else draw(rank)
    return Collective(kind=kind, size_bytes=1, members=members, root=root, qps_per_flow=draw(st.integers(1, 16)))


@given(st.data())
@settings(max_examples=examples(150))
def test_counted_flow_plans_are_those_enumerated(data):
    ranks = data.draw(st.lists(st.sampled_from([nic.id for nic in RAILS.nics]), min_size=2, max_size=12))
    chosen = tuple(data.draw(st.lists(collectives(len(ranks)), max_size=3)))
    request = JobRequest(job_id="a", ranks=tuple(ranks), collectives=chosen)
    assert problems(request, RAILS) == ()
    assert flow_plans(request, RAILS) == flow_plan_count(request, [RAILS.nic_by_id[name].host for name in ranks])


@given(st.sampled_from(FABRICS), st.data())
@settings(max_examples=examples(150))
def test_those_not_cut_off_reach_each_other_and_no_more_than_needed_are_cut_off(fabric, data):
    health = Health(
        down_cables=frozenset(data.draw(st.sets(st.sampled_from([cable.id for cable in fabric.cables]), max_size=8))),
        down_switches=frozenset(data.draw(st.sets(st.sampled_from([s.id for s in fabric.switches]), max_size=2))),
        down_nics=frozenset(data.draw(st.sets(st.sampled_from([nic.id for nic in fabric.nics]), max_size=1))),
    )
    joined = reachable_pairs(fabric, health)
    lost = {one.nic for one in cut_off(fabric, health)}
    left = [nic.id for nic in fabric.nics if nic.id not in lost]
    assert all((a, b) in joined for a in left for b in left if a != b)
    assert not left or all(any((a, b) not in joined for b in left) for a in lost)

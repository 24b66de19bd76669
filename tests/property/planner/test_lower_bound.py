"""The lower bound is below every plan, grows with the demand, and is sharp where an integral argument is."""

import json

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.proof.bound import lower_bound
from heddle.testing.plans.contract_network import Network
from tests.oracles.phased_plan import TooLarge, least_utilisation_in_phases
from tests.support.examples import examples
from tests.support.fabrics.planning import fabric_file, shapes

GBPS = 10**9
WIDTHS = st.lists(st.sampled_from([10, 10, 20, 40, 15]), min_size=1, max_size=3)
RATES = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 9, 10, 13]).map(lambda gbps: gbps * GBPS)


@st.composite
def fabrics(draw, most_failed=3):
    """A small fabric with links of up to three rates, and up to `most_failed` of them out of use."""
    data = fabric_file(**draw(shapes()), gbps=10)
    network, widths = Network(data), draw(WIDTHS)
    uplinks = sorted(link for link in network.switch_links if network.rises(link))
    ends = (link.split(">") for link in uplinks)
    data["links"] = [{"a": a, "b": b, "gbps": widths[i % len(widths)]} for i, (a, b) in enumerate(ends)]
    data["failed"] = draw(st.lists(st.sampled_from(uplinks), max_size=most_failed, unique=True))
    return data


def flow_lists(nics, most):
    """Lists of (job, phase, source NIC, target NIC, demand)."""
    ends = st.lists(st.integers(0, nics - 1), min_size=2, max_size=2, unique=True)
    flow = st.tuples(st.integers(0, 2), st.integers(0, 2), ends, RATES)
    return st.lists(flow, min_size=1, max_size=most).map(lambda drawn: [(j, p, *ab, d) for j, p, ab, d in drawn])


def bound_of(data, flows):
    fabric = parse_fabric(json.dumps(data), "fabric.yaml")
    topology = topology_of(fabric)
    job, phase, source, target, demand = np.array(sorted(flows), dtype=np.int64).reshape(-1, 5).T
    none = np.zeros(len(job), dtype=np.int64)
    rows = Flows(
        job=job, collective=none, src_rank=none, dst_rank=none, queue_pair=none, phase=phase, src_nic=source,
        dst_nic=target, demand_bps=demand, size_bytes=none.astype(np.float64), fixed_port=none,
        logical=np.arange(len(job)), pinned=none > 0, by_addresses=none > 0,
    )  # fmt: skip
    return lower_bound(topology, Live.of(topology, fabric.failed), rows)


def leaves_of(data):
    """The leaf of each NIC, in the fabric's order."""
    return [nic.port.switch for nic in parse_fabric(json.dumps(data), "fabric.yaml").nics]


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(100))
def test_more_flows_phases_or_jobs_or_larger_demands_never_lower_the_bound(data, fabric):
    nics = len(Network(fabric).nics)
    assume(nics > 1)
    more = data.draw(flow_lists(nics, 24))
    shares = data.draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 3]), min_size=len(more), max_size=len(more)))
    less = [(*flow[:4], flow[4] * share // 3) for flow, share in zip(more, shares, strict=True) if share]
    assert bound_of(fabric, less).value <= bound_of(fabric, more).value


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(40))
def test_no_choice_of_paths_is_below_the_bound(data, fabric):
    network = Network(fabric)
    assume(len(network.nics) > 1)
    flows, leaf = data.draw(flow_lists(len(network.nics), 9)), leaves_of(fabric)
    try:
        best = least_utilisation_in_phases(network, [(j, p, leaf[a], leaf[b], d) for j, p, a, b, d in flows])
    except TooLarge:
        best = None
    assume(best is not None)
    assert bound_of(fabric, flows).value <= float(best)

"""The search for the fewest slowed flows: no larger maximum, no more slowed flows, every path alive."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.segments import segments_of
from heddle.controller.planner.search.joint import Joint
from tests.support.examples import examples
from tests.support.fabrics.small_fabrics import clos3
from tests.unit.brain.driver import small_fabric

GBPS = 10**9
FABRICS = (small_fabric(2, 4, 4), small_fabric(3, 3, 4), clos3(2, 2, 2, 2, GBPS))


def slowed(topology, flows, hops):
    """Count the flows whose demand is above their fair share of a link, link by link and in fractions."""
    found = set()
    for link in set(hops[hops >= 0].tolist()):
        wanted = {f: int(flows.demand_bps[f]) for f in np.flatnonzero((hops == link).any(axis=1)).tolist()}
        room = Fraction(int(topology.capacity[link]))
        for f in sorted(wanted, key=wanted.__getitem__):
            share = room / len(wanted)
            if wanted[f] > share * (1 + Fraction(1, 10**8)):
                found |= set(wanted)
                break
            room -= wanted.pop(f)
    return len(found)


@settings(max_examples=examples(60), deadline=None)
@given(fabric=st.sampled_from(FABRICS), dead=st.integers(0, 2), mixed=st.booleans(), seed=st.integers(0, 10**6))
def test_no_more_flows_are_slowed_and_the_maximum_stays(fabric, dead, mixed, seed):
    rng = np.random.default_rng(seed)
    topology = topology_of(fabric)
    count = len(fabric.nics)
    pairs = rng.integers(0, count, (2 * count, 2)).tolist()
    rates = (rng.integers(1, 11, len(pairs)) * (GBPS // 10) if mixed else np.full(len(pairs), GBPS // 2)).tolist()
    sends = tuple(
        FlowDemand(src_rank=a, dst_rank=b, rate_bps=r) for (a, b), r in zip(pairs, rates, strict=True) if a != b
    )
    job = JobRequest(
        job_id="job",
        ranks=tuple(nic.id for nic in fabric.nics),
        collectives=(Collective(kind=CollectiveKind.CUSTOM, size_bytes=1, flows=sends),),
    )
    down = rng.choice(len(fabric.cables), dead, replace=False).tolist()
    live = Live.of(topology, Health(down_cables=frozenset(fabric.cables[number].id for number in down)))
    flows = expand(topology, (job,))
    joint = Joint.of(topology, live, segments_of(topology, live), flows, np.zeros(2 * topology.cables))
    assert joint is not None
    start = joint.placed(np.full((len(flows), 4), -1, dtype=np.int64), rng.permutation(len(flows)))
    found = joint.slowed_least(start, np.ones(len(flows), dtype=np.bool_))
    assert joint.no_fuller(found, start)
    assert live.links[found[found >= 0]].all()
    assert slowed(topology, flows, found) <= slowed(topology, flows, start)

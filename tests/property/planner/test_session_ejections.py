"""Where a link holds one flow in three tiers, room is made within the limit, and the tables of seats stay right."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.planner.session.paths import mark_seats
from tests.support.examples import examples
from tests.support.fabrics.planner_cases import fabric_of
from tests.support.fabrics.service import Service, any_flows, moved


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 10**6), budget=st.sampled_from((0, 2, 8, 32)))
def test_rings_that_come_and_go_move_no_more_flows_than_allowed_and_fill_links_to_two_at_most(seed, budget):
    fabric = fabric_of(kind="clos3", spines=9, aggs_per_pod=3, pods=4, leaves=3, hosts_per_leaf=3)
    service, rng, running = Service(fabric), np.random.default_rng(seed), {}
    for number in range(12):
        free = np.setdiff1d(np.arange(len(fabric.nics)), np.concatenate([[], *running.values()]))
        if len(free) < 8:
            assert moved(service.leave(f"job{next(iter(running))}", any_flows(budget))) <= budget
            free = np.concatenate([free, running.pop(next(iter(running)))])
        running[number] = rng.permutation(free)[: rng.integers(3, 9)].astype(np.int64)
        ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000)
        ranks = tuple(fabric.nics[nic].id for nic in running[number])
        job = JobRequest(job_id=f"job{number}", ranks=ranks, collectives=(ring,))
        assert moved(service.arrive(job, any_flows(budget))) <= budget
        assert service.fullest() <= 2
        s = service.planner._session._store.s
        owner, open_columns = s.owner.copy(), s.free.copy()
        mark_seats(s, np.arange(len(s.load), dtype=np.int64))
        assert (owner == s.owner).all()
        assert (open_columns == s.free).all()

"""Jobs come and go, links fail and are drained: what the planner of the service moves, and what that leaves."""

from collections.abc import Iterable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair
from heddle.controller.model.moves import NO_MOVES, MoveLimit, Whose
from heddle.controller.model.plan import JobFlows
from heddle.controller.planner.online import OnlinePlanner
from tests.support.examples import examples
from tests.support.fabrics.planner_cases import fabric_of
from tests.support.fabrics.service import Service, any_flows, fullest, moved, paths

FABRICS = (
    fabric_of(spines=4, leaves=4, hosts_per_leaf=4),
    fabric_of(kind="clos3", spines=9, aggs_per_pod=3, pods=3, leaves=3, hosts_per_leaf=3),
    fabric_of(kind="rail_optimised", spines=4, leaves=4, hosts_per_leaf=4, nics_per_host=2),
)


def ring(name: str, ranks: Iterable[str]) -> JobRequest:
    one = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000)
    return JobRequest(job_id=name, ranks=tuple(ranks), collectives=(one,))


def free(service: Service) -> list[str]:
    """Return the NICs of no job."""
    taken = {nic for request, _ in service.kept for nic in request.ranks}
    return [nic.id for nic in service.fabric.nics if nic.id not in taken]


def an_event(service: Service, rng: np.random.Generator, number: int) -> tuple[JobRequest, ...]:
    """Let a job leave, a cable fail or return, or return the request of a job that arrives."""
    kind, some = rng.random(), free(service)
    if service.kept and (kind < 0.3 or len(some) < 3):
        gone = int(rng.integers(len(service.kept)))
        service.kept = service.kept[:gone] + service.kept[gone + 1 :]
        return ()
    if kind < 0.45:
        cable = service.fabric.cables[int(rng.integers(len(service.fabric.cables)))].id
        down = sorted(service.health.down_cables)
        # Three at least lead up from each leaf, so two that are down leave a path between any two.
        service.health = Health(down_cables=frozenset(down[1:] if len(down) == 2 else {*down, cable}))
        return ()
    size = int(rng.integers(2, min(len(some), 10) + 1))
    return (ring(f"job{number}", rng.permutation(some)[:size].tolist()),)


def is_a_path(fabric: Fabric, links: tuple[str, ...], source: str, target: str) -> bool:
    """Return whether links lead from one NIC to another, each from where the one before ends."""
    ends: Mapping[str, tuple[str, str]] = {
        **{one.up_link: (one.lower.switch, one.upper.switch) for one in fabric.cables},
        **{one.down_link: (one.upper.switch, one.lower.switch) for one in fabric.cables},
        **{nic.up_link: (nic.id, nic.port.switch) for nic in fabric.nics},
        **{nic.down_link: (nic.port.switch, nic.id) for nic in fabric.nics},
    }
    at = source
    for link in links:
        begin, end = ends[link]
        if begin != at:
            return False
        at = end
    return at == target


LIMITS = st.builds(
    MoveLimit, whose=st.sampled_from([Whose.ANY, Whose.ANY, Whose.OWN_JOB]), max_flows=st.sampled_from([1, 4, 16])
)


@given(seed=st.integers(0, 10**6), fabric=st.sampled_from(FABRICS), limit=LIMITS)
@settings(max_examples=examples(16), deadline=None)
def test_a_plan_moves_what_it_may_on_live_paths_and_fills_links_no_more_than_without_moves(seed, fabric, limit):
    service, rng = Service(fabric), np.random.default_rng(seed)
    for number in range(12):
        new = an_event(service, rng, number)
        before = paths(job for _, job in service.kept)
        dead = {
            link
            for one in fabric.cables
            if one.id in service.health.down_cables
            for link in (one.up_link, one.down_link)
        }
        still = service.plan(new, NO_MOVES, OnlinePlanner(fabric))
        found = service.plan(new, limit)
        stranded = {flow for flows in found.stranded.values() for flow in flows}
        now = paths(found.jobs)
        others = [name for name, links in before.items() if now[name] != links and dead.isdisjoint(links)]
        assert len(others) <= (limit.max_flows if limit.whose is Whose.ANY else 0)
        assert fullest(fabric, found.jobs) <= fullest(fabric, still.jobs)
        for job in found.jobs:
            for flow in job.flows:
                assert is_a_path(fabric, flow.links, flow.src_nic, flow.dst_nic)
                assert flow.flow_id in stranded or dead.isdisjoint(flow.links)
        service.take(new, found)


@given(seed=st.integers(0, 10**6), fabric=st.sampled_from(FABRICS))
@settings(max_examples=examples(10), deadline=None)
def test_a_planner_with_another_past_and_a_new_process_plan_a_request_as_well(seed, fabric):
    service, rng, twin = Service(fabric), np.random.default_rng(seed), OnlinePlanner(fabric)
    limit = any_flows(8)
    for number in range(8):
        new = an_event(service, rng, number)
        found, other = service.plan(new, limit), service.plan(new, limit, twin)
        alone = service.plan(new, limit, OnlinePlanner(fabric))
        # Which of equal paths it chooses may follow from its past.
        assert fullest(fabric, found.jobs) == fullest(fabric, other.jobs) == fullest(fabric, alone.jobs)
        service.take(new, found)


def on_last_column(jobs: Iterable[JobFlows]) -> int:
    """Return how many flows leave their leaf by the last of its four uplinks."""
    first = [flow.links[1].split(">")[0] for job in jobs for flow in job.flows if len(flow.links) > 3]
    return sum(link.endswith(":4") for link in first)


@pytest.mark.parametrize(("moves", "left"), [(16, 0), (2, 1), (0, 3)])
def test_moves_that_a_departure_or_an_arrival_leaves_empty_the_last_column_for_later_jobs(moves, left):
    service = Service(fabric_of(kind="clos3", spines=16, aggs_per_pod=4, pods=2, leaves=2, hosts_per_leaf=4))
    nics = tuple(nic.id for nic in service.fabric.nics)
    for column in range(4):
        pairs = tuple(RankPair(src_rank=4 * n + column, dst_rank=(4 * n + 4 + column) % 16) for n in range(4))
        sent = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=pairs)
        job = JobRequest(job_id=f"job{column}", ranks=nics, collectives=(sent,))
        service.arrive(job)
    gone, service.kept = service.kept[0][0], service.kept[1:]
    found = service.plan((), any_flows(moves))
    assert (on_last_column(found.jobs), moved(found)) == (left, 3 - left)
    assert on_last_column(service.plan((gone,), any_flows(moves)).jobs) == 4  # the fabric is full again


def test_after_a_failure_that_severs_flows_no_moves_are_spent_on_later_jobs():
    service = Service(fabric_of(kind="clos3", spines=16, aggs_per_pod=4, pods=2, leaves=2, hosts_per_leaf=4))
    sent = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=(RankPair(src_rank=0, dst_rank=4),))
    for number, row in enumerate((0, 1, 2, 3)):
        nics = tuple(service.fabric.nics[4 * (n // 4) + row].id for n in range(8))
        job = JobRequest(job_id=f"job{number}", ranks=nics, collectives=(sent,))
        service.arrive(job)
    first, last = (service.kept[number][1].flows[0].links[1] for number in (0, 3))
    assert last.split(">")[0].endswith(":4")
    service.kept = service.kept[:1] + service.kept[3:]
    service.health = Health(down_cables=frozenset({first}))
    service.take((), service.plan((), any_flows(16)))
    assert service.links("job3")[0][0] == last
    service.become(Health(), any_flows(16))
    assert service.links("job3")[0][0] != last

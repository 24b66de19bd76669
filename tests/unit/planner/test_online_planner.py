"""Results of single events of the service's planner on a small fabric."""

from dataclasses import replace

import numpy as np
import pytest

from heddle.controller.model.error import AlreadyExistsError, InputError
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, RankPair, Steering
from heddle.controller.model.moves import NO_MOVES, MoveLimit, Whose
from heddle.controller.model.plan import Infeasible
from heddle.controller.planner.session import state
from tests.support.fabrics.planner_cases import fabric_of
from tests.support.fabrics.service import UNLIMITED, Service, any_flows, loads, moved
from tests.support.fabrics.small_fabrics import rails

GBPS = 10**9


def two_tiers(spines=2, leaves=3, hosts=2):
    return Service(fabric_of(spines=spines, leaves=leaves, hosts_per_leaf=hosts))


def flows_job(job_id, *pairs, gbps=100, **wishes):
    """Return a job of one flow per pair of hosts (numbered from 1)."""
    hosts = sorted({host for pair in pairs for host in pair})
    flows = tuple(FlowDemand(src_rank=hosts.index(a), dst_rank=hosts.index(b), rate_bps=gbps * GBPS) for a, b in pairs)
    custom = Collective(kind=CollectiveKind.CUSTOM, size_bytes=1000, flows=flows)
    return JobRequest(job_id=job_id, ranks=tuple(f"h{host}-n0" for host in hosts), collectives=(custom,), **wishes)


def crossed_spine(service, job_id) -> str:
    return service.links(job_id)[0][0].split(">")[1].split(":")[0]


def full_but_apart(tenant="red"):
    """Leave one free uplink at leaf1 and one free downlink at leaf2, by different spines."""
    service = two_tiers()
    for cable, job in (("leaf2:1>spine1:2", flows_job("b", (6, 3), tenant=tenant)),
                       ("leaf1:2>spine2:1", flows_job("a", (1, 5), tenant=tenant))):  # fmt: skip
        service.become(Health(down_cables=frozenset({cable})))
        service.arrive(job)
    service.become(Health())
    assert (crossed_spine(service, "a"), crossed_spine(service, "b")) == ("spine1", "spine2")
    return service


def test_a_running_flow_moves_for_a_new_one_where_that_is_allowed():
    service = full_but_apart()
    assert moved(service.arrive(flows_job("c", (2, 4)), any_flows(1))) == 1
    assert service.fullest() == 1


@pytest.mark.parametrize("limit", [NO_MOVES, any_flows(0), MoveLimit(whose=Whose.OWN_JOB, max_flows=8)])
def test_no_other_flow_moves_where_that_is_not_allowed(limit):
    service = full_but_apart()
    assert moved(service.arrive(flows_job("c", (2, 4)), limit)) == 0
    assert service.fullest() == 2


def test_flows_move_for_those_of_their_tenant_only():
    limit = MoveLimit(whose=Whose.TENANT, max_flows=8)
    ours = full_but_apart("red").arrive(flows_job("c", (2, 4), tenant="red"), limit)
    theirs = full_but_apart("blue").arrive(flows_job("c", (2, 4), tenant="red"), limit)
    assert (moved(ours), moved(theirs)) == (1, 0)


def test_a_job_whose_required_utilisation_is_exceeded_is_refused_with_the_bottleneck():
    service = full_but_apart()
    answer = service.answer([flows_job("c", (2, 4), require_utilisation=1.0)])
    assert isinstance(answer, Infeasible)
    assert "require_utilisation is 1" in answer.why
    assert ">spine" in answer.why or ">leaf" in answer.why
    assert moved(service.arrive(flows_job("d", (1, 2)))) == 0


def test_a_job_that_keeps_to_its_required_utilisation_by_moves_of_others_is_admitted():
    service = full_but_apart()
    assert moved(service.arrive(flows_job("c", (2, 4), require_utilisation=1.0), any_flows(1))) == 1


def test_a_running_job_is_not_pushed_over_its_limit():
    service = two_tiers(spines=1)
    service.arrive(flows_job("a", (1, 3), require_utilisation=1.0))
    answer = service.answer([flows_job("b", (2, 4))], UNLIMITED)
    assert isinstance(answer, Infeasible)
    assert answer.why.startswith("job a:")


def test_a_failed_cable_moves_the_flows_on_it_and_others_only_as_allowed():
    service = two_tiers()
    service.arrive(flows_job("a", (1, 3)))
    service.arrive(flows_job("b", (5, 4)))
    service.health = Health(down_cables=frozenset({service.links("a")[0][0]}))
    for limit, flows, full in ((NO_MOVES, {"a": 1}, 2), (any_flows(8), {"a": 1, "b": 1}, 1)):
        plan = service.plan((), limit)
        assert {job: each.flows for job, each in plan.moved.items()} == flows
        assert plan.certificate.max_link_utilisation == full


def test_a_flow_without_a_live_path_is_stranded_until_the_cable_returns():
    service = two_tiers(spines=1)
    service.arrive(flows_job("a", (1, 3)))
    down = service.become(Health(down_cables=frozenset({"leaf1:1>spine1:1"})))
    assert down.stranded == {"a": ("a/0/0-1/0",)}
    assert service.become(Health()).stranded == {}


def test_a_switch_out_of_use_carries_nothing_until_it_returns():
    service = two_tiers()
    service.become(Health(down_switches=frozenset({"spine1"})))
    service.arrive(flows_job("a", (1, 3), (2, 4)))
    assert {links[0].split(">")[1].split(":")[0] for links in service.links("a")} == {"spine2"}
    service.become(Health(), any_flows(8))
    assert service.fullest() == 1


def test_moves_keep_to_their_limit():
    service = two_tiers(spines=3, hosts=3)
    service.become(Health(down_switches=frozenset({"spine2", "spine3"})))
    service.arrive(flows_job("a", (1, 4), (2, 5), (3, 6)))
    assert (moved(service.become(Health(), any_flows(1))), service.fullest()) == (1, 2)
    assert (moved(service.become(Health(), UNLIMITED)), service.fullest()) == (1, 1)


def test_a_request_for_a_job_that_runs_or_a_rank_that_is_no_nic_raises():
    service = two_tiers()
    service.arrive(flows_job("a", (1, 3)))
    with pytest.raises(AlreadyExistsError):
        service.answer([flows_job("a", (1, 3))])
    with pytest.raises(InputError):
        service.answer([flows_job("b", (1, 99))])


def test_a_higher_priority_is_placed_as_if_no_lower_job_existed():
    service = two_tiers()
    service.arrive(flows_job("low", (1, 3), (2, 4)))
    service.arrive(flows_job("high", (1, 3), (2, 4), priority=1))
    assert len({links[0] for links in service.links("high")}) == 2


def test_a_pair_pinned_by_its_addresses_keeps_to_one_path():
    service = two_tiers(hosts=1)
    service.arrive(flows_job("a", (1, 2), (1, 2), gbps=50, steering=Steering.PIN))
    (before,) = set(service.links("a"))
    service.become(Health(down_cables=frozenset({before[0]})))
    (after,) = set(service.links("a"))
    assert after != before


def test_flows_cross_from_one_parallel_cable_to_another_where_no_pair_of_the_same_number_is_left():
    service = Service(rails())
    both = (RankPair(0, 1), RankPair(1, 0))
    ring = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1, pairs=both, qps_per_flow=2)
    service.arrive(JobRequest(job_id="a", ranks=("h1-n0", "h2-n1"), collectives=(ring,)))
    for cables in ({"leaf1:1>spine1:1"}, {"leaf1:1>spine1:1", "leaf2:2>spine1:4"}):
        assert service.become(Health(down_cables=frozenset(cables))).stranded == {}


def pairs(fabric, job_id, *phases, gbps=100):
    """Return a job with a phase per list of pairs of NICs, numbered from 0."""
    flows = [tuple(FlowDemand(src_rank=a, dst_rank=b, rate_bps=gbps * GBPS) for a, b in some) for some in phases]
    collectives = tuple(
        Collective(kind=CollectiveKind.CUSTOM, size_bytes=1000, flows=some, phase=phase)
        for phase, some in enumerate(flows)
    )
    return JobRequest(job_id=job_id, ranks=tuple(nic.id for nic in fabric.nics), collectives=collectives)


def permuted(fabric, budget, seed):
    """Return the fullest link after each NIC has sent to another one, one job after the other."""
    service, to = Service(fabric), np.random.default_rng(seed).permutation(len(fabric.nics)).tolist()
    for a, b in enumerate(to):
        if a != b:
            assert moved(service.arrive(pairs(fabric, f"job{a}", [(a, b)]), any_flows(budget))) <= budget
    return service.fullest()


@pytest.mark.parametrize("seed", [2, 4])
def test_a_few_moves_for_each_job_of_a_permutation_avoid_collisions_in_three_tiers(seed):
    fabric = fabric_of(kind="clos3", spines=4, aggs_per_pod=2, pods=4, leaves=2, hosts_per_leaf=2)
    assert permuted(fabric, 0, seed) == 2
    assert permuted(fabric, 8, seed) == 1


def test_an_arrival_also_removes_a_collision_that_an_earlier_event_left():
    fabric = fabric_of(spines=4, leaves=4, hosts_per_leaf=4)
    service, to = Service(fabric), np.random.default_rng(2).permutation(16).tolist()
    for a, b in enumerate(to):
        service.arrive(pairs(fabric, f"job{a}", [(a, b)]))
    service.leave("job0")
    assert service.fullest() == 2
    service.arrive(pairs(fabric, "again", [(0, to[0])]), any_flows(16))
    assert service.fullest() == 1


@pytest.mark.parametrize(
    "shape", [{"spines": 4, "leaves": 4}, {"kind": "clos3", "spines": 16, "aggs_per_pod": 4, "pods": 3, "leaves": 4}]
)
def test_a_full_leaf_that_loses_a_link_slows_one_flow_more_than_two_each_way_which_are_the_least(shape):
    """Each proposal of moves with four slowed flows that the planner tries takes more from one job than no moves do."""
    fabric = fabric_of(**shape, hosts_per_leaf=4)
    service, nics = Service(fabric), len(fabric.nics)
    for job in range(4):
        some = [(a, (a + 4 * (1 + a % 4 % 3)) % nics) for a in range(nics) if a % 8 // 2 == job]
        service.arrive(pairs(fabric, f"job{job}", some))
    service.become(Health(down_cables=frozenset({fabric.cables[0].id})), any_flows(32))
    full = {link for link, load in loads(fabric, (flows for _, flows in service.kept)).items() if load > 1}
    slow = [sum(not full.isdisjoint(links) for links in service.links(f"job{job}")) for job in range(4)]
    assert service.fullest() == 2
    assert sum(slow) == 5


def test_phases_of_one_job_share_links_without_a_collision():
    service = two_tiers(leaves=2)
    service.arrive(pairs(service.fabric, "other", [(0, 2)]))
    service.arrive(pairs(service.fabric, "phases", [(1, 3)], [(1, 3)]))
    assert set(service.links("other")).isdisjoint(service.links("phases"))


def test_moves_lower_the_fullest_link_of_mixed_sizes():
    service = two_tiers(leaves=2, hosts=4)
    for name, sent, gbps in (("a", [(0, 4), (1, 5)], 60), ("b", [(2, 6), (3, 7)], 40)):
        service.arrive(pairs(service.fabric, name, sent, gbps=gbps))
    service.leave("a")
    service.arrive(pairs(service.fabric, "c", [(0, 4)], gbps=90), any_flows(1))
    assert float(service.fullest()) == pytest.approx(0.9)


@pytest.mark.parametrize("budget", [0, 8])
def test_an_all_to_all_beside_other_jobs_uses_the_links_of_the_ring_of_its_job(budget):
    service = two_tiers(spines=4, leaves=2, hosts=4)
    service.arrive(pairs(service.fabric, "other", [(2, 6), (6, 2)]), any_flows(budget))
    ring, ranks = [(0, 4), (4, 1), (1, 5), (5, 0)], (0, 4, 1, 5)
    across = [(a, b) for a in ranks for b in ranks if a // 4 != b // 4]
    slow = pairs(service.fabric, "job", across, gbps=33).collectives[0]
    job = pairs(service.fabric, "job", ring)
    both = (*job.collectives, replace(slow, phase=1))
    plan = service.arrive(replace(job, collectives=both), any_flows(budget))
    links = service.links("job")
    assert {link for path in links[len(ring) :] for link in path} <= {
        link for path in links[: len(ring)] for link in path
    }
    assert plan.certificate.max_link_utilisation == 1.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_job_whose_changes_outgrow_the_log_gets_the_same_paths(seed, monkeypatch):
    fabric = fabric_of(spines=4, leaves=4, hosts_per_leaf=8)
    nics = [fabric.nics[nic].id for nic in np.random.default_rng(seed).permutation(len(fabric.nics)).tolist()]
    both = tuple(
        Collective(kind=kind, size_bytes=1000, phase=phase)
        for phase, kind in enumerate((CollectiveKind.RING_ALL_REDUCE, CollectiveKind.ALL_TO_ALL))
    )
    found = []
    for rows in (state.SPARE_LOG, 1024):
        monkeypatch.setattr(state, "SPARE_LOG", rows)
        service = Service(fabric)
        service.arrive(JobRequest(job_id="other", ranks=tuple(nics[:8]), collectives=both), any_flows(8))
        service.arrive(JobRequest(job_id="job", ranks=tuple(nics[8:]), collectives=both), any_flows(8))
        found.append((service.links("other"), service.links("job")))
    assert found[0] == found[1]

from dataclasses import replace

import pytest

from heddle.controller.model.error import InputError
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.placement import MAX_SUGGESTIONS, Placement, Shape
from heddle.controller.model.plan import Infeasible
from heddle.controller.planner.placement.suggest import suggest
from heddle.foundation.network import Network
from tests.support.fabrics.planner_cases import fabric_of, plan_of

RING = (Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000),)
GATHER = Collective(kind=CollectiveKind.GATHER, size_bytes=1, root=2)
ALL_TO_ALL = (Collective(kind=CollectiveKind.ALL_TO_ALL, size_bytes=1000),)


def running(fabric, **ranks_of):
    """Return running jobs, given by name: NIC ids, or (NIC ids, share)."""
    asked = [(ranks, 0) if isinstance(ranks, list) else ranks for ranks in ranks_of.values()]
    requests = [
        JobRequest(job_id=name, ranks=tuple(ranks), collectives=RING, gpu_milli=share)
        for name, (ranks, share) in zip(ranks_of, asked, strict=True)
    ]
    return list(zip(requests, plan_of(fabric, *requests).jobs, strict=True))


def places(fabric, ranks, collectives=RING, *, health=None, kept=(), **more) -> tuple[Placement, ...]:
    shape = Shape(ranks=ranks, collectives=collectives, **more)
    found = suggest(fabric, shape, health=health or fabric.failed, kept=kept)
    assert not isinstance(found, Infeasible), found.why
    return found


def refusal(fabric, ranks, **more) -> str:
    health, kept = more.pop("health", fabric.failed), more.pop("kept", ())
    found = suggest(fabric, Shape(ranks=ranks, collectives=RING, **more), health=health, kept=kept)
    assert isinstance(found, Infeasible)
    return found.why


def test_a_cable_that_has_half_its_rate_left_is_counted_with_that():
    fabric = fabric_of(spines=1, leaves=2, hosts_per_leaf=1)
    (sound,) = places(fabric, 2)
    found = suggest(
        fabric, Shape(ranks=2, collectives=RING), health=fabric.failed,
        degraded={fabric.cables[0].id: fabric.cables[0].capacity_bps // 2},
    )  # fmt: skip
    assert not isinstance(found, Infeasible)
    (best,) = found
    assert best.own_max_link_utilisation == 2 * sound.own_max_link_utilisation > 0


def leaves_of(fabric, place) -> set[str]:
    return {fabric.nic_by_id[nic].port.switch for nic in place.nics}


@pytest.fixture
def four_leaves():
    return fabric_of(spines=4, leaves=4, hosts_per_leaf=4)


def test_a_job_that_fits_on_one_leaf_gets_one(four_leaves):
    best, *_ = places(four_leaves, 4)
    assert (best.nics, best.leaves_used) == (("h1-n0", "h2-n0", "h3-n0", "h4-n0"), 1)
    assert best.max_link_utilisation == best.own_max_link_utilisation == 0


def test_the_reason_is_one_sentence_with_leaves_room_and_load(four_leaves):
    assert places(four_leaves, 6)[0].reason == (
        "6 ranks on 6 hosts of 2 leaves, the fewest that hold them, room for 2 more left there; "
        "the busiest link that it uses would be at 1.00 of its rate."
    )


def test_ranks_are_in_the_order_of_leaves_and_ports(four_leaves):
    assert places(four_leaves, 6)[0].nics == tuple(f"h{n}-n0" for n in range(1, 7))


def test_suggestions_have_different_nics(four_leaves):
    found = places(four_leaves, 4, max_suggestions=4)
    assert sorted(leaf for place in found for leaf in leaves_of(four_leaves, place)) == [
        "leaf1", "leaf2", "leaf3", "leaf4",
    ]  # fmt: skip


def test_three_suggestions_are_returned_by_default(four_leaves):
    assert len(places(four_leaves, 1)) == 3
    assert len(places(four_leaves, 1, max_suggestions=1)) == 1
    assert len(places(four_leaves, 1, max_suggestions=10**6)) <= MAX_SUGGESTIONS


def test_the_tightest_leaf_is_filled_before_an_empty_one_is_touched(four_leaves):
    kept = running(four_leaves, a=["h5-n0", "h6-n0"], b=["h9-n0"])
    assert places(four_leaves, 2, kept=kept)[0].nics == ("h7-n0", "h8-n0")
    assert places(four_leaves, 3, kept=kept)[0].nics == ("h10-n0", "h11-n0", "h12-n0")


def test_the_last_leaf_of_several_is_the_tightest_for_what_remains(four_leaves):
    kept = running(four_leaves, a=["h5-n0", "h6-n0"])
    assert leaves_of(four_leaves, places(four_leaves, 6, kept=kept)[0]) == {"leaf1", "leaf2"}


def test_what_is_out_of_use_is_never_suggested():
    fabric = fabric_of(leaves=3, hosts_per_leaf=2)
    health = Health(down_nics=frozenset(("h1-n0",)), down_switches=frozenset(("leaf2",)))
    assert {nic for place in places(fabric, 1, health=health) for nic in place.nics} == {"h2-n0", "h5-n0"}


def test_nics_of_other_networks_are_never_suggested():
    fabric = fabric_of(leaves=2, hosts_per_leaf=2)
    nics = tuple(replace(nic, network=Network.STORAGE) if nic.id != "h3-n0" else nic for nic in fabric.nics)
    (only,) = places(replace(fabric, nics=nics), 1)
    assert only.nics == ("h3-n0",)


def test_a_leaf_without_a_live_uplink_takes_only_jobs_that_fit_on_it():
    fabric = fabric_of(spines=1, leaves=3, hosts_per_leaf=2, failed=["leaf1:1>spine1:1"])
    assert {frozenset(leaves_of(fabric, place)) for place in places(fabric, 3)} == {frozenset(("leaf2", "leaf3"))}
    assert "4 free on leaves that reach each other" in refusal(fabric, 5)


def test_fewer_pods_are_better_among_as_many_leaves():
    fabric = fabric_of(kind="clos3", spines=4, leaves=2, pods=3, aggs_per_pod=2, hosts_per_leaf=2)
    kept = running(fabric, a=["h1-n0", "h2-n0"])
    for place in places(fabric, 4, kept=kept):
        assert len({leaf.split("-")[0] for leaf in leaves_of(fabric, place)}) == 1


def test_a_job_larger_than_a_pod_takes_the_fewest_pods():
    fabric = fabric_of(kind="clos3", spines=4, leaves=2, pods=3, aggs_per_pod=2, hosts_per_leaf=2)
    for place in places(fabric, 6):
        assert (place.leaves_used, len({leaf.split("-")[0] for leaf in leaves_of(fabric, place)})) == (3, 2)


def test_hosts_with_rails_are_used_whole_and_each_rail_stays_on_its_leaf():
    fabric = fabric_of(kind="rail_optimised", spines=4, leaves=8, hosts_per_leaf=4, nics_per_host=4)
    for place in places(fabric, 8, ALL_TO_ALL):
        assert sorted(place.nics) == sorted(
            f"{host}-n{rail}" for host in {n.split("-")[0] for n in place.nics} for rail in range(4)
        )
        assert place.leaves_used == 4
    assert places(fabric, 8, ALL_TO_ALL)[0].nics[:5] == ("h1-n0", "h1-n1", "h1-n2", "h1-n3", "h2-n0")


@pytest.mark.parametrize("hosts", [2, 3, 4])
def test_a_ring_over_whole_hosts_stays_on_its_rails(hosts):
    fabric = fabric_of(kind="rail_optimised", spines=4, leaves=4, hosts_per_leaf=4, nics_per_host=4)
    best, *_ = places(fabric, 4 * hosts)
    assert (best.own_max_link_utilisation, best.leaves_used) == (0.0, 4)
    assert "keeps its rail" in best.reason
    assert "4 leaves in 1 rail group, the fewest groups that hold them" in best.reason


def test_a_job_smaller_than_a_host_stays_inside_one():
    fabric = fabric_of(kind="rail_optimised", spines=4, leaves=4, hosts_per_leaf=4, nics_per_host=4)
    kept = running(fabric, a=["h2-n0", "h2-n1"])
    assert places(fabric, 2, kept=kept)[0].nics == ("h2-n2", "h2-n3")


def test_two_nics_of_one_gpu_hold_one_rank():
    fabric = fabric_of(kind="rail_optimised", spines=2, leaves=2, hosts_per_leaf=3, nics_per_host=2)
    fabric = replace(fabric, nics=tuple(replace(nic, gpus=(0,)) for nic in fabric.nics))
    best, *_ = places(fabric, 3)
    assert (best.nics, best.leaves_used) == (("h1-n0", "h2-n0", "h3-n0"), 1)
    assert "3 free" in refusal(fabric, 4)


def test_of_two_nics_of_one_gpu_all_hosts_use_the_leaf_that_serves_more():
    fabric = fabric_of(kind="rail_optimised", spines=2, leaves=2, hosts_per_leaf=3, nics_per_host=2)
    fabric = replace(fabric, nics=tuple(replace(nic, gpus=(0,)) for nic in fabric.nics))
    best, *_ = places(fabric, 3, health=Health(down_nics=frozenset(("h2-n0",))))
    assert (best.nics, best.leaves_used) == (("h1-n1", "h2-n1", "h3-n1"), 1)


def test_shares_of_a_gpu_are_packed_onto_one(four_leaves):
    assert places(four_leaves, 3, gpu_milli=500)[0].nics == ("h1-n0", "h1-n0", "h2-n0")


def test_gpus_in_use_are_filled_before_idle_ones(four_leaves):
    kept = running(four_leaves, a=(["h6-n0", "h7-n0"], 600))
    best, *_ = places(four_leaves, 2, kept=kept, gpu_milli=400)
    assert best.nics == ("h6-n0", "h7-n0")
    assert "0 idle GPUs put to use" in best.reason


def test_a_share_that_does_not_fit_goes_to_another_gpu(four_leaves):
    kept = running(four_leaves, a=(["h1-n0"], 600))
    assert all("h1-n0" not in place.nics for place in places(four_leaves, 1, kept=kept, gpu_milli=500))


def test_a_nic_of_two_gpus_takes_two_ranks_or_one_of_two_gpus():
    fabric = fabric_of(leaves=2, hosts_per_leaf=1)
    fabric = replace(fabric, nics=tuple(replace(nic, gpus=(0, 1)) for nic in fabric.nics))
    assert places(fabric, 2)[0].nics == ("h1-n0", "h1-n0")
    assert places(fabric, 2, gpu_milli=2000)[0].nics == ("h1-n0", "h2-n0")
    assert "2 free" in refusal(fabric, 3, gpu_milli=1500)


def test_a_share_that_no_nic_has_is_refused_with_that_reason(four_leaves):
    assert refusal(four_leaves, 1, gpu_milli=2000) == (
        "1 rank asked for at 2000/1000 GPU each, 0 free: ask for a share that the GPUs of one NIC can give"
    )


def test_a_rank_of_one_and_a_half_gpus_leaves_half_a_one():
    fabric = fabric_of(leaves=1, hosts_per_leaf=1)
    fabric = replace(fabric, nics=tuple(replace(nic, gpus=(0, 1)) for nic in fabric.nics))
    kept = running(fabric, a=(["h1-n0"], 1500))
    assert places(fabric, 1, kept=kept, gpu_milli=500)[0].nics == ("h1-n0",)
    assert "0 free" in refusal(fabric, 1, kept=kept, gpu_milli=501)


def test_a_running_job_that_holds_more_than_its_gpus_leaves_none_free(four_leaves):
    kept = running(four_leaves, a=["h1-n0", "h1-n0", "h2-n0"])
    assert {nic for place in places(four_leaves, 2, kept=kept) for nic in place.nics}.isdisjoint(("h1-n0", "h2-n0"))


def test_a_job_is_spread_where_fewer_leaves_would_be_overloaded():
    fabric = fabric_of(spines=2, leaves=4, hosts_per_leaf=4)
    best, *others = places(fabric, 8, ALL_TO_ALL)
    assert best.leaves_used == 4
    assert best.own_max_link_utilisation <= 1 < min(place.own_max_link_utilisation for place in others)
    assert "spread because fewer would be overloaded" in best.reason


def test_leaves_with_less_load_are_better_among_as_many():
    fabric = fabric_of(spines=2, leaves=6, hosts_per_leaf=4)
    busy = [f"h{n}-n0" for n in (1, 5, 2, 6)]
    kept = running(fabric, a=busy)
    best, *_ = places(fabric, 8, ALL_TO_ALL, kept=kept)
    assert leaves_of(fabric, best).isdisjoint(("leaf1", "leaf2"))


def test_no_suggestion_exceeds_the_required_utilisation_of_a_running_job():
    fabric = fabric_of(spines=1, leaves=2, hosts_per_leaf=2)
    pair = Collective(kind=CollectiveKind.CUSTOM, flows=(FlowDemand(src_rank=0, dst_rank=1),))
    job = JobRequest(job_id="a", ranks=("h1-n0", "h3-n0"), collectives=(pair,), require_utilisation=1.0)
    kept = list(zip([job], plan_of(fabric, job).jobs, strict=True))
    assert "job a: link leaf1:1>spine1:1" in refusal(fabric, 2, kept=kept)


def test_too_few_free_gpus_are_refused_with_remedies(four_leaves):
    kept = running(four_leaves, train=[f"h{n}-n0" for n in range(1, 9)])
    assert refusal(four_leaves, 10, kept=kept, health=Health(down_nics=frozenset(("h16-n0",)))) == (
        "10 ranks asked for, 7 free (8 ranks of running jobs hold GPUs: train (8); 1 NIC out of use: h16-n0): "
        "release a job, or bring NICs back, or ask for at most 7"
    )


@pytest.mark.parametrize(
    ("shape", "place"),
    [
        (Shape(ranks=0, collectives=RING), "ranks: "),
        (Shape(ranks=1_000_001, collectives=RING), "ranks: "),
        (Shape(ranks=2, collectives=RING, gpu_milli=1_000_001), "gpu_milli: "),
        (Shape(ranks=2, collectives=(replace(RING[0], size_bytes=0),)), "collectives[0].bytes: "),
        (Shape(ranks=2, collectives=(*RING, GATHER)), "collectives[1].root: "),
    ],
)
def test_a_wrong_shape_is_refused_by_the_path_of_its_key(four_leaves, shape, place):
    with pytest.raises(InputError) as caught:
        suggest(four_leaves, shape, health=Health())
    assert str(caught.value).startswith(place)


def test_a_shape_of_too_many_flows_is_refused_before_it_is_planned():
    fabric = fabric_of(leaves=2, hosts_per_leaf=1000)
    with pytest.raises(InputError, match="2,000,000 flow plans"):
        suggest(fabric, Shape(ranks=1500, collectives=ALL_TO_ALL), health=Health())


def test_a_million_ranks_are_refused_at_once(four_leaves):
    assert refusal(four_leaves, 1_000_000).startswith("1000000 ranks asked for, 16 free")

"""Suggested NICs on random fabrics are free, alive and compact, and the prediction matches the plan."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.model.placement import Shape
from heddle.controller.model.plan import Infeasible, Plan
from heddle.controller.planner.placement.suggest import suggest
from heddle.controller.planner.solve import solve
from tests.oracles.fewest_leaves import fewest_leaves, free_shares
from tests.support.examples import examples
from tests.support.fabrics.planner_cases import fabric_of

KINDS = (
    CollectiveKind.RING_ALL_REDUCE,
    CollectiveKind.ALL_TO_ALL,
    CollectiveKind.TREE_ALL_REDUCE,
    CollectiveKind.GATHER,
)
SPINE_LEAF = st.fixed_dictionaries(
    {"spines": st.integers(1, 4), "leaves": st.integers(1, 5), "hosts_per_leaf": st.integers(1, 4)}
)
RAILS = st.fixed_dictionaries(
    {"kind": st.just("rail_optimised"), "spines": st.integers(1, 3), "leaves": st.sampled_from([2, 4]),
     "hosts_per_leaf": st.integers(1, 3), "nics_per_host": st.just(2)}
)  # fmt: skip
CLOS = st.fixed_dictionaries(
    {"kind": st.just("clos3"), "spines": st.just(4), "leaves": st.integers(1, 2), "pods": st.integers(1, 3),
     "aggs_per_pod": st.just(2), "hosts_per_leaf": st.integers(1, 3)}
)  # fmt: skip


@st.composite
def situations(draw, shapes=SPINE_LEAF | RAILS | CLOS):
    """A fabric, its health, running jobs with their plans and a shape."""
    fabric = fabric_of(**draw(shapes))
    if draw(st.booleans()) and fabric.nics[-1].id.endswith("n1"):
        fabric = replace(fabric, nics=tuple(replace(nic, gpus=(0,)) for nic in fabric.nics))
    cables = draw(st.sets(st.sampled_from([cable.id for cable in fabric.cables]), max_size=2))
    nics = draw(st.sets(st.sampled_from([nic.id for nic in fabric.nics]), max_size=2))
    health = Health(down_cables=frozenset(cables), down_nics=frozenset(nics))
    kept: list = []
    for number in range(draw(st.integers(0, 3))):
        share = draw(st.sampled_from([0, 300, 500, 1000]))
        holding = held(fabric, [request for request, _ in kept])
        room = [nic for nic in fabric.nics if all(holding[gpu] + (share or 1000) <= 1000 for gpu in gpus(nic))]
        one_each = list({gpus(nic)[0]: nic.id for nic in room if nic.id not in nics}.values())
        ranks = draw(st.lists(st.sampled_from(one_each), unique=True, max_size=6)) if one_each else []
        job = JobRequest(job_id=f"job{number}", ranks=tuple(ranks), collectives=(collective(draw),), gpu_milli=share)
        job = replace(job, priority=draw(st.integers(0, 1)))
        plan = solve(fabric, [job], health=health, kept=kept) if ranks else None
        if isinstance(plan, Plan):
            kept = list(zip([request for request, _ in kept] + [job], plan.jobs, strict=True))
    asked = draw(st.integers(1, 10))
    shape = Shape(ranks=asked, collectives=(collective(draw),), gpu_milli=draw(st.sampled_from([0, 250, 400, 1000])))
    return fabric, health, kept, replace(shape, max_suggestions=draw(st.integers(0, 5)))


def collective(draw):
    return Collective(kind=draw(st.sampled_from(KINDS)), size_bytes=1000, qps_per_flow=draw(st.sampled_from([1, 2])))


def gpus(nic):
    return [(nic.host, number) for number in nic.gpus] or [nic.id]


def held(fabric, requests) -> Counter:
    """Return the used part of each GPU; every NIC serves one."""
    holding = Counter(dict.fromkeys((gpu for nic in fabric.nics for gpu in gpus(nic)), 0))
    for request in requests:
        for name in request.ranks:
            holding[gpus(fabric.nic_by_id[name])[0]] += request.gpu_milli or 1000
    return holding


@settings(max_examples=examples(60), deadline=None)
@given(situations())
def test_suggested_nics_are_alive_and_free_and_as_many_as_ranks(situation):
    fabric, health, kept, shape = situation
    found = suggest(fabric, shape, health=health, kept=kept)
    for place in found if isinstance(found, tuple) else ():
        assert len(place.nics) == shape.ranks
        assert health.down_nics.isdisjoint(place.nics)
        running = [request for request, _ in kept]
        assert max(held(fabric, [*running, shape.on(place.nics)]).values()) <= 1000
        assert place.leaves_used == len({fabric.nic_by_id[nic].port.switch for nic in place.nics})


@settings(max_examples=examples(60), deadline=None)
@given(situations())
def test_the_prediction_is_what_a_submission_of_the_same_ranks_gets(situation):
    fabric, health, kept, shape = situation
    found = suggest(fabric, shape, health=health, kept=kept)
    for place in found if isinstance(found, tuple) else ():
        plan = solve(fabric, [shape.on(place.nics)], health=health, kept=kept)
        assert isinstance(plan, Plan)
        assert plan.jobs[-1].own_max_link_utilisation == place.own_max_link_utilisation
        assert plan.certificate.max_link_utilisation == place.max_link_utilisation


@settings(max_examples=examples(30), deadline=None)
@given(situations())
def test_suggestions_are_the_same_every_time_different_from_each_other_and_best_first(situation):
    fabric, health, kept, shape = situation
    found = suggest(fabric, shape, health=health, kept=kept)
    assert suggest(fabric, shape, health=health, kept=kept) == found
    if isinstance(found, tuple):
        assert len({frozenset(Counter(place.nics).items()) for place in found}) == len(found) <= shape.limit
        costs = [round(100 * place.own_max_link_utilisation) for place in found]
        assert costs == sorted(costs)


@settings(max_examples=examples(60), deadline=None)
@given(situations(SPINE_LEAF))
def test_no_placement_without_overload_uses_more_leaves_than_exhaustive_search_finds(situation):
    fabric, health, kept, shape = situation
    health = Health(down_nics=health.down_nics)
    holders = [(name, request.gpu_milli or 1000) for request, _ in kept for name in request.ranks]
    free = free_shares([(nic.id, nic.port.switch) for nic in fabric.nics], health.down_nics, holders, shape.share_milli)
    fewest = fewest_leaves(free, shape.ranks)
    found = suggest(fabric, shape, health=health, kept=kept)
    if fewest is None:
        assert isinstance(found, Infeasible)
        assert f"{shape.ranks} rank" in found.why
        assert f"{sum(free.values())} free" in found.why
        return
    assert isinstance(found, tuple)
    compact = [place for place in found if "spread" not in place.reason]
    assert all(place.leaves_used == fewest for place in compact)
    assert compact or found[0].own_max_link_utilisation <= min(p.own_max_link_utilisation for p in found)

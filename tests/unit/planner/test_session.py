"""Results of single session events on a small fabric."""

import json

import numpy as np
import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import AlreadyExistsError, InputError, NotFoundError
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, RankPair, Steering
from heddle.controller.model.plan import Infeasible, Plan
from heddle.controller.planner.session.delta import Delta
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.session import Session
from heddle.controller.planner.solve import solve
from tests.support.fabrics.small_fabrics import rails

FREE = Moves(who=Movable.ALL)
GBPS = 10**9


def two_tiers(spines=2, leaves=3, hosts=2):
    shape = {"kind": "spine_leaf", "spines": spines, "leaves": leaves, "hosts_per_leaf": hosts}
    return parse_fabric(json.dumps({"version": 1, "name": "lab", "generate": shape}), "lab.yaml")


def flows_job(job_id, *pairs, gbps=100, **wishes):
    """Return a job of one flow per pair of hosts (numbered from 1)."""
    hosts = sorted({host for pair in pairs for host in pair})
    flows = tuple(FlowDemand(src_rank=hosts.index(a), dst_rank=hosts.index(b), rate_bps=gbps * GBPS) for a, b in pairs)
    custom = Collective(kind=CollectiveKind.CUSTOM, size_bytes=1000, flows=flows)
    return JobRequest(job_id=job_id, ranks=tuple(f"h{host}-n0" for host in hosts), collectives=(custom,), **wishes)


def added(session, request, moves=FREE) -> Delta:
    answer = session.add(request, moves)
    assert isinstance(answer, Delta), answer.why
    return answer


def shortfall(delta: Delta) -> float:
    return max(0.0, delta.max_link_utilisation - delta.lower_bound)


def crossed(delta):
    return {change.flow_id: change.new_links and change.new_links[1:-1] for change in delta}


def full_but_apart(tenant="red"):
    """Leave one free uplink at leaf1 and one free downlink at leaf2, by different spines."""
    session = Session.begin(two_tiers())
    added(session, flows_job("a", (1, 5), tenant=tenant))
    added(session, flows_job("b", (6, 3), tenant=tenant))
    by = crossed_spine(session, "a"), crossed_spine(session, "b")
    if by[0] == by[1]:
        session.remove("b")
        blocked = session.link_down(f"leaf3:{by[0]}>spine{by[0]}:3")
        assert blocked.stranded == 0
        added(session, flows_job("b", (6, 3), tenant=tenant))
        session.link_up(f"leaf3:{by[0]}>spine{by[0]}:3")
    return session


def crossed_spine(session, job_id) -> int:
    return int(session.hops(job_id)[0, 0]) % 2 + 1


def test_the_delta_of_a_new_job_has_the_path_of_each_flow():
    session = Session.begin(two_tiers())
    delta = added(session, flows_job("a", (1, 3), (3, 4)))
    paths = crossed(delta)
    assert delta.placed == 2
    assert delta.moved == 0
    assert len(paths["a/0/0-1/0"]) == 2
    assert paths["a/0/1-2/0"] == ()
    assert delta.max_link_utilisation == 1.0
    assert shortfall(delta) == 0.0


def test_a_running_flow_moves_for_a_new_one_where_that_is_allowed():
    session = full_but_apart()
    assert crossed_spine(session, "a") != crossed_spine(session, "b")
    delta = added(session, flows_job("c", (2, 4)))
    assert delta.moved == 1
    assert delta.max_link_utilisation == 1.0


@pytest.mark.parametrize("moves", [Moves(budget=0, who=Movable.ALL), Moves(), Moves(who=Movable.OWN)])
def test_no_other_flow_moves_where_that_is_not_allowed(moves):
    delta = added(full_but_apart(), flows_job("c", (2, 4)), moves)
    assert delta.moved == 0
    assert delta.shared == 1
    assert delta.max_link_utilisation == 2.0
    assert shortfall(delta) == 1.0


def test_flows_move_for_those_of_their_tenant_only():
    ours = added(full_but_apart("red"), flows_job("c", (2, 4), tenant="red"), Moves(who=Movable.TENANT))
    theirs = added(full_but_apart("blue"), flows_job("c", (2, 4), tenant="red"), Moves(who=Movable.TENANT))
    assert (ours.moved, theirs.moved) == (1, 0)


def test_a_job_whose_required_utilisation_is_exceeded_is_refused_with_the_bottleneck():
    session = full_but_apart()
    before = session.hops("a").tolist(), session.hops("b").tolist()
    answer = session.add(flows_job("c", (2, 4), require_utilisation=1.0))
    assert isinstance(answer, Infeasible)
    assert "require_utilisation is 1" in answer.why
    assert ">spine" in answer.why or ">leaf" in answer.why
    assert (session.hops("a").tolist(), session.hops("b").tolist()) == before
    assert [job.job_id for job in session.jobs] == ["a", "b"]


def test_a_running_job_is_not_pushed_over_its_limit():
    session = Session.begin(two_tiers(spines=1))
    added(session, flows_job("a", (1, 3), require_utilisation=1.0))
    answer = session.add(flows_job("b", (2, 4)))
    assert isinstance(answer, Infeasible)
    assert answer.why.startswith("job a:")


def test_a_failed_cable_moves_only_the_flows_on_it():
    session = Session.begin(two_tiers())
    added(session, flows_job("a", (1, 3)))
    added(session, flows_job("b", (5, 4)))
    spine = crossed_spine(session, "a")
    delta = session.link_down(f"leaf1:{spine}>spine{spine}:1")
    assert delta.placed == 1
    assert [change.flow_id for change in delta] == ["a/0/0-1/0"]
    assert crossed_spine(session, "a") != spine


def test_a_failure_reports_stranded_flows_and_the_return_restores_their_paths():
    session = Session.begin(two_tiers(spines=1))
    added(session, flows_job("a", (1, 3)))
    down = session.link_down("leaf1:1>spine1:1")
    assert down.stranded == 1
    assert "a/0/0-1/0" in down.why_stranded
    assert "leaf1:1>spine1:1" in down.why_stranded
    assert [change.new_links for change in down] == [None]
    up = session.link_up("leaf1:1>spine1:1")
    assert (up.placed, up.stranded) == (1, 0)


def test_a_drain_that_would_strand_a_flow_is_refused_without_a_change():
    session = Session.begin(two_tiers(spines=1))
    added(session, flows_job("a", (1, 3)))
    answer = session.drain("spine1")
    assert isinstance(answer, Infeasible)
    assert "spine1" in answer.why
    assert session.health == Health()
    assert len(session.improve(FREE)) == 0


def test_a_drained_spine_carries_nothing_until_it_is_put_back():
    session = Session.begin(two_tiers())
    session.drain("spine1")
    added(session, flows_job("a", (1, 3), (2, 4)))
    assert {crossed_spine(session, "a")} == {2}
    assert session.health == Health(down_switches=frozenset(("spine1",)))
    session.undrain("spine1")
    assert session.improve(FREE).max_link_utilisation == 1.0


def test_a_cable_that_is_down_and_drained_comes_back_when_it_is_neither():
    session = Session.begin(two_tiers())
    cable = "leaf1:1>spine1:1"
    for event in (session.link_down, session.drain, session.link_up):
        event(cable)
        assert session.health.down_cables == {cable}
    session.undrain(cable)
    assert session.health == Health()


def test_an_improvement_keeps_to_its_budget_and_reports_the_shortfall():
    session = Session.begin(two_tiers(spines=3, hosts=3))
    session.drain("spine2")
    session.drain("spine3")
    added(session, flows_job("a", (1, 4), (2, 5), (3, 6)))
    session.undrain("spine2")
    session.undrain("spine3")
    some = session.improve(Moves(budget=1, who=Movable.ALL))
    assert (some.moved, shortfall(some)) == (1, 1.0)
    rest = session.improve(FREE)
    assert (rest.moved, shortfall(rest)) == (1, 0.0)


def test_a_session_starts_from_a_plan():
    fabric = two_tiers()
    request = flows_job("a", (1, 3), (2, 5))
    plan = solve(fabric, (request,), health=Health())
    assert isinstance(plan, Plan)
    session = Session.begin(fabric, kept=[(request, plan.jobs[0])])
    assert np.array_equal(session.hops("a"), plan.jobs[0].flows.hops)  # type: ignore[attr-defined]
    assert session.max_link_utilisation() == plan.certificate.max_link_utilisation


def test_a_plan_uses_the_paths_of_a_session():
    fabric = two_tiers(spines=4, hosts=3)
    session = Session.begin(fabric)
    requests = flows_job("a", (1, 4), (2, 7), (3, 8)), flows_job("b", (9, 1), (5, 6), gbps=30)
    for request in requests:
        added(session, request)
    hops = np.concatenate([session.hops(request.job_id) for request in requests])
    plan = solve(fabric, requests, health=session.health, hops=hops)
    assert isinstance(plan, Plan)
    assert plan.certificate.max_link_utilisation == session.max_link_utilisation()
    again = Session.begin(fabric, kept=zip(requests, plan.jobs, strict=True))
    assert all(np.array_equal(again.hops(job), session.hops(job)) for job in ("a", "b"))


def test_flows_that_are_kept_on_a_dead_path_wait_for_a_live_one():
    fabric = two_tiers()
    request = flows_job("a", (1, 3))
    plan = solve(fabric, (request,), health=Health())
    assert isinstance(plan, Plan)
    cable = plan.jobs[0].flows[0].links[1]
    session = Session.begin(fabric, Health(down_cables=frozenset((cable,))), [(request, plan.jobs[0])])
    assert (session.hops("a") < 0).all()
    assert session.improve(Moves(budget=0)).placed == 1


def test_unknown_ids_are_refused():
    session = Session.begin(two_tiers())
    added(session, flows_job("a", (1, 3)))
    with pytest.raises(AlreadyExistsError):
        session.add(flows_job("a", (1, 3)))
    with pytest.raises(NotFoundError):
        session.remove("b")
    with pytest.raises(InputError):
        session.link_down("leaf9:1>spine1:9")
    with pytest.raises(InputError):
        session.drain("spine9")
    with pytest.raises(InputError):
        session.add(flows_job("b", (1, 99)))


def test_a_higher_priority_is_placed_as_if_no_lower_job_existed():
    session = Session.begin(two_tiers())
    added(session, flows_job("low", (1, 3), (2, 4)))
    added(session, flows_job("high", (1, 3), (2, 4), priority=1))
    assert len({int(hop) for hop in session.hops("high")[:, 0]}) == 2


def test_a_pair_pinned_by_its_addresses_keeps_to_one_path():
    session = Session.begin(two_tiers(hosts=1))
    added(session, flows_job("a", (1, 2), (1, 2), gbps=50, steering=Steering.PIN))
    assert len(np.unique(session.hops("a"), axis=0)) == 1
    session.link_down(f"leaf1:{crossed_spine(session, 'a')}>spine{crossed_spine(session, 'a')}:1")
    assert len(np.unique(session.hops("a"), axis=0)) == 1


def test_flows_cross_from_one_parallel_cable_to_another_where_no_pair_of_the_same_number_is_left():
    fabric = rails()
    session = Session(fabric)
    ring = Collective(
        kind=CollectiveKind.SEND_RECV, size_bytes=1, pairs=(RankPair(0, 1), RankPair(1, 0)), qps_per_flow=2
    )
    session.add(JobRequest(job_id="a", ranks=("h1-n0", "h2-n1"), collectives=(ring,)))
    session.link_down("leaf1:1>spine1:1")
    session.link_down("leaf2:2>spine1:4")
    assert session.stranded() == []

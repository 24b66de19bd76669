"""Incasts use few top switches without making a figure of the plan worse, and turns overload no link."""

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.plan import Infeasible, Plan
from heddle.controller.planner import beside
from heddle.testing.plans.contract_loads import heaviest
from heddle.testing.plans.contract_network import Network
from heddle.testing.plans.plan_checker import check
from tests.support.examples import examples
from tests.support.fabrics.planning import fabric_file, job_files, plan_as_json, planned, sick_fabrics, solved

LAB = fabric_file(kind="spine_leaf", spines=8, leaves=8, hosts_per_leaf=8)
RANKS = [f"h{i + 1}-n0" for i in range(64)]


def as_routed(fabric, jobs) -> Plan | Infeasible:
    """Plan without moving incasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beside, "confined", lambda router, jobs, old, new, hops, bundle: hops)
        return solved(fabric, jobs)


def figures(fabric, jobs, plan) -> dict[int, Fraction]:
    """Return each priority's largest utilisation on its own links, with the load of it and higher ones."""
    network, priority = Network(fabric), {job["job_id"]: job.get("priority", 0) for job in jobs["jobs"]}
    flows = [{**flow, "job": job["job_id"]} for job in plan_as_json(plan)["jobs"] for flow in job["flows"]]
    found = {}
    for level in set(priority.values()):
        loads = heaviest([flow for flow in flows if priority[flow["job"]] >= level], lambda flow: flow["links"][1:-1])
        own = {link for flow in flows if priority[flow["job"]] == level for link in flow["links"][1:-1]}
        found[level] = max((Fraction(loads[link], network.capacity[link]) for link in own), default=Fraction(0))
    return found


def tops_of(plan: Plan, job_id: str) -> set[str]:
    """Return the spines that a job's flows use."""
    job = next(job for job in plan.jobs if job.job_id == job_id)
    return {flow.links[1].split(">")[1].split(":")[0] for flow in job.flows if len(flow.links) > 2}


def gather(**keys) -> dict:
    return {
        "job_id": "gather", "ranks": RANKS, "collectives": [{"kind": "GATHER", "root": 4, "bytes": 1000}], **keys,
    }  # fmt: skip


def bystanders(pairs, gbps=100) -> dict:
    flows = [{"src_rank": a, "dst_rank": b, "rate_bps": gbps * 10**9} for a, b in pairs]
    return {"job_id": "bystander", "ranks": RANKS, "collectives": [{"kind": "CUSTOM", "flows": flows}]}


@given(data=st.data(), fabric=sick_fabrics())
@settings(max_examples=examples(50))
def test_confining_incasts_makes_no_figure_of_a_plan_worse(data, fabric):
    jobs = data.draw(job_files(fabric))
    plan = solved(fabric, jobs)
    if isinstance(plan, Plan):
        before, after = (figures(fabric, jobs, one) for one in (as_routed(fabric, jobs), plan))
        assert all(after[level] <= before[level] for level in before)


def test_a_gather_beside_a_full_permutation_of_the_other_nics_uses_one_spine():
    pairs = [(i, (i + 8) % 64) for i in range(64) if i % 8 != 7 and (i + 8) % 64 != 4 and i != 4]
    jobs = {"version": 1, "jobs": [gather(), bystanders(pairs)]}
    plan = planned(LAB, jobs)
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound == 1
    assert len(tops_of(plan, "gather")) == 1
    assert tops_of(plan, "gather").isdisjoint(tops_of(plan, "bystander"))


def test_a_gather_avoids_the_spine_that_a_lone_bystander_uses():
    jobs = {"version": 1, "jobs": [gather(), bystanders([(8, 63)])]}
    plan = planned(LAB, jobs)
    assert len(tops_of(plan, "gather")) == 1
    assert tops_of(plan, "gather").isdisjoint(tops_of(plan, "bystander"))


def test_a_gather_that_makes_the_fullest_link_itself_stays_spread():
    plan = planned(LAB, {"version": 1, "jobs": [gather()]})
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound
    assert len(tops_of(plan, "gather")) == 8


def test_an_incast_respects_the_required_utilisation_of_a_job():
    jobs = {"version": 1, "jobs": [gather(require_utilisation=0.25), bystanders([(8, 63)])]}
    plan = planned(LAB, jobs)
    own = {job.job_id: job.own_max_link_utilisation for job in plan.jobs}
    assert own["gather"] <= 0.25
    assert len(tops_of(plan, "gather")) == 4


def test_a_pair_that_is_pinned_by_addresses_stays_on_one_path_in_an_incast():
    custom = {"kind": "CUSTOM", "flows": [{"src_rank": i, "dst_rank": 4} for i in range(8, 16)], "qps_per_flow": 2}
    pinned = {"job_id": "gather", "ranks": RANKS, "collectives": [custom], "steering": "PIN"}
    plan = planned(LAB, {"version": 1, "jobs": [pinned, bystanders([(8, 63)])]})
    paths = defaultdict(set)
    for flow in plan.jobs[0].flows:
        paths[flow.src_nic].add(flow.links)
    assert {len(found) for found in paths.values()} == {1}


def windowed(plan: Plan, job_id: str = "gather") -> dict[str, tuple[int, int, int, int]]:
    """Return slot, slots, slot length and rate of each flow of a job by source NIC."""
    job = next(job for job in plan.jobs if job.job_id == job_id)
    return {
        flow.src_nic: (flow.window.slot, flow.window.slots, flow.window.slot_ns, flow.rate_bps) for flow in job.flows
    }


@given(data=st.data(), fabric=sick_fabrics())
@settings(max_examples=examples(30))
def test_turns_overload_neither_a_receiver_nor_a_link_in_any_slot(data, fabric):
    ranks = sorted(Network(fabric).nics)
    jobs = []
    for number in range(data.draw(st.integers(1, 2))):
        kind = data.draw(st.sampled_from(["GATHER", "GATHER", "ALL_TO_ALL"]))
        one = {"kind": kind, "root": 0, "bytes": 1000, "qps_per_flow": data.draw(st.integers(1, 3))}
        named = ranks[data.draw(st.integers(0, 2)) % len(ranks) :]
        jobs.append({"job_id": f"job{number}", "ranks": named, "collectives": [one], "incast": "WINDOWS"})
    plan = solved(fabric, {"version": 1, "jobs": jobs})
    if isinstance(plan, Plan):
        assert check(fabric, {"version": 1, "jobs": jobs}, plan_as_json(plan)) == []


def test_senders_that_take_turns_have_a_slot_each_and_the_receiver_to_themselves():
    plan = planned(LAB, {"version": 1, "jobs": [gather(incast="WINDOWS")]})
    turns = windowed(plan)
    assert sorted(slot for slot, *_ in turns.values()) == list(range(63))
    assert {(slots, length) for _, slots, length, _ in turns.values()} == {(63, 100_000)}
    assert all(94_999_999_000 < rate <= 95_000_000_000 for *_, rate in turns.values())
    assert "take turns in 63 slots of 100 us" in plan.jobs[0].notes[0]


def test_turns_take_no_longer_than_rates():
    times = [
        planned(LAB, {"version": 1, "jobs": [gather(incast=how)]}).jobs[0].predicted_completion_ns
        for how in ("RATES", "WINDOWS")
    ]
    assert times[1] == pytest.approx(times[0], rel=1e-3)


def test_slow_senders_share_a_slot():
    slow = {
        **fabric_file(kind="spine_leaf", spines=2, leaves=2, hosts_per_leaf=1, gbps=100),
        "hosts": [
            {"id": f"s{i}", "nics": [{"id": f"s{i}", "ip": f"10.9.0.{i}", "port": f"leaf2:{10 + i}", "gbps": 25}]}
            for i in range(1, 13)
        ],
    }
    job = gather(ranks=["h1-n0", *(f"s{i}" for i in range(1, 13))], incast="WINDOWS")
    job["collectives"][0]["root"] = 0
    turns = windowed(planned(slow, {"version": 1, "jobs": [job]}))
    assert {slots for _, slots, *_ in turns.values()} == {3}
    assert sorted(slot for slot, *_ in turns.values()) == [0] * 4 + [1] * 4 + [2] * 4
    assert all(rate <= 23_750_000_000 for *_, rate in turns.values())


def test_a_sender_in_two_incasts_never_exceeds_its_rate():
    two = gather(incast="WINDOWS")
    two["collectives"].append({"kind": "GATHER", "root": 9, "bytes": 1000})
    plan = planned(LAB, {"version": 1, "jobs": [two]})
    most: dict[tuple[str, str], int] = defaultdict(int)
    for flow in plan.jobs[0].flows:
        assert flow.window.slots > 1
        most[flow.src_nic, flow.dst_nic] = max(most[flow.src_nic, flow.dst_nic], flow.rate_bps)
    for nic in RANKS:
        assert sum(rate for (sender, _), rate in most.items() if sender == nic) <= 100_000_000_000


def test_senders_whose_paths_are_full_keep_their_rate():
    pairs = [(0, 63)]
    plan = planned(LAB, {"version": 1, "jobs": [gather(incast="WINDOWS"), bystanders(pairs, gbps=98)]})
    turns = windowed(plan)
    assert turns["h1-n0"][1] == 0
    assert turns["h2-n0"][1] > 1


@pytest.mark.parametrize(("senders", "turns"), [(256, False), (257, True)])
def test_turns_are_planned_by_default_where_so_many_senders_could_burst_together(senders, turns):
    fabric = fabric_file(kind="spine_leaf", spines=4, leaves=33, hosts_per_leaf=8, gbps=100)
    ranks = [f"h{i + 1}-n0" for i in range(senders + 1)]
    plan = planned(fabric, {"version": 1, "jobs": [gather(ranks=ranks)]})
    assert all((slots > 1) is turns for _, slots, *_ in windowed(plan).values())
    assert ("more than 256 at once" in plan.jobs[0].notes[0]) is turns


def test_a_job_that_wants_rates_has_them_however_many_senders_it_has():
    fabric = fabric_file(kind="spine_leaf", spines=4, leaves=33, hosts_per_leaf=8, gbps=100)
    plan = planned(fabric, {"version": 1, "jobs": [gather(ranks=[f"h{i + 1}-n0" for i in range(264)], incast="RATES")]})
    assert all(slots == 0 for _, slots, *_ in windowed(plan).values())


def test_a_job_without_an_incast_has_no_notes():
    assert planned(LAB, {"version": 1, "jobs": [bystanders([(0, 63)])]}).jobs[0].notes == ()


def test_a_job_with_one_sender_into_an_incast_of_another_job_does_not_repeat_its_note():
    plan = planned(LAB, {"version": 1, "jobs": [gather(), bystanders([(0, 4), (8, 63)], gbps=10)]})
    (incast,), (guest,) = plan.jobs[0].notes, plan.jobs[1].notes
    assert incast.startswith("incast of 63 senders into h5-n0, beside 1 of other jobs: each sends at ")
    assert guest == "sends into h5-n0 beside other jobs, at 1.48 Gbit/s"


def test_a_job_into_many_incasts_of_another_job_has_one_short_note():
    ranks = RANKS[:16]
    everyone = {"job_id": "a2a", "ranks": ranks, "collectives": [{"kind": "ALL_TO_ALL", "bytes": 1000}]}
    ring = {"job_id": "ring", "ranks": ranks, "collectives": [{"kind": "RING_ALL_REDUCE", "bytes": 1000}]}
    notes = [job.notes for job in planned(LAB, {"version": 1, "jobs": [everyone, ring]}).jobs]
    assert notes[0] == ("incasts into 16 NICs: 0.95 of each one's rate is shared, each sender at its rate",)
    assert len(notes[1]) == 1
    assert notes[1][0].startswith("sends into 16 NICs beside other jobs, at ")
